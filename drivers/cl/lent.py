"""Memory that OpenCL devices share with other libraries: cl_mem objects and SVM pointers.

A cl_mem belongs to one context: another library shares memory by working in this device's context,
whose handle `handles` gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Final

from drivers.base.errors import BadArgument, DeviceError, Unsupported
from drivers.base.lent import ADDRESS, SVM, Lent, checked_kind
from drivers.cl import abi
from drivers.cl.derived import plain
from drivers.cl.device import ClDevice
from drivers.cl.libraries import word
from drivers.cl.memory import BUFFER, FINE, Block, BufferOwner, ClBuffer
from drivers.hosted.buffer import HostedBuffer
from drivers.world.own_memory import check_mapped

CL_MEM: Final = "cl_mem"
_HANDLE_BYTES: Final = abi.POINTER_BYTES


def _lent(
    device: ClDevice, block: Block, release: Callable[[], None], *, readonly: bool
) -> ClBuffer:
    """Memory of another library: never reused, and its owner is kept until no work uses it."""
    made: ClBuffer = HostedBuffer(device, block, block.nbytes, partial(device.drop_lent, release))
    made.readonly = readonly
    return made


def handles(device: ClDevice) -> dict[str, int]:
    """What another library needs to work in the device's context."""
    device.check_open()
    found = device.facts.found
    return {
        "cl_platform_id": found.platform,
        "cl_device_id": found.device,
        "cl_context": device.raw.context,
    }


def borrow(device: ClDevice, lent: Lent) -> tuple[ClBuffer, int]:
    """A buffer over the whole cl_mem, or over the lent bytes of an SVM pointer; and where these
    begin in it. The cl_mem is retained; the owner is kept.

    Raises: BadArgument for no cl_mem, one of another context, bytes outside of it, or read-only
    memory that is not declared so; Unsupported for memory that kernels cannot read, or SVM, or
    the host's own memory, where the device does not reach it.
    """
    device.enter()
    with device.lock:
        device.check_open()
        kind = checked_kind(lent, (CL_MEM, SVM, ADDRESS), device.name)
        if kind == ADDRESS:
            _check_system(device)
        if kind == CL_MEM:
            found, first = _borrow_object(device, lent), lent.first
        else:
            found, first = _borrow_address(device, lent, host=kind == ADDRESS), 0
        device.collect()  # after: what is given back may be the last other reference to it
        return found, first


def _borrow_object(device: ClDevice, lent: Lent) -> ClBuffer:
    nbytes = _checked(device, lent)
    device.api.do("clRetainMemObject", lent.pointer)
    release = partial(_released, device, lent.pointer, lent.owner)
    block = device.raw.number(nbytes, lent.pointer)
    return _lent(device, block, release, readonly=lent.readonly)


def _check_system(device: ClDevice) -> None:
    """Raises: Unsupported where kernels do not reach all of the host's memory."""
    if not device.facts.svm & abi.SVM_FINE_GRAIN_SYSTEM:
        raise Unsupported(
            f"{device.name} does not reach the host's own memory: it has no "
            "CL_DEVICE_SVM_FINE_GRAIN_SYSTEM",
            hint="share memory of clSVMAlloc or a cl_mem, or copy the elements",
        )


def _borrow_address(device: ClDevice, lent: Lent, *, host: bool) -> ClBuffer:
    if device.memory_kind == BUFFER:
        raise Unsupported(
            f"{device.name} has no shared virtual memory, or CL_MEMORY=BUFFER is set",
            hint="share a cl_mem, or copy the elements",
        )
    if host or device.memory_kind == FINE:
        check_mapped(lent.address, lent.nbytes, writable=not lent.readonly)
    block = Block(lent.address, lent.nbytes, 0)
    return _lent(device, block, partial(_kept, lent.owner), readonly=lent.readonly)


