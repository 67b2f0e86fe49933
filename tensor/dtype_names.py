"""Names of dtypes elsewhere: torch's, numpy's, Python's and DLPack's type codes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compilers import dtype as dt
from compilers.dtype import DType

__all__ = ["dlpack_code", "dtype_from", "from_dlpack_code", "torch_dtype"]

_ALIASES: Final = {
    "half": "float16", "float": "float32", "double": "float64",
    "short": "int16", "int": "int32", "long": "int64",
}  # fmt: skip
"""# src: PyTorch docs, torch.dtype ("torch.float32 or torch.float")"""
# src: dmlc/dlpack include/dlpack/dlpack.h, DLDataTypeCode
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
BFLOAT_CODE: Final = 4
_CODE_NAMES: Final = {
    0: "int", 1: "uint", 2: "float", 3: "opaque handle", 4: "bfloat", 5: "complex", 6: "bool",
    7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
    11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
    15: "float6_e2m3fn", 16: "float6_e3m2fn", 17: "float4_e2m1fn",
}  # fmt: skip


def dlpack_code(dtype: DType) -> tuple[int, int]:
    """DLPack's (code, bits)."""
    return (BFLOAT_CODE if dtype is dt.bfloat16 else _CODES[dtype.kind]), dtype.bits


_BY_CODE: Final = {dlpack_code(dtype): dtype for dtype in dt.ALL}


def from_dlpack_code(code: int, bits: int, lanes: int) -> DType:
    """The DType of DLPack's. Raises: BufferError for one that there is not here."""
    found = _BY_CODE.get((code, bits)) if lanes == 1 else None
    if found is None:
        name = f"{_CODE_NAMES.get(code, f'type code {code}')} of {bits} bits"
        lanes_text = f" and {lanes} lanes" if lanes != 1 else ""
        raise BufferError(
            f"DLPack's {name}{lanes_text} is not a dtype here; convert it to one of "
            f"{', '.join(dt.BY_NAME)}"
        )
    return found


def dtype_from(x: Any) -> DType:
    """The DType of a DType, of torch's or numpy's dtype, or of a name of one ("torch.half").

    Raises: TypeError with the names of all, for complex, quantised and 8-bit floats among others.
    """
    if isinstance(x, DType):
        return x
    if isinstance(x, str) or type(x).__module__ == "torch":
        name = str(x).removeprefix("torch.")
        found = dt.BY_NAME.get(_ALIASES.get(name, name))
    else:
        try:
            numpys = None if x is None else np.dtype(x)
        except TypeError:
            numpys = None
        if numpys is not None and not numpys.isnative:
            raise TypeError(f"{numpys!r} has another byte order; byteswap it where it comes from")
        found = None if numpys is None else dt.BY_NAME.get(numpys.name)
    if found is None:
        raise TypeError(f"{x!r:.60} is not a dtype here; convert to one of {', '.join(dt.BY_NAME)}")
    return found


def torch_dtype(dtype: DType) -> Any:
    """torch's dtype of the same elements: getattr(torch, name). Raises: ImportError without torch.

    Raises: TypeError where the installed torch has none, as of uint16 ... uint64 before 2.3.
    """
    import torch

    found = getattr(torch, dtype_from(dtype).name, None)
    if found is None:
        raise TypeError(f"this torch has no {dtype.name}; convert to another dtype, or update it")
    return found
