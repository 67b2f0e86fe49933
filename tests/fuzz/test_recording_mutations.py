"""Recordings of a driver, damaged: only our own errors come out of it, at a bounded price."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from boards.front import Setup
from drivers.base.errors import DeviceError
from drivers.registry import open_device
from drivers.world.recording_text import read
from drivers.world.replay import ReplayWorld
from tests.boards import recordings
from tests.mutation import CPU_LIMIT_S, mutate
from tests.share import part
from tests.support import check

PLAYED = part(400, 40)
PARSED = part(20_000, 500)
DEVICE_LIMIT_S = 20 * CPU_LIMIT_S
"""Of a whole driver that opens and closes its device."""


def recording(tmp_path: Path) -> list[dict[str, Any]]:
    program = tmp_path / "program.py"
    program.write_text("")
    data = recordings.record(Setup("gfx1100"), program)
    return [json.loads(line) for line in data.splitlines()]


def damaged(entries: list[dict[str, Any]], rng: random.Random) -> bytes:
    """One answer of the machine is another one; its form stays right."""
    made = [dict(entry) for entry in entries]
    entry = made[rng.randrange(1, len(made))]
    result = entry.get("result")
    if entry.get("became") and rng.randrange(2):
        memory, off, text = entry["became"][0]
        raw = mutate(bytes.fromhex(text), rng)
        entry["became"] = [[memory, off + 8 * rng.randrange(2), raw.hex()]]
    elif isinstance(result, str):
        entry["result"] = mutate(bytes.fromhex(result), rng).hex() if entry["op"] == "read" else ""
    elif entry["op"] == "ioctl" and isinstance(result, list):
        entry["result"] = [result[0], mutate(bytes.fromhex(result[1]), rng).hex()]
    elif type(result) is int:
        entry["result"] = rng.choice((0, 1, result + 1, (1 << 31) - 1))
    elif isinstance(result, list):
        entry["result"] = [name for name in result if rng.randrange(3)]
    else:
        entry["error"] = rng.choice((["Busy", 16, "x"], ["Denied", 13, "x"], ["NotFound", 2, ""]))
        entry.pop("result", None)
    return "\n".join(json.dumps(one) for one in made).encode()


def test_a_driver_on_damaged_answers(tmp_path: Path) -> None:
    entries = recording(tmp_path)
    ended = {True: 0, False: 0}
    worst_s = 0.0
    for number in range(PLAYED):
        world = ReplayWorld(damaged(entries, random.Random(number)))
        begun_s = time.thread_time()
        try:
            open_device("AMD", world=world, environ={}).close()
            world.finish()
        except DeviceError:
            ended[False] += 1
        else:
            ended[True] += 1
        worst_s = max(worst_s, time.thread_time() - begun_s)
    check(ended[False] > PLAYED // 4 and ended[True] > 0, str(ended))
    check(worst_s < DEVICE_LIMIT_S, f"the slowest took {worst_s} s of processor time")


def test_damaged_text(tmp_path: Path) -> None:
    lines = [json.dumps(entry).encode() for entry in recording(tmp_path)]
    text = b"\n".join(line for line in lines if len(line) < 500)
    accepted, worst_s = 0, 0.0
    for number in range(PARSED):
        blob = mutate(text, random.Random(number))
        begun_s = time.thread_time()
        try:
            list(read(blob.splitlines(keepends=True))[1])
        except DeviceError as error:
            check("recording" in str(error) and len(str(error)) < 1000, str(error)[:1000])
        else:
            accepted += 1
        worst_s = max(worst_s, time.thread_time() - begun_s)
    check(0 < accepted < PARSED, f"{accepted} of {PARSED} were accepted")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
