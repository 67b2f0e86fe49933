"""A driver for NVIDIA's boards as short as one can be: structs are packed by hand from headers.

Offsets and sizes are those that gcc gives to open-gpu-kernel-modules 595.45.04; where an older
release differs, the tests say so.
"""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass, field

import numpy as np
import pytest

from boards.machine.region import HostRegion, RegisterRegion
from boards.nv.machine import open_nv_board
from boards.nv.world import NvWorld
from tests.support import check

ROOT, DEVICE, SUBDEVICE, VIDEO, SYSTEM = 0x41, 0x80, 0x2080, 0x40, 0x3E
VASPACE, GROUP, SHARE, USER_PAGES = 0x90F1, 0xA06C, 0x9067, 0x71
DEBUGGER = 0x83DE
CLASSES = {
    # usermode, GPFIFO, compute, copy
    "tu102": (0xC461, 0xC46F, 0xC5C0, 0xC5B5),
    "ga102": (0xC561, 0xC56F, 0xC7C0, 0xC7B5),
    "ad102": (0xC561, 0xC56F, 0xC9C0, 0xC7B5),
    "gh100": (0xC661, 0xC86F, 0xCBC0, 0xC8B5),
    "gb202": (0xC761, 0xCA6F, 0xCEC0, 0xCAB5),
}
RING_BYTES, USERD_OFFSET, PUSH_OFFSET = 0x800, 0x1000, 0x2000
ENTRIES = RING_BYTES // 8
AREA_BYTES = 1 << 20
CONTEXT_BYTES = 64 << 20
FIRST_VA = 0x10_0000_0000
PASID_SINCE = 580
"""The release whose NV_VASPACE_ALLOCATION_PARAMETERS has 8 bytes more."""
SHARED_WINDOW, LOCAL_WINDOW = 0x7294_0000_0000, 0x7293_0000_0000


INVALID_ADDRESS, INVALID_ARGUMENT, INVALID_CHANNEL, INVALID_CLASS = 0x1E, 0x1F, 0x21, 0x22
INVALID_CLIENT, INVALID_DEVICE, INVALID_FLAGS, INVALID_LIMIT = 0x23, 0x26, 0x29, 0x2E
INVALID_HANDLE, INVALID_PARENT, INVALID_OFFSET, INVALID_STATE = 0x33, 0x36, 0x37, 0x40
DUPLICATE, ILLEGAL, NO_MEMORY, NOT_SUPPORTED, NOT_FOUND = 0x19, 0x16, 0x51, 0x56, 0x57
IN_USE, ADDRESS_IN_USE, LOST, TIMEOUT, NO_UUID = 0x63, 0x68, 0x0F, 0x65, 0x12


