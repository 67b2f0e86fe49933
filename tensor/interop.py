"""Interfaces to other libraries: DLPack, the buffer protocol, numpy.

numpy makes and reads the capsules; a bfloat16 tensor travels through it as uint16, with the type
code in the capsule's header set to what the bits mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from drivers.choice import split_name
from drivers.kinds import BEST_FIRST, BY_NAME
from tensor import engine
from tensor.core import Tensor, wrap
from tensor.creation import asarray

HOST = 1
"""DLPack's device type of host memory: kDLCPU."""
# src: dmlc/dlpack include/dlpack/dlpack.h, DLDataTypeCode
UINT_CODE, BFLOAT_CODE = 1, 4
# src: dlpack.h: DLTensor is {void *data; DLDevice; i32 ndim; DLDataType{u8 code, u8 bits}; ...}
CODE_OFF, BITS_OFF = 20, 21
# src: dlpack.h: DLManagedTensorVersioned is {u32 major, minor; ctx; deleter; u64 flags; DLTensor}
VERSIONED_TENSOR_OFF = 32
LEGACY_TENSOR_OFF = 0
HEADER_BYTES = 24


def _bits(x: Tensor) -> NDArray[Any]:
    """The elements as numpy holds them; bfloat16 as uint16."""
    return engine.to_numpy(x._node, x.device)


def device_code(device: str) -> tuple[int, int]:
    """DLPack's (type, number) of a device. Raises: BufferError for one without a type."""
    kind, number = split_name(device)
    code = BY_NAME[kind].dlpack
    if not code:
        host = next(known.name for known in BEST_FIRST if known.dlpack == HOST)
        raise BufferError(f"{device} does not export DLPack; use .to({host!r}) first")
    return code, number


def to_memoryview(x: Tensor) -> memoryview:
    """The elements as a read-only buffer, shared on the CPU. Raises: BufferError for bfloat16."""
    if x.dtype is dt.bfloat16:
        raise BufferError("the buffer protocol has no bfloat16; use astype(x, float32)")
    return _bits(x).data


def to_capsule(
    x: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A DLPack capsule: versioned when the consumer knows version 1, else legacy.

    A legacy capsule has no read-only flag, so that it is always of a copy.
    Raises: BufferError when the request is not possible.
    """
    if stream is not None:
        raise BufferError("a tensor in host memory has no stream; pass stream=None")
    if dl_device is not None and dl_device[0] != HOST:
        raise BufferError(f"device {dl_device} cannot see this tensor; only (1, 0) can")
    device_code(x.device)
    versioned = max_version is not None and max_version[0] >= 1
    if copy is False and not versioned:
        raise BufferError("a legacy capsule needs a copy; ask with max_version=(1, 1)")
    array = _bits(x)
    if not versioned:
        capsule = array.copy().__dlpack__()
    else:
        capsule = array.__dlpack__(max_version=max_version, copy=copy)
    if x.dtype is dt.bfloat16:
        _set_code(capsule, UINT_CODE, BFLOAT_CODE)
    return capsule


class _Producer:
    """Passes an existing capsule to numpy."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of any object with DLPack's protocol, sharing its memory on the CPU.

    Raises: BufferError for memory that the host cannot access, TypeError without the protocol.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{type(x).__name__} has no __dlpack__; use asarray")
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    where = x.__dlpack_device__()
    if where[0] != HOST:
        raise BufferError(f"DLPack device type {int(where[0])} is not host memory; copy it there")
    try:
        capsule = x.__dlpack__(max_version=(1, 1), copy=copy)
    except TypeError:  # a producer older than DLPack 1.0 knows neither argument
        if copy is False:
            raise
        capsule = x.__dlpack__()
    bfloat = _set_code(capsule, BFLOAT_CODE, UINT_CODE)
    array: NDArray[Any] = np.from_dlpack(_Producer(capsule, (HOST, 0)))
    target = engine.device_name(device)
    return wrap(np.asarray(array, order="C"), target, dt.bfloat16 if bfloat else None)


def _set_code(capsule: Any, old: int, new: int) -> bool:
    """Change the type code of a 16-bit tensor in a capsule; whether it was `old` before.

    The header is found through the capsule object, whose first field after the object header is
    the pointer it carries. # src: CPython Objects/capsule.c, struct PyCapsule
    """
    import cffi

    ffi = cffi.FFI()
    field = ffi.cast("uint64_t *", id(capsule) + object.__basicsize__)
    start = VERSIONED_TENSOR_OFF if "_versioned" in repr(capsule) else LEGACY_TENSOR_OFF
    header = ffi.buffer(ffi.cast("char *", field[0] + start), HEADER_BYTES)
    code, bits = header[CODE_OFF][0], header[BITS_OFF][0]
    if code != old or bits != 16:
        return False
    header[CODE_OFF] = bytes([new])
    return True
