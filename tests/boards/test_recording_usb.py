"""A program over USB is recorded on a board of the bridge and played back without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boards.front import Setup
from drivers.base.errors import MalformedInput
from drivers.base.usb import Transfer
from drivers.world.recording_text import read
from drivers.world.replay import RecordingWorld, ReplayMismatch, ReplayWorld
from tests.boards import recordings
from tests.boards.usb_rig import WHERE, UsbRig
from tests.support import check

MOST_BYTES = 3_000_000
PROGRAM = """
import numpy as np
import tensor as xp

a = xp.asarray(np.arange(96, dtype=np.float32), device="AMD")
raise SystemExit(0 if np.array_equal((a + a).numpy(), 2 * np.arange(96)) else 3)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    program = tmp_path_factory.mktemp("usb") / "program.py"
    program.write_text(PROGRAM)
    return recordings.record(Setup("gfx1100", iface="USB"), program), program


def test_it_replays_without_the_board(recorded: tuple[bytes, Path]) -> None:
    data, program = recorded
    check(len(data) < MOST_BYTES, f"{len(data)} bytes")
    check(b"c0ffee01" not in data and b'"usb_wait"' in data, "the serial number is on the tape")
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")
    check(world.count == data.count(b"\n") - 1 > 300, f"{world.count} operations")


def test_other_data_is_a_difference(recorded: tuple[bytes, Path]) -> None:
    """It is named by its transfer, and the replay goes on to the end."""
    data, program = recorded
    program = program.with_name("other.py")
    program.write_text(PROGRAM.replace("np.arange(96, dtype", "7 + np.arange(96, dtype"))
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ >= 1, f"{status}, {world.differences}")  # as it was then
    check("of USB device 0 is written" in world.differences[0], world.differences[0])


def answers(*lines: dict[str, object]) -> ReplayWorld:
    return ReplayWorld("\n".join(map(json.dumps, lines)).encode())


def test_errors_come_again() -> None:
    """A stall that was recorded is raised again, and other transfers end the replay."""
    rig = UsbRig()
    lines: list[str] = []
    usb = RecordingWorld(rig.world(), lines.append).usb(*WHERE, 0)
    ask = Transfer.ask("read XDATA", 0xC0, 0xE4, 0xB450, 0, 1)
    wanted = usb.run([ask], 1.0)
    rig.cable.fail("stall")
    with pytest.raises(Exception, match="stall") as then:
        usb.run([ask], 1.0)
    usb.close()
    world = ReplayWorld("".join(lines).encode())
    played = world.usb(*WHERE, 0)
    check(played.run([ask], 1.0) == wanted and played.product == "custom v0.1")
    with pytest.raises(type(then.value)):
        played.run([ask], 1.0)
    with pytest.raises(ReplayMismatch):
        played.run([ask], 1.0)


def test_malformed_lines() -> None:
    for op, result in (("usb", ["1-1"]), ("usb", [1, 2]), ("usb_wait", ["xy"]), ("usb_wait", 3)):
        with pytest.raises(MalformedInput):
            list(read([json.dumps({"op": op, "args": [], "result": result}).encode()])[1])
    opened = {"op": "usb", "args": [1, 2, 0], "result": ["1-1", "custom"]}
    start = {"op": "usb_start", "args": [0, 0, [[-1, 1, 0, 192, 228, 0, 0]]], "result": None}
    usb = answers(opened, start, {"op": "usb_wait", "args": [0], "result": ["00", "00"]}).usb(
        1, 2, 0
    )
    with pytest.raises(MalformedInput, match="2 results of 1 transfers"):
        usb.run([Transfer.ask("x", 0xC0, 0xE4, 0, 0, 1)], 1.0)
