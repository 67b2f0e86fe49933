"""A made-up Adreno: KGSL and msm in front, a command processor, an SMMU, waves of ir3 code."""