def _checked(device: ClDevice, lent: Lent) -> int:
    """Size of a cl_mem of the device's context that kernels may read."""
    name, api = f"{lent.pointer:#x}", device.api
    check_mapped(lent.pointer, _HANDLE_BYTES, writable=False)
    # src: cl_khr_icd: the first word of every object is the address of its dispatch table
    tables = (word(device.world, handle) for handle in (lent.pointer, device.raw.context))
    if len(set(tables)) != 1:
        raise BadArgument(
            f"{name} is not a cl_mem of {device.facts.found.platform_name}",
            hint="pass its handle (pyopencl: Buffer.int_ptr), or choose its platform by CL_DEVICE",
        )

    def number(which: int) -> int:
        return api.number("clGetMemObjectInfo", lent.pointer, which)

    try:
        kind = number(abi.MEM_TYPE)
    except DeviceError as error:
        raise _no_memory(name, error.message) from error
    if kind in abi.MEM_OBJECT_IMAGES:
        raise Unsupported(f"{name} is an image", hint="copy it: clEnqueueCopyImageToBuffer")
    if kind != abi.MEM_OBJECT_BUFFER:
        raise _no_memory(name, f"type {kind:#x}")
    if number(abi.MEM_CONTEXT) != device.raw.context:
        raise BadArgument(
            f"{name} belongs to another context than {device.name}",
            hint="create it in tensor.native_handles()['cl_context'], or copy the elements",
        )
    flags = number(abi.MEM_FLAGS)
    if flags & abi.MEM_WRITE_ONLY:
        raise Unsupported(f"kernels may not read {name}", hint="create it without WRITE_ONLY")
    if flags & abi.MEM_READ_ONLY and not lent.readonly:
        raise BadArgument(f"kernels may not write {name}", hint="pass readonly=True")
    nbytes = number(abi.MEM_SIZE)
    if not 0 <= lent.first <= nbytes - lent.nbytes:
        raise BadArgument(
            f"bytes {lent.first} ... {lent.first + lent.nbytes} are outside of {nbytes} of {name}",
            hint="correct the shape, the strides or the offset",
        )
    return nbytes


def _no_memory(name: str, why: str) -> BadArgument:
    return BadArgument(
        f"{name} is not a cl_mem, or it was released ({why})",
        hint="keep the object that has it, and pass it as owner=",
    )


def _released(device: ClDevice, handle: int, owner: object) -> None:
    """Commands that use a cl_mem keep it. # src: OpenCL API 3.0, clReleaseMemObject"""
    device.api.do("clReleaseMemObject", handle)
    _kept(owner)


def _view_released(device: BufferOwner, block: Block, handle: int) -> None:
    try:
        device.raw.api.do("clReleaseMemObject", handle)
    finally:
        device.raw.view_gone(block)


def _kept(owner: object) -> None:
    """With this call the reference to an owner is gone."""


def lend(buffer: ClBuffer) -> tuple[int, object]:
    """The cl_mem of a buffer, and what keeps it valid beside the buffer.

    One over shared virtual memory is made for it. # src: OpenCL API 3.0, clCreateBuffer, "If
    CL_MEM_USE_HOST_PTR is specified and host_ptr is a SVM pointer": the same memory
    """
    device, block = buffer.device, plain(buffer.block)
    if block.handle:
        return block.handle, None
    device.enter()
    with device.lock:
        device.check_open()
        device.collect()
        flags = abi.MEM_READ_WRITE | abi.MEM_USE_HOST_PTR
        handle = device.raw.api.make(
            "clCreateBuffer", device.raw.context, flags, buffer.nbytes, block.gpu_va,
            nbytes=buffer.nbytes,
        )  # fmt: skip
        block.base.views += 1
    return handle, _View(device, block.base, handle)


class _View:
    """A cl_mem over other memory, released with the last reference to this.

    The memory stays until then, also when the device is closed.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, device: BufferOwner, block: Block, handle: int) -> None:
        release = partial(_view_released, device, block, handle)
        weakref.finalize(self, device.drop_lent, release).atexit = False
