"""numpy arrays as boards pass them around."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Words: TypeAlias = NDArray[np.uint32]
Addresses: TypeAlias = NDArray[np.uint64]
