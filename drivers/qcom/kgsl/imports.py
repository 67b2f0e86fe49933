"""Memory of others for a GPU over KGSL: pages of this process, and dma-bufs.

# src: downstream kgsl.c kgsl_ioctl_gpuobj_import(): the pages' size is priv_len, and KGSL chooses
# the GPU's address; a dma-buf is kept until the object is freed
"""

from __future__ import annotations

import errno
import struct
from functools import partial
from typing import Final, Protocol

from drivers.base.errors import BadArgument, DeviceError, MalformedInput, Unsupported
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo
from drivers.qcom.kgsl import memory
from drivers.qcom.kgsl.abi import (
    OBJECT_FREE,
    OBJECT_INFO,
    USER_MEM_ADDR,
    USER_MEM_DMABUF,
    MemFlag,
    ObjectFree,
    ObjectImport,
    ObjectInfo,
)
from drivers.qcom.kgsl.memory import KgslMemory

_ADDRESS: Final = struct.Struct("<Q")
"""struct kgsl_gpuobj_import_useraddr."""
_DESCRIPTOR: Final = struct.Struct("<i")
"""struct kgsl_gpuobj_import_dma_buf."""
_NONE: Final = frozenset({errno.EINVAL, errno.EBADF})
_FD_LIMIT: Final = 1 << 31


class Gpu(memory.Gpu, Protocol):
    """What imports need of their GPU."""

    def ask_import(self, wanted: ObjectImport, described: bytes) -> int:
        """The id of an imported object, which `described` says more of."""


def wrap(gpu: Gpu, cpu_va: int, nbytes: int, name: str) -> KgslMemory:
    """Whole pages of this process, where the SMMU looks into the host's caches.

    Raises: Unsupported where it does not; what KGSL refuses (EFAULT: nothing is mapped there).
    """
    if not gpu.coherent:
        raise Unsupported(
            "the host's caches would have to be cleaned around each kernel", hint="copy it"
        )
    flags = MemFlag.WRITEBACK | MemFlag.IOCOHERENT
    wanted = ObjectImport(priv_len=nbytes, flags=int(flags), type=USER_MEM_ADDR)
    held, kept = _imported(gpu, wanted, _ADDRESS.pack(cpu_va), name)
    if not kept & MemFlag.IOCOHERENT or held.nbytes < nbytes:
        held.free()
        raise Unsupported(
            "this KGSL does not keep imported memory coherent", hint="copy it to a buffer"
        )
    held.nbytes = nbytes
    return held


def import_dmabuf(gpu: Gpu, fd: int, first: int, nbytes: int) -> KgslMemory:
    """A dma-buf, of which `nbytes` from `first` on are used. Raises: BadArgument."""
    if not 0 <= fd < _FD_LIMIT:
        raise BadArgument(f"{fd} is not a descriptor", hint="pass its number")
    wanted = ObjectImport(priv_len=_DESCRIPTOR.size, type=USER_MEM_DMABUF)
    try:
        held, _ = _imported(gpu, wanted, _DESCRIPTOR.pack(fd), f"dma-buf {fd}")
    except DeviceError as error:
        if errno_of(error) not in _NONE:
            raise
        raise BadArgument(
            f"KGSL takes no descriptor {fd}", hint="pass one of a dma-buf that is open here"
        ) from error
    if not 0 <= first <= held.nbytes - nbytes:
        held.free()
        raise BadArgument(
            f"bytes {first} ... {first + nbytes} are outside of the {held.nbytes} of dma-buf {fd}",
            hint="correct the shape, the strides or the offset",
        )
    return held


def _imported(
    gpu: Gpu, wanted: ObjectImport, described: bytes, name: str
) -> tuple[KgslMemory, int]:
    """(the object, its flags). Raises: what KGSL refuses; MalformedInput."""
    with Undo() as undo:
        number = gpu.ask_import(wanted, described)
        undo.add(partial(OBJECT_FREE, gpu.world, gpu.fd, ObjectFree(id=number)))
        info = OBJECT_INFO(gpu.world, gpu.fd, ObjectInfo(id=number))
        if not number or not info.gpuaddr or info.gpuaddr % PAGE_BYTES or not info.nbytes:
            raise MalformedInput(
                f"KGSL put {info.nbytes:#x} bytes of object {number} at {info.gpuaddr:#x}"
            )
        return KgslMemory(gpu, name, number, info.gpuaddr, info.nbytes), info.flags
