"""DLPack and the buffer protocol, both ways, on every device with a DLPack device type."""

from __future__ import annotations

from operator import index
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from compilers.dtype import DType
from drivers.base.errors import BadArgument, NotFound, Unsupported
from drivers.base.lent import Lent
from drivers.choice import split_name
from drivers.kinds import BEST_FIRST, BY_NAME, named
from tensor import engine
from tensor.arguments import takes_tensors
from tensor.capsule import VERSION, Capsule, Header
from tensor.core import Tensor, wrap
from tensor.creation import asarray
from tensor.dtype_names import dlpack_code, from_dlpack_code
from tensor.executable import LentStorage, Storage
from tensor.sharing import is_writable, lent_node
from tensor.strides import Strided, row_major

__all__ = [
    "array_interface",
    "buffer_of",
    "described",
    "device_code",
    "from_dlpack",
    "to_capsule",
    "to_memoryview",
]

HOST: Final = 1
"""DLPack's device type of host memory: kDLCPU."""
# src: dlpack.h, DLDeviceType
PINNED: Final = (3, 11)
"""kDLCUDAHost, kDLROCMHost: host memory that a GPU reaches, too."""
_LEAST_TYPE: Final = 1
_NUMBERS: Final = 1 << 31
"""# src: dlpack.h, DLDevice: int32_t device_id"""
_ADDRESSES: Final = 1 << 64
_MOST_BYTES: Final = (1 << 63) - 1
_WRITABLE: Final = 0x1
_FORTRAN: Final = 0x58
"""# src: CPython Include/pybuffer.h, PyBUF_WRITABLE, PyBUF_F_CONTIGUOUS"""


def device_code(device: str) -> tuple[int, int]:
    """DLPack's (type, number) of a device. Raises: BufferError for one without a type."""
    kind, number = split_name(device)
    code = BY_NAME[kind].dlpack
    if not code or (code != HOST and not BY_NAME[kind].lends):
        host = next(known.name for known in BEST_FIRST if known.dlpack == HOST)
        raise BufferError(f"{device} does not export DLPack; use .to({host!r}) first")
    return code, number


@takes_tensors
def to_memoryview(x: Tensor) -> memoryview:
    """The elements as a buffer, shared on the CPU. Raises: BufferError for bfloat16.

    Read-only, except memory of another library that may write it. What `memoryview(x)` is from
    Python 3.12 on; before, classes cannot have the buffer protocol.
    """
    return buffer_of(x, 0)


def buffer_of(x: Tensor, flags: int) -> memoryview:
    """What `__buffer__` gives for a request.

    Raises: BufferError for bfloat16, for a request to write read-only memory, and for
    elements in Fortran's order, which only rank 0 and 1 have.
    """
    asked = index(flags)
    if x.dtype is dt.bfloat16:
        raise BufferError("the buffer protocol has no bfloat16; use astype(x, float32)")
    array = _on_the_host(x)
    if asked & _WRITABLE and not array.flags.writeable:
        raise BufferError("this tensor is read-only; write to a copy: np.array(x)")
    if asked & _FORTRAN == _FORTRAN and not array.flags.f_contiguous:
        raise BufferError("a tensor is in C order; copy it: np.asfortranarray(x)")
    return array.data


def _on_the_host(x: Tensor) -> NDArray[Any]:
    """The elements, with the owner's right to write where they are its own memory."""
    node = engine.realized(x._node, x.device)
    writable = _code(x.device) == HOST and is_writable(node.storage)
    return engine.to_numpy(node, x.device, writable=writable)


def array_interface(x: Tensor) -> dict[str, Any]:
    """numpy's array interface, version 3, of the CPU: "data" is a buffer, which keeps the memory.

    Read-only, except memory of another library that may write it.
    Raises: AttributeError for bfloat16 and on other devices, where numpy asks `__array__` instead.
    """
    if _code(x.device) != HOST or x.dtype is dt.bfloat16:
        raise AttributeError(f"{x.dtype.name} on {x.device} has no array interface; use .numpy()")
    array = _on_the_host(x)
    said = array.__array_interface__
    # An address would be the memory of x, which an in-place operator gives another one.
    # src: NumPy, The array interface protocol, data: "an object exposing the buffer interface"
    return {"version": 3, "shape": said["shape"], "typestr": said["typestr"], "data": array.data}


