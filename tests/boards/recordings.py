"""Recordings of a driver over a kernel driver, made on a board, for several test files."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

from boards.amd.kfd.world import BoardWorld
from boards.front import Front, Setup, power_on
from boards.nv.world import NvWorld
from boards.qcom.world import QcomWorld
from drivers import taped_program as taped
from drivers.kinds import BY_NAME, named
from drivers.registry import open_device
from drivers.world.recording import Header
from drivers.world.replay import RecordingWorld, ReplayMismatch, ReplayWorld
from drivers.world.scrub import Scrubber

PROGRAM = """
import numpy as np
import tensor as xp

a = xp.asarray(np.arange(96, dtype=np.float32).reshape(8, 12), device="AMD")
b = xp.ones((12, 8), dtype=xp.float32, device="AMD")
found = [(a + a).numpy(), (a @ b).numpy(), xp.sum(a).numpy()]
sums = np.array_equal(found[0], 2 * a.numpy())
products = np.array_equal(found[1], np.repeat(a.numpy().sum(1), 8).reshape(8, 8))
raise SystemExit(0 if sums and products and found[2] == 4560 else 3)
"""
GRAPHS = """
import numpy as np
import tensor as xp
from tensor import jit

@jit
def step(a, b):
    return a @ b + a

a = xp.asarray(np.arange(64, dtype=np.float32).reshape(8, 8), device="AMD")
b = xp.asarray(np.eye(8, dtype=np.float32), device="AMD")
for _ in range(12):
    a = step(a, b)
expected = np.arange(64, dtype=np.float32).reshape(8, 8) * 2**12
raise SystemExit(0 if np.array_equal(a.numpy(), expected) else 3)
"""
"""A graph that is replayed with other arguments each time, in copies of its memory."""
LARGE = """
import numpy as np
import tensor as xp

x = np.full(9 << 20, 7, dtype=np.uint8)
a = xp.asarray(x, device="AMD")
raise SystemExit(0 if int(xp.sum(a).numpy()) == 7 * x.size else 3)
"""
"""A copy that several threads would share."""
NAMES = {b"zaphod": b"user", b"heartofgold": b"host"}


def record(setup: Setup, program: Path) -> bytes:
    """Run a program on a board, and power the board off. Raises: AssertionError for violations."""
    front = power_on(setup)
    return record_on(front, program)


def record_on(front: Front, program: Path) -> bytes:
    """The same of a board that is switched on."""
    lines: list[str] = []
    kind = front.environ["DEV"]
    environ = taped.choices(front.environ, kind)
    header = Header(kind, program.name, taped.digest(program), (), environ)
    lines.append(header.line())
    known = BY_NAME[kind].identifiers
    world = RecordingWorld(
        front.world, lines.append, Scrubber(dict(NAMES)), named(known)() if known else None
    )
    status = run(world, environ, program, kind)
    violations = [str(violation) for violation in front.board.violations]
    if isinstance(front.board, BoardWorld | NvWorld | QcomWorld):
        front.board.power_off()
    if status or violations:
        raise AssertionError(f"status {status}, {violations}")
    return "".join(lines).encode()


def run(
    world: RecordingWorld | ReplayWorld, environ: dict[str, str], program: Path, kind: str
) -> int:
    """The exit status of a program on a taped world."""
    opened = partial(open_device, kind, world=world, environ=environ)
    return taped.run_on(kind, opened, program, (), io.StringIO())


def replay(data: bytes, program: Path) -> tuple[int | None, ReplayWorld]:
    """(the program's status, the world that was played); None: the replay ended early."""
    world = ReplayWorld(data)
    header = world.header
    environ = dict(header.environ) if header is not None else {}
    try:
        status = run(world, environ, program, header.device if header is not None else "AMD")
        world.finish()
    except ReplayMismatch:
        return None, world
    return status, world
