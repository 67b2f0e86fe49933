"""BARs: mapping them through resourceN, and how large they may become.

Source: Documentation/PCI/sysfs-pci.rst; Documentation/ABI/testing/sysfs-bus-pci (resourceN_resize);
PCI Express Base Specification 4.0, 7.8.6 (Resizable BAR).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from drivers.base.contracts import Region, World
from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceGone,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo
from drivers.machine.text import hex_number
from drivers.pci.functions import BARS, PciFunction, look_at

_MIB_SHIFT = 20
_MOST_SIZES = 64


def map_bar(
    world: World, function: PciFunction, bar: int, *, write: bool = True, combine: bool = False
) -> Region:
    """The whole of a memory BAR. `combine` collects writes, for VRAM and never for registers.

    Raises: BadArgument, Unsupported, Denied (resourceN belongs to root).
    """
    if not 0 <= bar < BARS or bar >= len(function.resources):
        raise BadArgument(f"{function.address} has no BAR {bar}", hint=f"0 to {BARS - 1}")
    resource = function.resources[bar]
    if not resource.is_memory:
        what = "I/O ports" if resource.is_ports else "not there"
        raise Unsupported(f"BAR {bar} of {function.address} is {what}", hint="see `lspci -v`")
    if resource.start % PAGE_BYTES or resource.nbytes % PAGE_BYTES:
        raise Unsupported(
            f"BAR {bar} of {function.address} shares a page with something else",
            hint="boot Linux with pci=resource_alignment",
        )
    if combine and not resource.prefetchable:
        raise BadArgument(f"BAR {bar} of {function.address} holds registers: no write combining")
    path = f"{function.folder}/resource{bar}" + ("_wc" if combine else "")
    fd = world.open(path, os.O_RDWR if write else os.O_RDONLY)
    with Undo() as undo:
        undo.add(lambda: world.close(fd))
        region = world.mmap(fd, resource.nbytes, write=write)
        undo.hand_over(region.close)
        world.close(fd)
    return region


def _sizes(mask: int) -> tuple[int, ...]:
    """Bit n of `mask` is 2^n MiB."""
    return tuple(1 << bit + _MIB_SHIFT for bit in range(_MOST_SIZES) if mask >> bit & 1)


def sizes_offered(world: World, function: PciFunction, bar: int) -> tuple[int, ...]:
    """The sizes that the kernel would give a BAR. Raises: NotFound where it cannot be resized."""
    return _sizes(hex_number(world, f"{function.folder}/resource{bar}_resize", _MOST_SIZES))


def resize_bar(world: World, function: PciFunction, bar: int, nbytes: int) -> None:
    """Give a BAR another size; the function must be without a driver.

    Raises: BadArgument with the sizes there are; Busy, OutOfMemory when no window is that large.
    Hardware: the kernel writes the control register and assigns addresses anew.
    """
    offered = sizes_offered(world, function, bar)
    if nbytes not in offered:
        shown = ", ".join(f"{size >> _MIB_SHIFT} MiB" for size in offered)
        raise BadArgument(f"BAR {bar} cannot have {nbytes} bytes", hint=f"It can have {shown}")
    if function.driver:
        raise Busy(f"{function.address} is bound to {function.driver}", hint="claim it first")
    bit = nbytes.bit_length() - 1 - _MIB_SHIFT
    world.write(f"{function.folder}/resource{bar}_resize", f"{bit}\n".encode())


@dataclass(frozen=True, slots=True)
class Enlarged:
    """A BAR after `enlarge`: the function as it is now, and why the BAR is no larger."""

    function: PciFunction
    nbytes: int
    why: str
    """"" when it has the largest size that the function offers."""


def check_enlarge(world: World, function: PciFunction, bar: int) -> None:
    """What would stop `enlarge` with an error. Raises: MalformedInput, Denied."""
    if bar >= len(function.resources):
        raise MalformedInput(f"{function.folder}/resource has no line for BAR {bar}")
    path = f"{function.folder}/resource{bar}_resize"
    try:
        sizes = sizes_offered(world, function, bar)
    except NotFound:
        return
    if max(sizes, default=0) > function.resources[bar].nbytes and not world.access(path, os.W_OK):
        raise Denied(f"{path} may not be written", hint=f"as root: chown $USER {path}")


def enlarge(world: World, function: PciFunction, bar: int) -> Enlarged:
    """Give a BAR the largest size that this machine has room for; map nothing of it before.

    It says why it is no larger: a kernel driver has the function (VFIO too), the kernel offers
    nothing, or no window of the bridges above is that large.
    Hardware: a failed attempt releases the BARs; the kernel assigns them as they were.
    """
    nbytes = function.resources[bar].nbytes
    try:
        larger = [size for size in sizes_offered(world, function, bar) if size > nbytes]
    except NotFound:
        return Enlarged(function, nbytes, "the kernel offers no resizing of it")
    why = ""
    for size in reversed(larger):
        try:
            resize_bar(world, function, bar, size)
        except (Busy, DeviceGone, NotFound, OutOfMemory, Unsupported) as error:
            why = why or error.message
            continue
        now = look_at(world, function.address)
        return Enlarged(now, now.resources[bar].nbytes, why)
    return Enlarged(look_at(world, function.address), nbytes, why)
