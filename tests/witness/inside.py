"""The board inside a client's process: what shim.c calls, by name.

It runs under the client's own Python, with the client's libraries: only `boards` and numpy are
imported here. Every function takes a path and five numbers and returns a number, below 0 an errno.
"""

from __future__ import annotations

import errno
import itertools
import os
import struct
from pathlib import Path
from types import SimpleNamespace

from boards.amd.chip import chip
from boards.amd.hardware import reported
from boards.amd.kfd import sysfs
from boards.amd.kfd import types as k
from boards.amd.kfd.device import SLICE_BYTES
from boards.amd.kfd.events import Waiting
from boards.amd.machine import Options, open_board
from boards.machine import host
from boards.machine.region import HostRegion, RegisterRegion, Reservation
from tests.witness.record import Record

_NR_MASK, _SIZE_SHIFT, _SIZE_MASK = 0xFF, 16, 0x3FFF
_ACQUIRE_VM, _WAIT_EVENTS = 0x15, 0x0C
_VRAM_BYTES = 4 << 30
_TYPE_SHIFT, _TYPE_KFD = 8, ord("K")
"""src: kfd_ioctl.h AMDKFD_IOCTL_BASE"""


class _ClientRange(Reservation):
    """A range that the client has chosen, and will unmap itself."""

    def __init__(self, va: int) -> None:
        self.cpu_va = va

    def place(self, at: int, nbytes: int) -> int:
        return self.cpu_va

    def vacate(self, va: int, nbytes: int) -> None:
        """The client's own munmap, or what it mapped over it, has done so."""


CHIP, GPUS = os.environ["WITNESS_CHIP"], int(os.environ["WITNESS_GPUS"])
_options = Options(
    close_ends_process=False, evict_on_fault=True, vram_bytes=_VRAM_BYTES, gtt_bytes=_VRAM_BYTES
)
_world = open_board(CHIP, gpus=GPUS, vram_bytes=_VRAM_BYTES, options=_options)
_record = Record()
_world.hardware.trace = _record.event
_fds: dict[int, int] = {}
"""The client's descriptors, and the world's."""
_paths: dict[int, str] = {}
_maps: dict[int, HostRegion | RegisterRegion] = {}
_waits: dict[int, tuple[Waiting, SimpleNamespace]] = {}
_NUMBERS = itertools.count(1)


def _write_files(folder: Path) -> None:
    """The board's files as real ones, for the C library to open."""
    for path, data in sysfs.files([chip(CHIP)] * GPUS, reported(chip(CHIP), _options)).items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


_write_files(Path(os.environ["WITNESS_FILES"]))


def touch(path: str, *_: int) -> int:
    """The client opens, lists or asks for a file that would be the kernel's."""
    _record.file(path, there=_world.exists(path))
    return 0


def open_node(path: str, flags: int, *_: int) -> int:
    """A device node."""
    _record.file(path, there=_world.exists(path))
    try:
        number = _world.open(path, flags & ~os.O_CLOEXEC)
    except OSError as error:
        return -(error.errno or errno.EIO)
    _paths[number] = path
    return number


def bind(_path: str, fd: int, number: int, *_: int) -> int:
    """The client's descriptor of what `open_node` returned."""
    _fds[fd] = number
    return 0


def duplicate(_path: str, fd: int, new: int, *_: int) -> int:
    """dup(2) and its kin."""
    _fds[new] = _fds[fd]
    return 0


def close_node(_path: str, fd: int, *_: int) -> int:
    """The last copy of a descriptor closes it."""
    number = _fds.pop(fd)
    if number not in _fds.values():
        _world.close(number)
    return 0


def device_number(_path: str, fd: int, *_: int) -> int:
    """st_rdev."""
    return _world.device_number(_paths[_fds[fd]])


