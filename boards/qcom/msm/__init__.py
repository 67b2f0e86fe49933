"""/dev/dri/renderD128 of the msm driver, as Linux has it."""
