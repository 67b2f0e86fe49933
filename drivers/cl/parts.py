"""Parts of buffers: shared virtual memory from an address on, or sub-buffers of a cl_mem.

A part is a buffer like any other: for kernels, copies and other libraries. It does not outlive the
buffer that it lies in.
"""

from __future__ import annotations

from drivers.base.errors import BadArgument, DeviceError, Unsupported
from drivers.cl import abi
from drivers.cl.api import Words
from drivers.cl.derived import Derived, plain
from drivers.cl.device import ClDevice
from drivers.cl.memory import Block, ClBuffer
from drivers.hosted.buffer import HostedBuffer
from drivers.hosted.owned import own_buffer


def part(device: ClDevice, buffer: object, first: int, nbytes: int) -> ClBuffer:
    """`nbytes` of a buffer from byte `first` on, without a copy.

    Raises: BadArgument for bytes outside of it; UseAfterFree; Unsupported for a cl_mem where
    `first` is not aligned as the device needs it, and for another library's sub-buffer.
    # src: OpenCL API 3.0, clCreateSubBuffer: CL_INVALID_MEM_OBJECT for a sub-buffer
    """
    whole: ClBuffer = own_buffer(device, buffer)
    device.enter()
    with device.lock:
        device.check_open()
        device.collect()  # those of earlier parts: a caller may allocate nothing between them
        block = plain(whole.block)
        numbers = type(first) is int and type(nbytes) is int
        if not numbers or first < 0 or not 0 < nbytes <= whole.nbytes - first:
            raise BadArgument(
                f"{nbytes!r} bytes from byte {first!r} on are not inside of {whole.nbytes}",
                hint="pass a part of one byte or more that lies inside",
            )
        made = Block(block.gpu_va + first, nbytes, 0)
        made.over, made.origin = block.base, block.origin + first
        derived = Derived(device, [])
        if block.handle:
            made.handle = _sub_buffer(device, made)
            derived = Derived(device, [made.handle])
        device.derive(derived)
        inside: ClBuffer = HostedBuffer(device, made, nbytes, derived.close, whole)
        inside.readonly = whole.readonly
        return inside


def _sub_buffer(device: ClDevice, made: Block) -> int:
    align = device.facts.part_align_bytes
    if made.origin % align:
        raise Unsupported(
            f"a sub-buffer of {device.name} cannot begin at byte {made.origin}",
            hint=f"begin at a multiple of {align} (CL_DEVICE_MEM_BASE_ADDR_ALIGN), or copy it",
        )
    region = Words([made.origin, made.nbytes])
    kind, base, api = abi.BUFFER_CREATE_TYPE_REGION, made.base.handle, device.api
    try:
        return api.make("clCreateSubBuffer", base, 0, kind, region.at, nbytes=made.nbytes)
    except DeviceError as error:
        if not api.number("clGetMemObjectInfo", base, abi.MEM_ASSOCIATED_MEMOBJECT):
            raise
        raise Unsupported(
            f"{base:#x} of another library is a sub-buffer, which OpenCL does not divide again",
            hint="share the buffer that it lies in, and the bytes' place in that",
        ) from error
