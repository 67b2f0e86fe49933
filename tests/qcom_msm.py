"""A process in front of an Adreno board over the msm driver, as tests speak to it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import numpy as np

from boards.machine.region import HostRegion
from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from boards.qcom.msm import abi
from boards.qcom.world import QcomWorld
from tests.qcom_boards import Block
from tests.support import check

WC, READ, WRITE = 0x20000, 1, 2


class MsmClient:
    """A process with a render node open, and one queue."""

    def __init__(self, world: QcomWorld) -> None:
        self.world = world
        self.fd = world.open("/dev/dri/renderD128", 2)
        self.queue = self.call("submitqueue_new", prio=1).id

    def call(self, name: str, /, **values: int) -> SimpleNamespace:
        """One request, with all other members zero. Raises: OSError."""
        call = next(call for call in abi.CALLS if call.name == name)
        data = bytearray(call.record.nbytes)
        args = call.record.load(data)
        for member, value in values.items():
            setattr(args, member, value)
        call.record.store(data, args)
        self.world.ioctl(self.fd, call.request, data)
        return call.record.load(data)

    def alloc(self, nbytes: int, flags: int = WC, *, address: bool = True) -> Block:
        """A buffer object, mapped by the process."""
        handle = self.call("gem_new", size=nbytes, flags=flags).handle
        offset = self.call("gem_info", handle=handle, info=0).value
        region = cast(HostRegion, self.world.mmap(self.fd, nbytes, offset))
        va = self.call("gem_info", handle=handle, info=1).value if address else 0
        return Block(handle, va, region, flags)

    def submit(
        self, words: Sequence[int], bos: Sequence[Block], into: Block, **values: int
    ) -> SimpleNamespace:
        """Runs a stream at the start of a buffer object, with a list of others."""
        into.words[: len(words)] = words
        every = [into, *bos]
        listed = b"".join(struct.pack("<IIQ", READ | WRITE, bo.id, 0) for bo in every)
        held = np.frombuffer(listed, np.uint8)
        command = struct.pack("<IIIIIIQ", 1, 0, 0, 4 * len(words), 0, 0, 0)
        commands = np.frombuffer(command, np.uint8)
        given = {"flags": 0x10, "nr_bos": len(every), "nr_cmds": 1, "bos": held.ctypes.data,
                 "cmds": commands.ctypes.data, "queueid": self.queue, **values}  # fmt: skip
        return self.call("gem_submit", **given)

    def wait(self, fence: int, seconds: float = 1.0) -> None:
        """Until a submission has ended. Raises: OSError."""
        until = self.world.monotonic_s() + seconds
        self.call("wait_fence", fence=fence, queueid=self.queue, tv_sec=int(until),
                  tv_nsec=int(until % 1 * 1e9))  # fmt: skip


@contextmanager
def msm_client(
    chip: str = "a630",
    *,
    clean: bool = True,
    vm_bind: bool = False,
    options: AdrenoOptions | None = None,
) -> Iterator[MsmClient]:
    """A process in front of a board; with `clean` nothing may be left to complain about."""
    chosen = options or AdrenoOptions(iface="MSM", vm_bind=vm_bind)
    world = open_qcom_board(chip, options=chosen)
    made = MsmClient(world)
    yield made
    if clean:
        check(world.violations == [], str(world.violations))
        check(world.hardware.log == [], str(world.hardware.log))
    world.power_off()
    check(world.hardware.memory.free.used_bytes == 0, "all DRAM is given back")
