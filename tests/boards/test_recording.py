"""A tensor program over KFD is recorded on a board and played back when the board is off."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from boards.amd.chip import chip
from boards.amd.kfd.world import BoardWorld
from boards.front import Setup
from drivers import record, replay
from drivers.amd.kfd import hwqueue as kfd_hwqueue
from drivers.world.taped_memory import END_VA, FIRST_VA
from tests.boards import recordings
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 300_000
CHIPS = [("gfx1100", False), ("gfx1100", True), ("gfx942", True), ("gfx1201", False),
         ("gfx1103", False)]  # fmt: skip
"""Cards with queues of PM4 and of AQL packets, and a processor's GPU: its memory is the host's."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(recordings.PROGRAM)
    return path


@pytest.mark.parametrize(("name", "aql"), CHIPS)
def test_it_replays_without_the_board(name: str, aql: bool, program: Path) -> None:
    data = recordings.record(Setup(name, aql=aql), program)
    check(len(data) < MOST_BYTES, f"{len(data)} bytes")
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")
    check(world.count == data.count(b"\n") - 1 and world.count > 100, f"{world.count} operations")


@pytest.mark.parametrize("text", [recordings.GRAPHS, recordings.LARGE], ids=["graphs", "large"])
@pytest.mark.parametrize("setup", [Setup("gfx1100", late=True), Setup("gfx942", late=True)],
                         ids=lambda setup: setup.chip)  # fmt: skip
def test_queues_that_run_late(setup: Setup, text: str, program: Path) -> None:
    """The GPU writes memory between any two operations, as silicon does."""
    program.write_text(text)
    data = recordings.record(setup, program)
    check(len(data) < MOST_BYTES, f"{len(data)} bytes")
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")


def words(data: bytes) -> Iterator[int]:
    """Every number of a recording, and every 64-bit word of its bytes at any multiple of four."""
    for line in data.splitlines():
        for text in re.findall(rb'"([0-9a-f]{16,})"', line):
            raw = bytes.fromhex(text.decode()) if len(text) % 2 == 0 else b""
            for off in range(0, len(raw) - 7, 4):
                yield struct.unpack_from("<Q", raw, off)[0]
        yield from map(int, re.findall(rb"(?<![0-9a-f])\d{6,20}(?![0-9a-f])", line))


def mapped() -> list[tuple[int, int]]:
    """What of this process is where the loader or the kernel chose to put it."""
    spans = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().split("\n")
             if line]  # fmt: skip
    return [(int(first, 16), int(last, 16)) for first, last in spans if int(first, 16) >= 1 << 32]


def test_it_holds_no_address_of_the_process(program: Path) -> None:
    data = recordings.record(Setup("gfx1100"), program)
    spans = mapped()
    suspects = {word for word in words(data) if 1 << 32 <= word < 1 << 47}
    found = [hex(va) for va in suspects if any(first <= va < last for first, last in spans)]
    check(not found, f"addresses of this process: {found}")
    own = sum(FIRST_VA <= va < END_VA for va in suspects)
    check(own > 50, f"only {own} addresses of the recording were looked at")


