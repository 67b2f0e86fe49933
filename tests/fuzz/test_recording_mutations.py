"""Recordings of every interface, damaged: only our own errors come out, at a bounded price.

A life opens the device, computes a + a and closes it; each answer of the machine may be another
one, of the right form. The text is damaged, too, in any way. Over PCI it is a register trace.
"""

from __future__ import annotations

import gc
import io
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from boards.front import Setup, power_on
from drivers import taped_program as taped
from drivers.bare import trace_player
from drivers.base.errors import DeviceError
from drivers.registry import open_device
from drivers.world.memory_state import MemoryState
from drivers.world.recording_text import read
from drivers.world.replay import ReplayWorld
from tests.boards import recordings
from tests.mutation import CPU_LIMIT_S, mutate
from tests.share import part
from tests.support import check

PLAYED = part(400, 6)
PARSED = part(20_000, 100)
DEVICE_LIMIT_S = 20 * CPU_LIMIT_S
"""Of a whole driver that opens and closes its device."""
SETUPS = {
    "KFD": Setup("gfx1100"),
    "USB": Setup("gfx1100", iface="USB"),
    "NV": Setup("ga102"),
    "KGSL": Setup("a630", iface="KGSL"),
    "MSM": Setup("a630", iface="MSM"),
}
KINDS = {"KFD": "AMD", "USB": "AMD", "NV": "NV", "KGSL": "QCOM", "MSM": "QCOM"}
PROGRAM = """
import numpy as np
import tensor as xp

a = xp.asarray(np.arange(96, dtype=np.float32), device="{kind}")
raise SystemExit(0 if np.array_equal((a + a).numpy(), 2 * np.arange(96)) else 3)
"""
WHOLE = (0, 1, 7, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 64) - 1)
FLOATS = (0.0, -0.0, 1e-300, 1e9, 2.0**40 - 1, 2.0**40, 1e300, -1.0, float("inf"), float("nan"))
TEXTS = ("..", "9" * 30, "-1", "\0", "\x1b[2J", "/etc/passwd", "x" * 5000)
ERRORS = (("Busy", 16), ("Denied", 13), ("NotFound", 2), ("DeviceGone", 19), ("DeviceError", 5),
          ("DeviceTimeout", 110), ("Unsupported", 0))  # fmt: skip
_NUMBER = re.compile(rb"\d+")
OURS = re.compile(r"(drivers\.base\.errors|drivers\.world\.replay)\.\w+:")
"""How the last line of a program's report names an error of ours."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@cache
def made(iface: str, room: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The program, and the lines of its recording."""
    program = room / f"{iface}.py"
    program.write_text(PROGRAM.format(kind=KINDS[iface]))
    data = recordings.record(SETUPS[iface], program)
    return program, [json.loads(line) for line in data.splitlines()]


def number_of_a_file(raw: bytes, rng: random.Random) -> bytes:
    """One number of a text is an absurd one."""
    found = list(_NUMBER.finditer(raw))
    if not found:
        return mutate(raw, rng)
    one = rng.choice(found)
    value = rng.choice([*WHOLE, 10**20, 10**400, int(one[0]) * 1000, -1])
    return raw[: one.start()] + str(value).encode() + raw[one.end() :]


def other_bytes(text: str, rng: random.Random) -> str:
    """As many other bytes."""
    raw = bytes.fromhex(text)
    return mutate(raw, rng)[: len(raw)].ljust(len(raw), b"\0").hex()


def damage(entry: dict[str, Any], rng: random.Random) -> None:
    """One answer of the machine is another one; its form stays right."""
    op, result = entry["op"], entry.get("result")
    if entry.get("became") and rng.randrange(2):
        changes = [list(one) for one in entry["became"]]
        one = rng.choice(changes)
        one[2] = other_bytes(one[2], rng)
        one[1] += 8 * (not rng.randrange(9))
        entry["became"] = changes
    elif op == "read" and isinstance(result, str):
        raw = bytes.fromhex(result)
        entry["result"] = rng.choice((number_of_a_file, mutate))(raw, rng).hex()
    elif op == "ioctl" and isinstance(result, list):
        entry["result"] = [rng.choice((result[0], -1, 1)), other_bytes(result[1], rng)]
    elif op == "usb_wait" and result:
        entry["result"] = [mutate(bytes.fromhex(text), rng).hex() for text in result]
        rng.shuffle(entry["result"])
    elif isinstance(result, str):
        entry["result"] = other_bytes(result, rng) if op != "readlink" else rng.choice(TEXTS)
    elif isinstance(result, bool):
        entry["result"] = not result
    elif isinstance(result, int):
        entry["result"] = rng.choice((*WHOLE, result + 1, result ^ 1, -1))
    elif isinstance(result, float):
        entry["result"] = rng.choice((*FLOATS, result - 5, result + 1e9))
    elif isinstance(result, list):
        entry["result"] = [one for one in result if rng.randrange(3)] + [rng.choice(TEXTS)]
    else:
        entry.pop("result", None)
        entry["error"] = [*rng.choice(ERRORS), "x"]


