"""Stock tinygrad's kernel interface (NVKIface) on an NVIDIA board in the same process.

python -m tests.witness.tinygrad_nv_client PACKAGES [CHIP]

Replaced from outside: opening, ioctl and mmap of the driver's files, and stores to the page of
doorbells, which is plain memory to a client. The board executes the kernel's own code; then this
file stores where nothing is mapped in its place. Without nvrtc (NVRTC_PATH) there are only copies.
Each result is a line of JSON; the last one has the violations.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import time

import numpy as np

from boards.machine import host
from boards.nv.hardware import NvOptions
from boards.nv.launch import Executor, Launch
from boards.nv.machine import open_nv_board
from boards.nv.world import NvWorld

_OPENED, _COMMAND, _TYPE_SHIFT = 0x3000_0000, 0xFF, 8
_WRONG_VA = 0x33_0000_0000
_NODES = "/dev/nvidia"


class Watched:
    """The board's executor, of which launches are noted; or code that is broken."""

    def __init__(self, board: Executor) -> None:
        self.launches: list[Launch] = []
        self.board, self.executed = board, 0
        self.wrong = False
        """Store where nothing is mapped, as broken code would."""

    def launch(self, launch: Launch) -> None:
        """By the board, unless the code is to be broken."""
        self.launches.append(launch)
        if self.wrong:
            launch.space.write(_WRONG_VA, bytes(4))
        else:
            self.board.launch(launch)
            self.executed += 1


class Patched:
    """tinygrad's file interface, led to a board."""

    def __init__(self, world: NvWorld) -> None:
        self.world = world
        self.requests: collections.Counter[str] = collections.Counter()
        self.doorbells: dict[int, object] = {}
        """Address of a page that stands for registers -> the registers."""

    def install(self, hcq: object) -> None:
        """Replace the methods that reach the machine."""
        files, memory = hcq.FileIOInterface, hcq.MMIOInterface
        real_init, real_del, real_store = files.__init__, files.__del__, memory.__setitem__

        def init(file, path="", flags=0, fd=None) -> None:
            if path.startswith(_NODES):
                file.path, file.fd, file.board = path, self.world.open(path, flags), True
            else:
                real_init(file, path, flags, fd)

        def delete(file) -> None:
            if not getattr(file, "board", False):
                real_del(file)

        def store(region, key, value) -> None:
            if region.addr in self.doorbells and isinstance(key, int):
                self.doorbells[region.addr].write32(key * 4, value)
            else:
                real_store(region, key, value)

        files.__init__, files.__del__, memory.__setitem__ = init, delete, store
        files.ioctl = lambda file, request, argument: self.ioctl(file.fd, request, argument)
        files.mmap = lambda file, start, size, *_: self.mmap(file.fd, start, size)

    def ioctl(self, fd: int, request: int, argument: object) -> int:
        """One request, its struct in place."""
        view = memoryview(argument).cast("B")
        data = bytearray(view)
        escape = request >> _TYPE_SHIFT & _COMMAND == ord("F")
        name = f"escape {request & _COMMAND:#x}" if escape else f"UVM {request & ~_OPENED:#x}"
        self.requests[name] += 1
        result = self.world.ioctl(fd, request, data)
        view[:] = data
        return result

    def mmap(self, fd: int, start: int | None, size: int) -> int:
        """Memory at the address that the client wants; registers as a page of their own."""
        context = self.world.prepared(fd)
        if context is None:
            raise OSError(22, "not prepared")
        if context.memory is None:
            page = host.map_anonymous(size)
            self.doorbells[page] = self.world.mmap(fd, size)
            return page
        context.memory.prepare(context.offset, size)
        va = start or host.reserve(size)
        done = 0
        for piece in context.memory.pieces_from(context.offset):
            part = min(piece.nbytes, size - done)
            if part > 0:
                host.map_file(context.memory.pool.fd, piece.start, part, at=va + done)
                done += part
        return va


def say(**facts: object) -> None:
    """One line."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Open, copy, launch."""
    packages, chip = sys.argv[1], (sys.argv[2:] or ["ga102"])[0]
    sys.path.insert(0, packages)
    world = open_nv_board(chip, options=NvOptions(vram_bytes=1 << 30, driver=580))
    patched, kernel = Patched(world), Watched(world.gpus[0].executor)
    world.gpus[0].executor = kernel
    import tinygrad.runtime.support.hcq as hcq

    patched.install(hcq)
    from tinygrad import Device, Tensor

    began = time.monotonic()
    device = Device["NV"]
    say(open=device.arch, interface=type(device.iface).__name__,
        requests=sum(patched.requests.values()), seconds=time.monotonic() - began)  # fmt: skip
    data = np.random.default_rng(5).integers(0, 1 << 30, 100_000, np.int32)
    there = Tensor(data, device="NV").realize()
    say(copies=bool((there.numpy() == data).all()))
    before = sum(patched.requests.values())
    try:
        found = (there + 1).numpy()
    except Exception as error:  # the client's own words, whatever they are
        say(launch="not run", why=f"{type(error).__name__}: {error}"[:300])
    else:
        made = kernel.launches[0]
        say(launch=bool((found == data + 1).all()), executed=kernel.executed > 0, grid=made.grid,
            block=made.block,
            registers=made.registers, requests=sum(patched.requests.values()) - before)  # fmt: skip
    kernel.wrong = True
    try:
        (there + 1).numpy()
    except RuntimeError as error:
        say(fault=f"{error}"[:300])
    else:
        say(fault="")
    say(requests=dict(patched.requests),
        violations=[str(violation) for violation in world.violations])  # fmt: skip
    os._exit(0)  # after a fault the client waits for half a minute as it closes


if __name__ == "__main__":
    main()
