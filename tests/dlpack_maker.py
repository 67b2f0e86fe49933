"""DLPack capsules made by hand, by the C declarations of dlpack.h: a producer of its own.

# src: dmlc/dlpack v1.1 include/dlpack/dlpack.h
"""

from __future__ import annotations

import ctypes
from typing import Any

FLAG_READ_ONLY, FLAG_COPIED = 1, 2
CPU, CUDA, CUDA_HOST, OPENCL, METAL, ROCM = 1, 2, 3, 4, 8, 10


class DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLPackVersion(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", DELETER))


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("version", DLPackVersion),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_new, _name, _pointer, _valid = (
    _api.PyCapsule_New, _api.PyCapsule_GetName, _api.PyCapsule_GetPointer, _api.PyCapsule_IsValid,
)  # fmt: skip
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR)
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_valid.restype = ctypes.c_int
_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"


def managed(capsule: Any) -> Any:
    """The struct of a capsule that nobody took over."""
    for name, kind in ((LEGACY, DLManagedTensor), (VERSIONED, DLManagedTensorVersioned)):
        if _valid(id(capsule), name):
            struct = kind.from_address(_pointer(id(capsule), name))
            struct.capsule = capsule  # which frees it
            return struct
    raise ValueError(f"{capsule!r} is no fresh capsule")


_exported: list[Producer] = []
"""Producers of capsules that were not given back: their structs are in use."""


class Producer:
    """An object with DLPack's protocol; `deleted` counts how often its memory was given back.

    `version` None makes legacy capsules. As the specification says, a capsule that nobody took over
    calls the deleter when it ends, and a consumer calls it otherwise.
    """

    def __init__(
        self, data: int, shape: tuple[int, ...], dtype: tuple[int, int, int], *,
        device: tuple[int, int] = (CPU, 0), strides: tuple[int, ...] | None = None,
        byte_offset: int = 0, version: tuple[int, int] | None = (1, 1), flags: int = 0,
    ) -> None:  # fmt: skip
        self.deleted, self.device = 0, device
        self.asked: list[dict[str, Any]] = []
        count = len(shape)
        self._shape = (ctypes.c_int64 * max(count, 1))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * max(count, 1))(*strides)
        null = ctypes.POINTER(ctypes.c_int64)()
        steps = null if self._strides is None else ctypes.cast(self._strides, type(null))
        tensor = DLTensor(
            data, DLDevice(*device), count, DLDataType(*dtype),
            ctypes.cast(self._shape, type(null)), steps, byte_offset,
        )  # fmt: skip
        self._deleter, self._destructor = DELETER(self._delete), DESTRUCTOR(self._end)
        self.name = LEGACY if version is None else VERSIONED
        if version is None:
            self.managed: Any = DLManagedTensor(tensor, None, self._deleter)
        else:
            self.managed = DLManagedTensorVersioned(
                DLPackVersion(*version), None, self._deleter, flags, tensor
            )

    def _delete(self, _: int) -> None:
        self.deleted += 1
        if self in _exported:
            _exported.remove(self)

    def _end(self, capsule: int) -> None:
        if _valid(capsule, self.name):
            self._delete(0)

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        _exported.append(self)
        return _new(ctypes.addressof(self.managed), self.name, self._destructor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device