def described(x: Tensor, name: str) -> dict[str, Any]:
    """The memory of a device as its own array interface describes it, version 3.

    The consumer's work is to wait for "stream". Keep the tensor meanwhile.
    Raises: AttributeError for bfloat16 and on devices of other kinds.
    """
    kind = BY_NAME[split_name(x.device)[0]]
    if kind.array_interface != name or x.dtype is dt.bfloat16:
        raise AttributeError(f"{x.dtype.name} on {x.device} has no {name}; use .numpy()")
    node = engine.realized(x._node, x.device)
    x._node = node
    pointer, _ = named(kind.lends)(node.storage.buffer)
    stream = named(kind.streams)(engine.device(x.device)).mine()
    return {
        "version": 3, "shape": x.shape, "typestr": np.dtype(x.dtype.storage).str, "strides": None,
        "data": (pointer if x.size else 0, not is_writable(node.storage)), "stream": stream,
    }  # fmt: skip


def to_capsule(
    x: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A DLPack capsule: versioned when the consumer knows version 1, else legacy.

    Results are exported read-only, memory of other libraries as it came. A legacy capsule has no
    read-only flag, so that it is of a copy where nobody may write. All work is done when it is
    returned; with a `stream`, where the device has streams, that one waits for the work instead.
    `dl_device` (1, 0) copies from any device to host memory.
    Raises: BufferError when the request is not possible.
    """
    if stream is not None and not BY_NAME[split_name(x.device)[0]].streams:
        raise BufferError(f"work on {x.device} has no stream; pass stream=None")
    there = device_code(x.device) if dl_device is None else _pair(dl_device, "dl_device is")
    known = (0, 0) if max_version is None else _two(max_version, "max_version is")
    versioned = known[0] >= VERSION[0]
    minor = min(VERSION, known)[1]
    moved = there[0] != _code(x.device) or (there[0] != HOST and there != device_code(x.device))
    if moved and there[0] != HOST:
        raise BufferError(
            f"device {there} cannot see memory of {x.device}; (1, 0), the host, has a copy"
        )
    node = engine.realized(x._node, x.device)
    shared = is_writable(node.storage)
    # A view that is nothing but a reshape has its lender's memory.
    fresh = node is not x._node and not isinstance(node.storage, LentStorage)
    needed = ""
    if moved:
        needed = "another device"
    elif fresh:
        needed = "memory that is not contiguous"
    elif not versioned and not shared:
        needed = "a legacy capsule"
    if copy is False and needed:
        raise BufferError(f"{needed} needs a copy; pass copy=None, or max_version=(1, 1)")
    copied = bool(copy or needed)
    if there[0] == HOST:
        array = engine.to_numpy(node, x.device, writable=shared or fresh)
        array = array.copy() if copied and not fresh else array
    else:
        node = engine.copy(node, x.device, x.device) if copied and not fresh else node
        array = _of_handle(node.storage, node.dtype, node.shape, shared or copied, stream)
    capsule = array.__dlpack__(max_version=VERSION) if versioned else array.__dlpack__()
    header = Capsule(capsule)
    header.write((there[0], 0 if there[0] == HOST else there[1]), dlpack_code(x.dtype)[0])
    header.mark(minor, copied=copied)
    return capsule


def _code(device: str) -> int:
    return BY_NAME[split_name(device)[0]].dlpack


def _two(value: Any, place: str) -> tuple[int, int]:
    """Two whole numbers of another library. Raises: BufferError."""
    try:
        first, second = (index(word) for word in value)
    except (TypeError, ValueError) as error:
        raise BufferError(
            f"{place} {value!r:.60}, which is not a pair of numbers such as (1, 0)"
        ) from error
    return first, second


def _pair(device: Any, place: str) -> tuple[int, int]:
    """DLPack's (type, number). Raises: BufferError for anything else, and for types below 1."""
    kind, number = _two(device, place)
    if not _LEAST_TYPE <= kind < _NUMBERS or not 0 <= number < _NUMBERS:
        raise BufferError(
            f"{place} device type {kind}, number {number}, which DLPack has none of; "
            "host memory is (1, 0)"
        )
    return kind, number


def _of_handle(
    storage: Storage, dtype: DType, shape: tuple[int, ...], writable: bool, stream: int | None
) -> NDArray[Any]:
    """An array at a handle instead of an address: only its capsule may be used."""
    kind = BY_NAME[split_name(storage.device)[0]]
    if stream is None:
        engine.synchronize(storage.device)
    else:
        named(kind.streams)(engine.device(storage.device)).follow(stream)
    handle, kept = named(kind.lends)(storage.buffer)
    return np.asarray(engine.Exported((storage, kept), handle, dtype, shape, writable=writable))


class _Producer:
    """Passes an existing capsule to numpy."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST, 0


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of any object with DLPack's protocol, sharing its memory where the device can.

    Without `device` it stays where it is: host memory on the default device, which copies unless
    it is the CPU, OpenCL's on the device of that number. copy=True copies here what its library
    did not, as one older than DLPack 1.0. Other memory is copied by its own library,
    when `device` or copy=True asks for it. The producer's work must be done: it has no stream here.
    What its library says of the memory is trusted, as DLPack has it: no pointer can be checked.
    Raises: BufferError for memory that cannot be reached, a dtype there is not, a capsule that
    contradicts `__dlpack_device__` or itself, or copy=False where a copy is needed; TypeError
    without the protocol.
    """
    for name in ("__dlpack__", "__dlpack_device__"):
        if not hasattr(x, name):
            raise TypeError(f"{type(x).__name__} has no {name}; use asarray")
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    source = _pair(x.__dlpack_device__(), f"{type(x).__name__}.__dlpack_device__() gave")
    target = None if device is None else engine.device_name(device)
    kind = next((one.name for one in BEST_FIRST if one.dlpack == source[0]), "")
    if source[0] in (HOST, *PINNED):
        return _from_host(_request(x, copy), source, target or engine.default_device(), copy)
    where = target if target and split_name(target)[0] == kind else f"{kind}:{source[1]}"
    if kind and BY_NAME[kind].opens and _has_driver(kind, where):
        here, more = bool(copy) and target in (None, where), {}
        if streams := BY_NAME[kind].streams:
            more = {"stream": named(streams)(engine.device(where)).mine()}
        capsule = _request(x, copy, **more)
        found = _on_device(capsule, source, engine.device_name(where), kind, copy=here)
        return found if target is None else _moved(found, target, copy)
    if target is None and not copy:
        raise BufferError(
            f"DLPack device type {source[0]} is not host memory; from_dlpack(..., device='CPU') "
            "asks its library for a copy there"
        )
    source = HOST, 0
    capsule = _request(x, copy, dl_device=source)
    return _from_host(capsule, source, target or engine.default_device(), copy)


def _has_driver(kind: str, where: str) -> bool:
    """Whether this machine has the driver of a kind whose queues take part in the exchange."""
    if not BY_NAME[kind].streams:
        return True
    try:
        engine.device(where)
    except NotFound:
        return False
    return True


def _request(x: Any, copy: bool | None, **more: Any) -> Any:
    """The producer's capsule. Raises: BufferError where it is too old for a copy to the host."""
    try:
        return x.__dlpack__(max_version=VERSION, copy=copy, **more)
    except TypeError as error:  # a producer older than DLPack 1.0 knows none of these
        if "dl_device" in more:
            raise BufferError(
                f"{type(x).__name__} cannot copy to the host by DLPack; use its .cpu() or .get()"
            ) from error
        if copy is False:
            raise
        return x.__dlpack__(**more)


def _moved(x: Tensor, target: str, copy: bool | None) -> Tensor:
    if copy is False and x.device != target:
        raise BufferError(f"from {x.device} to {target} needs a copy; pass copy=None")
    return x.to(target)


def _taken(capsule: Any, device: tuple[int, int]) -> tuple[Header, DType, Strided, NDArray[Any]]:
    """Take over a capsule whose producer named `device`: its header, its elements, how they lie,
    and the array that ends it with its last reference.

    numpy takes it as bytes of host memory, and reads none. Raises: BufferError, before that.
    """
    held = Capsule(capsule)
    header = held.read()
    if header.device != device:
        raise BufferError(
            f"a capsule of device {header.device}, where {device} was asked for or named by "
            "__dlpack_device__(); report it to its library"
        )
    dtype = from_dlpack_code(header.code, header.bits, header.lanes)
    layout = Strided(header.shape, header.strides or row_major(header.shape))
    _check_place(header, layout, dtype.itemsize)
    plain = dlpack_code(dt.uint16)[0] if dtype is dt.bfloat16 else header.code
    held.write((HOST, 0), plain)
    try:
        array: NDArray[Any] = np.from_dlpack(_Producer(capsule))
    finally:
        held.write(header.device, header.code)
    return header, dtype, layout, array


def _check_place(header: Header, layout: Strided, itemsize: int) -> None:
    """Raises: BufferError for elements that cannot be anywhere."""
    nbytes = layout.span * itemsize
    if not nbytes:
        return
    first = header.byte_offset + layout.low * itemsize
    start = header.data + first
    if not header.data:
        raise BufferError("a capsule of elements at address 0; report it to its library")
    last = max(start + nbytes, header.data + header.byte_offset + 1)
    if nbytes > _MOST_BYTES or start <= 0 or last > _ADDRESSES:
        raise BufferError(
            f"a capsule of {nbytes} bytes from byte {first} of {header.data:#x} on: no memory is "
            "there; report it to its library"
        )


def _lent(header: Header, dtype: DType, owner: Any, low: int, span: int) -> Lent:
    first = header.byte_offset + low * dtype.itemsize
    nbytes = span * dtype.itemsize
    bounds = header.data + first, nbytes
    return Lent(
        pointer=header.data, first=first, nbytes=nbytes, align=dtype.itemsize,
        readonly=header.readonly, bounds=bounds, owner=owner,
    )  # fmt: skip


def _from_host(capsule: Any, source: tuple[int, int], target: str, copy: bool | None) -> Tensor:
    """Of host memory: shared with the CPU; other devices have a copy."""
    header, dtype, layout, array = _taken(capsule, source)
    device = engine.device(target)
    aligned = not (header.data + header.byte_offset) % dtype.itemsize
    wanted = bool(copy) and not header.copied
    if _code(target) == HOST and layout.nested and aligned and not wanted:
        lent = _lent(header, dtype, array, layout.low, layout.span)
        return Tensor(lent_node(device, target, lent, layout, dtype), target)
    if copy is False:
        raise BufferError(f"this array needs a copy to be on {target}; pass copy=None")
    return wrap(np.array(array, order="C"), target, dtype)


def _on_device(
    capsule: Any, source: tuple[int, int], where: str, kind: str, *, copy: bool
) -> Tensor:
    """Of memory of a device, where it is; `copy`: unless its producer has copied it."""
    header, dtype, layout, array = _taken(capsule, source)
    lent = _lent(header, dtype, array, layout.low, layout.span)
    try:
        node = lent_node(engine.device(where), where, lent, layout, dtype)
    except (BadArgument, Unsupported) as error:
        raise BufferError(f"DLPack's memory of {kind}: {error}") from error
    return Tensor(engine.copy(node, where, where) if copy and not header.copied else node, where)
