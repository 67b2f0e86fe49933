"""Two-dimensional images over the memory of a buffer: what kernels read through a sampler.

An image is an argument of kernels, in the place of a buffer. The memory stays the buffer's: what a
kernel writes into one is read from the other by later commands.
# src: OpenCL API 3.0, clCreateImage, "image created from buffer"; cl_khr_image2d_from_buffer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.errors import BadArgument, Unsupported
from drivers.base.undo import Undo
from drivers.cl import abi
from drivers.cl.api import Words
from drivers.cl.derived import Derived, plain
from drivers.cl.device import ClDevice
from drivers.cl.memory import Block, ClBuffer
from drivers.hosted.buffer import HostedBuffer
from drivers.hosted.owned import own_buffer

FROM_BUFFER: Final = "cl_khr_image2d_from_buffer"
_CORE: Final = range(2, 3)
"""Major versions of OpenCL that have it without the extension."""
MAX_FORMATS: Final = 1 << 10
_HIGH: Final = 32
# src: OpenCL-Headers 15b536b, CL/cl.h: cl_channel_order, cl_channel_type
_R, _RG, _RGBA = 0x10B0, 0x10B2, 0x10B5
_UNORM8, _SINT32, _UINT8, _UINT32, _HALF, _FLOAT = 0x10D2, 0x10D9, 0x10DA, 0x10DC, 0x10DD, 0x10DE


@dataclass(frozen=True, slots=True)
class Format:
    """Channels of a pixel: cl_image_format, and the bytes of one."""

    order: int
    kind: int
    pixel_bytes: int

    @property
    def word(self) -> int:
        """Both numbers as they lie in memory."""
        return self.kind << _HIGH | self.order


FORMATS: Final = {
    "r8uint": Format(_R, _UINT8, 1),
    "rgba8uint": Format(_RGBA, _UINT8, 4),
    "rgba8unorm": Format(_RGBA, _UNORM8, 4),
    "r16float": Format(_R, _HALF, 2),
    "rgba16float": Format(_RGBA, _HALF, 8),
    "r32uint": Format(_R, _UINT32, 4),
    "r32sint": Format(_R, _SINT32, 4),
    "r32float": Format(_R, _FLOAT, 4),
    "rg32float": Format(_RG, _FLOAT, 8),
    "rgba32float": Format(_RGBA, _FLOAT, 16),
}
"""By the names that WebGPU and Vulkan have for them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one image; `pitch_bytes` from one row to the next."""

    width: int
    height: int
    pitch_bytes: int
    format: Format


def image(
    device: ClDevice, buffer: object, width: int, height: int, pitch_bytes: int, format: str
) -> ClBuffer:
    """An image of `width` x `height` pixels over a buffer, without a copy.

    Raises: BadArgument for a shape that is none, or outside of the buffer; UseAfterFree;
    Unsupported, with the reason, for what the device does not offer.
    """
    whole: ClBuffer = own_buffer(device, buffer)
    device.enter()
    with device.lock:
        device.check_open()
        device.collect()  # those of earlier images: a caller may allocate nothing between them
        block = plain(whole.block)
        shape = _checked(whole.nbytes, width, height, pitch_bytes, format)
        _check_offered(device, shape, format)
        _check_base(device, block, shape)
        handles = _make(device, block, shape)
        made = device.raw.number(block.nbytes, handles[0])
        made.over, made.origin, made.image = block.base, block.origin, True
        derived = Derived(device, handles)
        device.derive(derived)
        return HostedBuffer(device, made, whole.nbytes, derived.close, whole)


def _checked(nbytes: int, width: int, height: int, pitch_bytes: int, name: str) -> Shape:
    found = FORMATS.get(name)
    if found is None:
        raise BadArgument(f"{name!r:.40} is not a format", hint=f"pass one of {', '.join(FORMATS)}")
    numbers = width, height, pitch_bytes
    if any(type(one) is not int or one < 1 for one in numbers):
        raise BadArgument(f"{numbers!r:.80} is not a shape", hint="pass whole numbers above 0")
    if pitch_bytes < width * found.pixel_bytes:
        raise BadArgument(
            f"rows of {width} pixels do not fit {pitch_bytes} bytes",
            hint=f"pitch_bytes is {width * found.pixel_bytes} or more",
        )
    if pitch_bytes * height > nbytes:
        raise BadArgument(
            f"{height} rows of {pitch_bytes} bytes are outside of {nbytes}",
            hint="allocate whole rows, the last one included",
        )
    return Shape(width, height, pitch_bytes, found)


def _check_offered(device: ClDevice, shape: Shape, name: str) -> None:
    """Raises: Unsupported for what the device has no images of."""
    facts = device.facts
    if not _asked(device, abi.DEVICE_IMAGE_SUPPORT):
        raise Unsupported(f"{device.name} has no images", hint="read the buffer itself")
    if FROM_BUFFER not in facts.extensions and facts.version[0] not in _CORE:
        raise Unsupported(
            f"{device.name} makes no image of a buffer: it has no {FROM_BUFFER}",
            hint="read the buffer itself, or choose another device with CL_DEVICE",
        )
    widest = _asked(device, abi.DEVICE_IMAGE2D_MAX_WIDTH)
    highest = _asked(device, abi.DEVICE_IMAGE2D_MAX_HEIGHT)
    if shape.width > widest or shape.height > highest:
        raise Unsupported(
            f"{device.name} has images of at most {widest} x {highest} pixels",
            hint="make several images of parts of the buffer",
        )
    align = _asked(device, abi.DEVICE_IMAGE_PITCH_ALIGNMENT) * shape.format.pixel_bytes
    if align and shape.pitch_bytes % align:
        raise Unsupported(
            f"rows of {device.name} cannot be {shape.pitch_bytes} bytes apart",
            hint=f"pass a multiple of {align} (CL_DEVICE_IMAGE_PITCH_ALIGNMENT)",
        )
    if shape.format.word not in _formats(device):
        raise Unsupported(
            f"{device.name} has no images of {name}",
            hint="clGetSupportedImageFormats does not list it: choose another format",
        )


def _check_base(device: ClDevice, block: Block, shape: Shape) -> None:
    """Raises: Unsupported for shared virtual memory that begins between aligned pixels."""
    align = _asked(device, abi.DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT) * shape.format.pixel_bytes
    if align and not block.handle and block.gpu_va % align:
        raise Unsupported(
            f"an image of {device.name} cannot begin at {block.gpu_va:#x}",
            hint=f"it begins at a multiple of {align} (CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT): "
            f"make it of a part of a larger buffer, from byte {-block.gpu_va % align} on",
        )


def _asked(device: ClDevice, which: int) -> int:
    return device.api.number("clGetDeviceInfo", device.facts.found.device, which)


def _formats(device: ClDevice) -> frozenset[int]:
    """cl_image_format of everything that kernels read and write in two dimensions."""
    about = device.raw.context, abi.MEM_READ_WRITE, abi.MEM_OBJECT_IMAGE2D
    count, call = Words([0]), "clGetSupportedImageFormats"
    device.api.do(call, *about, 0, 0, count.at)
    number = min(count.words[0] & ((1 << _HIGH) - 1), MAX_FORMATS)
    rows = Words([0] * number)
    if number:
        device.api.do(call, *about, number, rows.at, 0)
    return frozenset(rows.words)


def _make(device: ClDevice, block: Block, shape: Shape) -> list[int]:
    """The image, and the cl_mem over shared virtual memory where that is what it shows."""
    api, context = device.api, device.raw.context
    handles: list[int] = []
    with Undo() as undo:
        handle = block.handle
        if not handle:
            flags = abi.MEM_READ_WRITE | abi.MEM_USE_HOST_PTR
            place = block.gpu_va
            handle = api.make(
                "clCreateBuffer", context, flags, block.nbytes, place, nbytes=block.nbytes
            )
            handles = [handle]
            undo.add(lambda: api.do("clReleaseMemObject", handle))
        form = Words([shape.format.word])
        # cl_image_desc: type; width, height, depth, array size; row and slice pitch; levels and
        # samples; the buffer
        sizes = shape.width, shape.height, 1, 1, shape.pitch_bytes, 0
        about = Words([abi.MEM_OBJECT_IMAGE2D, *sizes, 0, handle])
        made = api.make("clCreateImage", context, 0, form.at, about.at, 0, nbytes=block.nbytes)
        return [made, *handles]