class Refused(Exception):
    """A status that is not zero."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status:#x}")
        self.status = status


def escape(number: int, nbytes: int) -> int:
    """_IOWR('F', number, nbytes)."""
    return 3 << 30 | nbytes << 16 | ord("F") << 8 | number


@dataclass
class Buffer:
    """Memory with an address for the GPU, and for the host where it was mapped."""

    handle: int
    va: int
    nbytes: int
    region: HostRegion | None = None

    @property
    def memory(self) -> HostRegion:
        """Its bytes."""
        if self.region is None:
            raise AssertionError("not mapped for the host")
        return self.region


@dataclass
class Ring:
    """A channel and what is written to start it."""

    handle: int
    token: int
    area: Buffer
    notifier: Buffer
    put: int = 0
    written: int = 0
    objects: dict[int, int] = field(default_factory=dict)


class NvClient:
    """One process that has opened a board."""

    def __init__(self, world: NvWorld, chip: str = "ga102") -> None:
        self.world, self.chip = world, chip
        self.usermode, self.gpfifo, self.compute, self.copy = CLASSES[chip]
        self.control_fd = world.open("/dev/nvidiactl", os.O_RDWR)
        self.uvm_fd = world.open("/dev/nvidia-uvm", os.O_RDWR)
        self.root = 0
        self.next_va = FIRST_VA
        self.uuid = b""

    # Requests

    def ioctl(self, fd: int, number: int, data: bytes) -> bytes:
        argument = bytearray(data)
        self.world.ioctl(fd, escape(number, len(data)), argument)
        return bytes(argument)

    def alloc(self, parent: int, number: int, params: bytes = b"", handle: int = 0) -> int:
        """NVOS21, 32 bytes. Raises: Refused."""
        kept = bytearray(params)
        va = _address(kept) if params else 0
        data = struct.pack("<IIIIQII", self.root, parent, handle, number, va, len(params), 0)
        out = self.ioctl(self.control_fd, 0x2B, data)
        self.params = bytes(kept)
        _done(out, 28)
        return int(struct.unpack_from("<I", out, 8)[0])

    def control(self, target: int, command: int, params: bytes) -> bytes:
        """NVOS54, 32 bytes. Raises: Refused."""
        kept = bytearray(params)
        va = _address(kept) if params else 0
        data = struct.pack("<IIIIQII", self.root, target, command, 0, va, len(params), 0)
        _done(self.ioctl(self.control_fd, 0x2A, data), 28)
        return bytes(kept)

    def free(self, parent: int, handle: int) -> None:
        """NVOS00, 16 bytes. Raises: Refused."""
        data = struct.pack("<IIII", self.root, parent, handle, 0)
        _done(self.ioctl(self.control_fd, 0x29, data), 12)

    def uvm(self, number: int, data: bytes, status_at: int, fd: int = 0) -> bytes:
        """A request of UVM. Raises: Refused."""
        argument = bytearray(data)
        self.world.ioctl(fd or self.uvm_fd, number, argument)
        _done(bytes(argument), status_at)
        return bytes(argument)

    # Opening

    def open_client(self) -> None:
        self.root = self.alloc(0, ROOT)

    def open_gpu(self, index: int = 0) -> None:
        """Everything up to an address space that UVM manages."""
        self.open_objects(index)
        self.uvm(0x30000001, struct.pack("<QI4x", 0, 0), 8)
        self.mm_fd = self.world.open("/dev/nvidia-uvm", os.O_RDWR)
        self.mm_initialize()
        self.register_gpu()
        self.register_space()

    def open_objects(self, index: int = 0) -> None:
        """Everything that RM has of a GPU, nothing that UVM has."""
        self.open_client()
        self.gpu_fd = self.gpu_file(index)
        self.device = self.alloc(self.root, DEVICE, struct.pack("<I52x", index))
        self.subdevice = self.alloc(self.device, SUBDEVICE, struct.pack("<I", 0))
        self.doorbells = self.map_usermode(index)
        params = struct.pack("<IIQQQI4xQI4x", 0, 1 << 6 | 1 << 3, 0x1_FFFF_FB00_0000, 0, 0, 0,
                             0x1000, 0)  # fmt: skip
        whole = 56 if self.world.hardware.options.driver >= PASID_SINCE else 48
        self.vaspace = self.alloc(self.device, VASPACE, params[:whole])
        gid = self.control(self.subdevice, 0x2080014A, struct.pack("<III256x", 0, 2, 16))
        self.uuid = gid[12:28]

    def register_gpu(self) -> None:
        """UVM_REGISTER_GPU."""
        self.uvm(37, self.uuid + struct.pack("<B3xiiIII", 0, 0, -1, 0, 0, 0), 36)

    def register_space(self, space: int = 0, root: int = 0) -> None:
        """UVM_REGISTER_GPU_VASPACE; rmCtrlFd says nothing."""
        data = struct.pack("<iIII", -1, root or self.root, space or self.vaspace, 0)
        self.uvm(25, self.uuid + data, 28)

    def mm_initialize(self, fd: int = 0, space_fd: int = 0) -> None:
        """UVM_MM_INITIALIZE of a second file for the first."""
        data = struct.pack("<iI", space_fd or self.uvm_fd, 0)
        self.uvm(75, data, 4, fd or self.mm_fd)

    def gpu_file(self, index: int = 0) -> int:
        fd = self.world.open(f"/dev/nvidia{index}", os.O_RDWR)
        self.ioctl(fd, 201, struct.pack("<i", self.control_fd))
        return fd

    def map_usermode(self, index: int = 0) -> RegisterRegion:
        handle = self.alloc(self.subdevice, self.usermode)
        region = self.map_memory(handle, 0x10000, self.gpu_file(index))
        check(isinstance(region, RegisterRegion))
        return region

    def map_memory(self, handle: int, nbytes: int, fd: int, offset: int = 0):
        """NVOS33 with a descriptor, 56 bytes, and mmap."""
        data = struct.pack(
            "<III4xQQQIIi4x", self.root, self.device, handle, offset, nbytes, 0, 0, 0, fd
        )
        _done(self.ioctl(self.control_fd, 0x4E, data), 40)
        return self.world.mmap(fd, nbytes)

    # Memory

    def memory_params(
        self, nbytes: int, *, system: bool = False, contiguous: bool = False
    ) -> bytes:
        attr = (2 if contiguous else 3) << 27 | int(system) << 25
        data = bytearray(128)
        struct.pack_into("<II", data, 0, self.root, 0)
        struct.pack_into("<I", data, 24, attr)
        struct.pack_into("<QQQQ", data, 64, nbytes, 4096, 0, max(nbytes - 1, 0))
        return bytes(data)

    def buffer(self, nbytes: int, *, system: bool = False, map_host: bool = True) -> Buffer:
        """Memory that both can reach."""
        params = self.memory_params(nbytes, system=system)
        handle = self.alloc(self.device, SYSTEM if system else VIDEO, params)
        region = None
        if map_host:
            node = "/dev/nvidiactl"
            fd = self.world.open(node, os.O_RDWR) if system else self.gpu_file()
            region = self.map_memory(handle, nbytes, fd)
        return self.give_address(handle, nbytes, region)

    def give_address(self, handle: int, nbytes: int, region: HostRegion | None = None) -> Buffer:
        va = self.next_va
        self.next_va += -(-nbytes // 0x20_0000) * 0x20_0000
        self.uvm(73, struct.pack("<QQI4x", va, nbytes, 0), 16)
        self.uvm_map(va, nbytes, handle)
        return Buffer(handle, va, nbytes, region)

    def uvm_map(self, va: int, nbytes: int, handle: int, *, kind: int = 1, offset: int = 0) -> None:
        attributes = self.uuid + struct.pack("<IIIII", kind, 0, 0, 0, 0)
        data = struct.pack("<QQQ", va, nbytes, offset) + attributes.ljust(9216, b"\0")
        data += struct.pack("<QiIII", 1, self.control_fd, self.root, handle, 0)
        self.uvm(33, data, 0x242C)

    # Channels

    def group(self, engine: int = 1) -> int:
        return self.alloc(self.device, GROUP, struct.pack("<IIIIB3x", 0, 0, 0, engine, 0))

    def ring(self, group: int, share: int = 0, *, register: bool = True) -> Ring:
        """A channel in a group, with its objects."""
        if not share:
            share = self.alloc(group, SHARE, struct.pack("<III", self.vaspace, 1, 0))
        area, notifier = self.buffer(AREA_BYTES), self.buffer(4096, system=True)
        notifier.memory.write(0, bytes(4096))
        handle = self.alloc(group, self.gpfifo, self.channel_params(area, notifier, share))
        token = struct.unpack("<I", self.control(handle, 0xC36F0108, bytes(4)))[0]
        made = Ring(handle, token, area, notifier)
        if register:
            self.register(made)
        return made

    def channel_params(self, area: Buffer, notifier: Buffer, share: int) -> bytes:
        """NV_CHANNEL_ALLOC_PARAMS, 368 bytes."""
        data = bytearray(368)
        struct.pack_into("<IIQII", data, 0, notifier.handle, 0, area.va, ENTRIES, 0)
        struct.pack_into("<I", data, 24, share)
        struct.pack_into("<I", data, 32, area.handle)
        struct.pack_into("<Q", data, 64, USERD_OFFSET)
        return bytes(data)

    def register(self, ring: Ring) -> None:
        va = self.next_va
        self.next_va += CONTEXT_BYTES
        data = self.uuid + struct.pack("<iII4xQQI4x", self.control_fd, self.root, ring.handle, va,
                                       CONTEXT_BYTES, 0)  # fmt: skip
        self.uvm(27, data, 48)

    def schedule(self, group: int) -> None:
        self.control(group, 0xA06C0101, struct.pack("<BBB", 1, 0, 0))

    def work_ring(self) -> Ring:
        """A scheduled channel with a compute and a copy object, bound to their subchannels."""
        group = self.group()
        ring = self.ring(group)
        for number in (self.compute, self.copy):
            ring.objects[number] = self.alloc(ring.handle, number)
        self.schedule(group)
        self.submit(ring, [
            *method(1, 0, self.compute), *method(4, 0, self.copy),
            *method(1, 0x2A0, SHARED_WINDOW >> 32, 0), *method(1, 0x7B0, LOCAL_WINDOW >> 32, 0),
        ])  # fmt: skip
        return ring

    def submit(self, ring: Ring, words: list[int], *, bell: bool = True) -> None:
        """One entry: the words after the last ones."""
        room = (AREA_BYTES - PUSH_OFFSET) // 4
        if ring.written + len(words) > room:
            ring.written = 0
        at = PUSH_OFFSET + ring.written * 4
        ring.area.memory.write(at, struct.pack(f"<{len(words)}I", *words))
        ring.written += len(words)
        self.entry(ring, ring.area.va + at, len(words), bell=bell)

    def entry(self, ring: Ring, va: int, words: int, *, bell: bool = True) -> None:
        entry = va | 1 << 41 | words << 42
        ring.area.memory.write64(ring.put * 8, entry)
        ring.put = (ring.put + 1) % ENTRIES
        ring.area.memory.write32(USERD_OFFSET + 0x8C, ring.put)
        if bell:
            self.doorbells.write32(0x90, ring.token)

    def got(self, ring: Ring) -> int:
        """GP_GET."""
        return ring.area.memory.read32(USERD_OFFSET + 0x88)

    def error(self, ring: Ring) -> tuple[int, int, int]:
        """(code, engine, status) of the error notifier."""
        code, engine, status = struct.unpack("<IHH", ring.notifier.memory.read(8, 8))
        return code, engine, status

    def kinds(self) -> list[str]:
        """Kinds of violations so far."""
        return [violation.kind for violation in self.world.violations]


def _address(data: bytearray) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def _done(out: bytes, at: int) -> None:
    status = struct.unpack_from("<I", out, at)[0]
    if status:
        raise Refused(status)


def method(subchannel: int, first: int, *data: int) -> list[int]:
    """An increasing method header and its data."""
    return [1 << 29 | len(data) << 16 | subchannel << 13 | first >> 2, *data]


def release(va: int, value: int, *, timestamp: bool = False) -> list[int]:
    """A 64-bit semaphore of the host."""
    execute = 1 | 1 << 24 | int(timestamp) << 25 | 1 << 20
    return method(0, 0x5C, va & 0xFFFF_FFFF, va >> 32, value & 0xFFFF_FFFF, value >> 32, execute)


def acquire(va: int, value: int, operation: int = 3) -> list[int]:
    """A 64-bit wait: circular greater or equal."""
    execute = operation | 1 << 24
    return method(0, 0x5C, va & 0xFFFF_FFFF, va >> 32, value & 0xFFFF_FFFF, value >> 32, execute)


def copy(target: int, source: int, nbytes: int) -> list[int]:
    """A linear copy, not pipelined."""
    return [
        *method(4, 0x400, source >> 32, source & 0xFFFF_FFFF, target >> 32, target & 0xFFFF_FFFF),
        *method(4, 0x418, nbytes), *method(4, 0x300, 2 | 1 << 7 | 1 << 8),
    ]  # fmt: skip


def opened(chip: str = "ga102", **options) -> NvClient:
    """A process that has opened the first GPU of a board."""
    client = NvClient(open_nv_board(chip, **options), chip)
    client.open_gpu()
    return client


def refuses(status: int, call, *args, **options) -> None:
    """The call is answered with a status."""
    with pytest.raises(Refused) as caught:
        call(*args, **options)
    check(caught.value.status == status, f"{caught.value} and not {status:#x}")


def fails(number: int, function, *args) -> None:
    """A call raises OSError with this errno."""
    with pytest.raises(OSError, match=r".") as error:
        function(*args)
    check(error.value.errno == number, f"{error.value}, expected {errno.errorcode[number]}")
