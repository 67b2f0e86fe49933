"""A process in front of an Adreno board, as tests speak to it: requests, memory, streams."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import numpy as np

from boards.machine.region import HostRegion
from boards.qcom.hardware import AdrenoOptions
from boards.qcom.kgsl import abi
from boards.qcom.machine import open_qcom_board
from boards.qcom.world import QcomWorld
from tests.support import check

CONTEXT_FLAGS = 0x12
WRITE_COMBINE, WRITE_BACK, CPU_MAP = 0, 3 << 26, 1 << 28
EVENT_WRITE, WAIT_FOR_IDLE, NOP, INDIRECT = 0x46, 0x26, 0x10, 0x3F


def odd(value: int) -> int:
    """1 where the number of ones is even. # src: notes section 1c"""
    return 1 - bin(value).count("1") % 2


def type7(opcode: int, *words: int) -> list[int]:
    """A packet of type 7. # src: notes section 1c"""
    count = len(words)
    return [7 << 28 | count | odd(count) << 15 | opcode << 16 | odd(opcode) << 23, *words]


def type4(register: int, *words: int) -> list[int]:
    """A packet of type 4. # src: notes section 1c"""
    count = len(words)
    return [4 << 28 | count | odd(count) << 7 | register << 8 | odd(register) << 27, *words]


def halves(va: int) -> tuple[int, int]:
    """An address as two words."""
    return va & 0xFFFFFFFF, va >> 32


@dataclass
class Block:
    """A GPU object that the process has mapped."""

    id: int
    va: int
    region: HostRegion
    flags: int

    @property
    def words(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """As the process sees it."""
        return np.frombuffer(self.region.view(), np.uint32)


class Client:
    """A process with /dev/kgsl-3d0 open and one context."""

    def __init__(self, world: QcomWorld, flags: int = CONTEXT_FLAGS) -> None:
        self.world = world
        self.fd = world.open("/dev/kgsl-3d0", 2)
        self.context = self.call("drawctxt_create", flags=flags).drawctxt_id

    def call(self, name: str, **values: int) -> SimpleNamespace:
        """One request, with all other members zero. Raises: OSError."""
        call = next(call for call in abi.CALLS if call.name == name)
        data = bytearray(call.record.nbytes)
        args = call.record.load(data)
        for member, value in values.items():
            setattr(args, member, value)
        call.record.store(data, args)
        self.world.ioctl(self.fd, call.request, data)
        return call.record.load(data)

    def alloc(self, nbytes: int, flags: int = CPU_MAP) -> Block:
        """Memory, mapped by the process."""
        made = self.call("gpuobj_alloc", size=nbytes, flags=flags)
        region = self.world.mmap(self.fd, made.mmapsize, made.id << 12)
        check(isinstance(region, HostRegion))
        info = self.call("gpuobj_info", id=made.id)
        return Block(made.id, info.gpuaddr, cast(HostRegion, region), info.flags)

    def submit(self, words: Sequence[int], block: Block | None = None) -> int:
        """Runs a stream; its timestamp."""
        where = block or self.alloc(max(4096, 4 * len(words)))
        where.region.write(0, struct.pack(f"<{len(words)}I", *words))
        return self.command([(where.va, 4 * len(words))])

    def command(self, buffers: Sequence[tuple[int, int]], **values: int) -> int:
        """GPU_COMMAND of indirect buffers, (address, bytes)."""
        data = bytearray()
        for va, nbytes in buffers:
            data += struct.pack("<QQQII", 0, va, nbytes, 1, 0)
        held = np.frombuffer(bytes(data), np.uint8)
        given = {"cmdlist": held.ctypes.data, "cmdsize": 32, "numcmds": len(buffers),
                 "context_id": self.context, **values}  # fmt: skip
        return int(self.call("gpu_command", **given).timestamp)

    def wait(self, timestamp: int, timeout: int = 1000) -> None:
        """Until a timestamp has passed. Raises: OSError."""
        self.call("waittimestamp_ctxtid", context_id=self.context, timestamp=timestamp,
                  timeout=timeout)  # fmt: skip

    def sync(self, number: int, op: int, offset: int = 0, length: int = 4096) -> None:
        """Cache operations on an object. Raises: OSError."""
        item = np.frombuffer(struct.pack("<QQII", offset, length, number, op), np.uint8)
        self.call("gpuobj_sync", objs=item.ctypes.data, obj_len=24, count=1)

    def retired(self) -> int:
        """The last timestamp that has passed."""
        return int(self.call("readtimestamp_ctxtid", context_id=self.context, type=2).timestamp)


@contextmanager
def client(chip: str = "a630", *, clean: bool = True, flags: int = CONTEXT_FLAGS,
           options: AdrenoOptions | None = None) -> Iterator[Client]:  # fmt: skip
    """A process in front of a board; with `clean` nothing may be left to complain about."""
    world = open_qcom_board(chip, options=options)
    made = Client(world, flags)
    yield made
    if clean:
        check(world.violations == [], str(world.violations))
    world.power_off()
    check(world.hardware.memory.free.used_bytes == 0, "all DRAM is given back")