def ioctl(_path: str, fd: int, request: int, at: int, *_: int) -> int:
    """An ioctl, of KFD or a render node."""
    nbytes = request >> _SIZE_SHIFT & _SIZE_MASK
    memory = host.view(at, nbytes) if nbytes else memoryview(bytearray())
    argument, given = bytearray(memory), bytes(memory)
    kfd = request >> _TYPE_SHIFT & _NR_MASK == _TYPE_KFD
    number = request & _NR_MASK if kfd else 0
    if number == _ACQUIRE_VM:
        (drm_fd,) = struct.unpack_from("<I", argument)
        struct.pack_into("<I", argument, 0, _fds.get(drm_fd, 0))
    _record.ioctl(request, kfd, given)
    answer = 0
    try:
        answer = _world.ioctl(_fds[fd], request, argument)
    except OSError as error:
        answer = -(error.errno or errno.EIO)
        _record.refused(request, kfd, given, error)
    if number != _ACQUIRE_VM:
        memory[:] = argument
    return answer


def begin_wait(_path: str, fd: int, request: int, at: int, *_: int) -> int:
    """WAIT_EVENTS begins: a number for it. Real time passes until `end_wait`."""
    layout = k.IOCTLS[_WAIT_EVENTS][1]
    args = layout.unpack(bytes(host.view(at, layout.size)))
    _record.ioctl(request, True, bytes(layout.size))
    process = _world.process
    if process is None:
        return -errno.ENODEV
    try:
        with _world.hardware.lock:
            waiting = process.events.enlist(args)
    except OSError as error:
        _record.refused(request, True, bytes(layout.size), error)
        return -(error.errno or errno.EIO)
    number = next(_NUMBERS)
    _waits[number] = waiting, args
    return number


def ask_wait(_path: str, number: int, *_: int) -> int:
    """Whether what it waits for has happened."""
    return int(_waits[number][0].met())


def end_wait(_path: str, number: int, at: int, *_: int) -> int:
    """WAIT_EVENTS returns."""
    waiting, args = _waits.pop(number)
    layout = k.IOCTLS[_WAIT_EVENTS][1]
    process = _world.process
    if process is None:
        return -errno.ENODEV
    try:
        with _world.hardware.lock:
            process.events.settle(waiting, args)
    except OSError as error:
        return -(error.errno or errno.EIO)
    host.view(at, layout.size)[:] = layout.pack(args)
    return 0


def map_memory(_path: str, fd: int, at: int, nbytes: int, prot: int, offset: int) -> int:
    """mmap(2): the address."""
    place = at or host.reserve(host.pages(nbytes))
    try:
        region = _world.mmap(
            _fds[fd], nbytes, offset, write=bool(prot & host.PROT_WRITE),
            within=_ClientRange(place),
        )  # fmt: skip
    except OSError as error:
        _record.trouble(f"mmap of {nbytes:#x} bytes at {offset:#x}: {error}")
        return -(error.errno or errno.EIO)
    if isinstance(region, RegisterRegion):
        host.map_anonymous(nbytes, at=place)
    elif not isinstance(region, HostRegion):
        raise TypeError(f"{region} cannot be mapped for a client")
    _maps[place] = region
    return place


def is_doorbells(_path: str, base: int, *_: int) -> int:
    """Whether stores to a mapping are doorbells."""
    region = _maps[base]
    return int(isinstance(region, RegisterRegion) and region.nbytes == SLICE_BYTES)


def unmap_memory(_path: str, base: int, *_: int) -> int:
    """The client has unmapped a whole mapping, or is about to."""
    _maps.pop(base).close()
    return 0


def ring(_path: str, base: int, offset: int, value: int, *_: int) -> int:
    """A store to a doorbell."""
    region = _maps.get(base)
    if isinstance(region, RegisterRegion):
        region.write64(offset, value)
    return 0


def pump(*_: object) -> int:
    """Queues that wait for memory go on."""
    process = _world.process
    if process is not None:
        with _world.hardware.lock:
            process.queues.pump()
    return 0


def panel(what: str, *_: int) -> int:
    """The board's fault panel, for our own client: "ecc", "gpu_reset"."""
    with _world.hardware.lock:
        getattr(_world.panel, what)()
    return 0


def give_up(*_: object) -> int:
    """The client will end itself: its runtime does not return."""
    _record.ended_early = True
    return 0


def finish(*_: object) -> int:
    """The client's process ends."""
    process = _world.process
    left = [str(queue.spec) for queue in process.queues.by_id.values()] if process else []
    texts = [(found.kind, str(found)) for found in _world.violations]
    _record.write(Path(os.environ["WITNESS_REPORT"]), texts, left)
    return 0