def damaged(entries: list[dict[str, Any]], rng: random.Random) -> bytes:
    """A recording with up to three other answers."""
    made = [dict(entry) for entry in entries]
    for _ in range(rng.choice((1, 1, 1, 3))):
        damage(made[rng.randrange(1, len(made))], rng)
    return "\n".join(json.dumps(one) for one in made).encode()


def life(iface: str, program: Path, data: bytes) -> str:
    """How a life on a recording ended. Raises: what is no error of ours."""
    report = io.StringIO()
    try:
        world = ReplayWorld(data)
        header = world.header
        environ = taped.choices(header.environ, header.device) if header else {}
        state = MemoryState() if iface == "USB" else None
        opened = partial(open_device, KINDS[iface], world=world, environ=environ, state=state)
        status = taped.run_on(KINDS[iface], opened, program, (), report)
        world.finish()
    except DeviceError as error:
        return type(error).__name__
    if status not in (0, 3):
        last = report.getvalue().strip().splitlines()[-1]
        check(OURS.match(last), report.getvalue()[-2000:])
        return "error in the program"
    return "right" if status == 0 else "other data"


@pytest.mark.parametrize("iface", SETUPS)
def test_a_driver_on_damaged_answers(iface: str, room: Path) -> None:
    program, entries = made(iface, room)
    whole = "\n".join(json.dumps(one) for one in entries).encode()
    check(life(iface, program, whole) == "right", "what is damaged below is right")
    ended, worst_s = Counter[str](), 0.0
    gc.collect()
    gc.freeze()  # a life collects garbage; the modules of boards are none of its
    for number in range(PLAYED):
        data = damaged(entries, random.Random(number))
        begun_s = time.thread_time()
        ended[life(iface, program, data)] += 1
        worst_s = max(worst_s, time.thread_time() - begun_s)
    gc.unfreeze()
    refused = PLAYED - ended["right"] - ended["other data"]
    check(refused > PLAYED // 4, f"{ended}")
    check(worst_s < DEVICE_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    print(f"{iface}: {PLAYED} lives, the slowest {worst_s:.3f} s: {dict(ended)}")


def texts(lines: list[bytes], take: Callable[[bytes], object], what: str) -> None:
    """Damage a text anywhere; `take` reads it whole."""
    text = b"\n".join(line for line in lines if len(line) < 500)[: 32 << 10]
    accepted, worst_s = 0, 0.0
    for number in range(PARSED):
        blob = mutate(text, random.Random(number))
        begun_s = time.thread_time()
        try:
            take(blob)
        except DeviceError as error:
            check(what in str(error) and len(str(error)) < 1000, str(error)[:1000])
        else:
            accepted += 1
        worst_s = max(worst_s, time.thread_time() - begun_s)
    check(PARSED - accepted > 0, "nothing was refused")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    print(f"{what}: {PARSED} texts, {accepted} accepted, the slowest {worst_s:.3f} s")


@pytest.mark.parametrize("iface", SETUPS)
def test_damaged_text(iface: str, room: Path) -> None:
    _, entries = made(iface, room)

    def take(blob: bytes) -> None:
        for _ in read(blob.splitlines(keepends=True))[1]:
            pass

    texts([json.dumps(entry).encode() for entry in entries], take, "recording")


class Registers:
    """A GPU that takes everything and reads 0."""

    def read(self, bar: int, off: int, nbytes: int) -> int:
        return 0

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        """Nothing stays."""

    def place(self, bar: int, off: int, data: bytes) -> None:
        """Nothing stays."""


def test_damaged_traces(room: Path) -> None:
    """A boot over PCI, whose lines have registers and bytes."""
    path = room / "trace.jsonl"
    power_on(Setup("gfx1100", iface="PCI", trace=str(path))).open().close()
    lines = path.read_bytes().splitlines()

    def take(blob: bytes) -> None:
        text = (str(one, "ascii", "replace") for one in blob.splitlines())
        trace_player.play(trace_player.lines(text, "trace", 5), Registers())

    texts(lines, take, "trace")