def test_it_holds_no_name_of_the_machine(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serial numbers, UUIDs, names of user and host: each is read by the driver, none is taped."""
    unique = chip("gfx1100").properties["unique_id"]
    node = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/"
    plain, read = BoardWorld.read, list[str]()

    def reports(self: BoardWorld, path: str, limit_bytes: int = 1 << 20) -> bytes:
        read.append(path)
        data = plain(self, path, limit_bytes)
        if path == node + "properties":
            data += b"serial_number 602214076\nboard_uuid 137035999084\n"
            data = re.sub(rb"(?m)^hive_id .*", b"hive_id 299792458", data)
        if path == node + "name":
            data = b"navi31 of zaphod on heartofgold\n"
        return data

    monkeypatch.setattr(BoardWorld, "read", reports)
    data = recordings.record(Setup("gfx1100"), program)
    entries = [json.loads(line) for line in data.splitlines()]
    files = [bytes.fromhex(one["result"]) for one in entries if one.get("op") == "read"]
    texts = b"".join(files) + "\n".join(plain_texts(entries)).encode()
    check({node + "properties", node + "name"} <= set(read), "the driver read them")
    check(b"navi31 of user on host" in texts, "and got the scrubbed name")
    check(re.search(rb"unique_id \d\n", texts), "and a number in the place of the serial number")
    reported = [
        str(unique), f"{unique:x}", "602214076", "137035999084", "299792458", "zaphod",
        "heartofgold",
    ]  # fmt: skip
    for secret in reported:
        forms = secret.encode(), secret.encode().hex().encode()
        check(all(form not in data and form not in texts for form in forms), secret)
    here = [os.uname().nodename, str(Path.home()), str(program.parent)]
    for secret in [name for name in here if len(name) > 2]:
        check(re.search(rf"(?<!\w){re.escape(secret)}(?!\w)".encode(), texts) is None, secret)


def plain_texts(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Every text of a recording that is no bytes in hex."""
    for entry in entries:
        parts: list[Any] = [*entry.get("args", []), entry.get("result"), entry.get("program")]
        parts += entry.get("error", []) + entry.get("arguments", [])
        parts += entry["result"] if entry.get("op") == "listdir" else []
        yield from (part for part in parts if isinstance(part, str)
                    and not re.fullmatch(r"(?:[0-9a-f]{2})+", part))  # fmt: skip


def test_a_driver_that_asks_otherwise_is_reported(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = recordings.record(Setup("gfx1100"), program)
    monkeypatch.setattr(kfd_hwqueue, "PRIORITY", 6)
    status, world = recordings.replay(data, program)
    reported = str(world.differences)
    check(status is None and world.differ == 1 and reported.count("operation") == 1, reported)
    check("is ioctl [" in reported and "the recording has ioctl [" in reported, reported)


def test_a_program_that_computes_otherwise_is_reported(program: Path) -> None:
    data = recordings.record(Setup("gfx1100"), program)
    program.write_text(recordings.PROGRAM.replace("xp.ones((12, 8)", "xp.zeros((12, 8)"))
    _, world = recordings.replay(data, program)
    check(world.differ > 0, "other code")
    program.write_text(recordings.PROGRAM.replace("np.arange(96", "-np.arange(96"))
    _, world = recordings.replay(data, program)
    reported = str(world.differences)
    check(
        world.differ > 0 and "is written" in reported and "the recording has" in reported, reported
    )


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DEV", "AMD")}
    return run_limited(
        [sys.executable, "-m", *arguments], cwd=ROOT, env={**kept, **environ},
        capture_output=True, text=True, check=False, cpu_s=300,
    )  # fmt: skip


def test_the_commands(tmp_path: Path) -> None:
    file = str(tmp_path / "add.jsonl.gz")
    made = command("drivers.record", "-o", file, "--board", "gfx1100", "examples/add.py")
    check(made.returncode == 0 and "on AMD: [1. 2." in made.stdout, made.stderr)
    check(Path(file).stat().st_mode & 0o77 == 0 and Path(file).stat().st_size < 30_000)
    head = Path(file).read_bytes()[:10]
    check(head[3:8] == bytes(5), "no name and no time in the head of the file")  # src: RFC 1952
    played = command("drivers.replay", file)
    check(played.returncode == 0 and " 0 differences" in played.stdout, played.stdout)
    check("on AMD: [1. 2. 3. 4. 5. 6. 7. 8.]" in played.stdout, played.stdout)
    other = tmp_path / "other.py"
    other.write_text((ROOT / "examples/add.py").read_text().replace("arange(8", "arange(1, 9"))
    played = command("drivers.replay", file, str(other))
    check(played.returncode == 1 and "is not the program" in played.stdout, played.stdout)


def test_the_command_over_pci(tmp_path: Path) -> None:
    file = str(tmp_path / "trace.jsonl")
    command_line = ("drivers.record", "-o", file, "--board", "gfx1100", "examples/add.py")
    made = command(*command_line, AMD_IFACE="PCI")
    check(made.returncode == 0 and "register accesses" in made.stdout, made.stderr)
    check(Path(file).stat().st_size < MOST_BYTES)
    check(replay.main([file, "--board", "gfx1100"]) == 0)


@pytest.mark.parametrize(
    "line",
    [
        '{"recording": 1}', '{"recording": 7}',
        '{"recording": 1, "device": "AMD", "program": "gone.py", "sha256": "", "arguments": [], '
        '"environ": {}}',
        '{"recording": 1, "device": "NONE", "program": "program.py", "sha256": "", '
        '"arguments": [], "environ": {"AMD_AQL": "9", "AMD_TRACE": "/tmp/written"}}',
    ],
)  # fmt: skip
def test_unusable_recordings(
    line: str, tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recording"
    file.write_text(line + "\n")
    given = [str(program)] if "program.py" in line else []
    check(replay.main([str(file), *given]) == 2)
    check(capsys.readouterr().err.startswith("drivers.replay: "))


def test_what_cannot_be_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output: list[Any] = ["-o", str(tmp_path / "r"), "--board"]
    check(record.main([*output, "gfx1100", str(tmp_path / "gone.py")]) == 2)
    check("gone.py" in capsys.readouterr().err)
    with pytest.raises(SystemExit, match=r"^2$"):  # as argparse ends
        record.main([*output, "gfx1", str(ROOT / "examples/add.py")])
    check("gfx1100" in capsys.readouterr().err, "the boards there are")
    monkeypatch.setenv("DEV", "CPU")
    check(record.main([*output[:2], str(ROOT / "examples/add.py")]) == 2)
    check("DEV=AMD" in capsys.readouterr().err, "the CPU has no driver")
    monkeypatch.delenv("DEV")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "r")
    board = ["--board", "gfx1100", str(ROOT / "examples/add.py")]
    check(record.main(["-o", str(link), *board]) == 2, "a link is not written through")
