"""Add two arrays on the default device: the program that docs/architecture.md follows."""

import numpy as np

import tensor as xp

a = xp.asarray(np.arange(8, dtype=np.float32))
b = xp.ones(8, dtype=xp.float32)
c = (a + b).numpy()
print(f"on {a.device}: {c}")
