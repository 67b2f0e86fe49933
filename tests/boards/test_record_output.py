"""`python -m drivers.record`: when it makes a file, and when it says that no replay takes it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from drivers import record
from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError, NotFound
from drivers.base.oserrors import translate
from tests.fake_machine import X86, FakeMachine
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
ADD = ROOT / "examples/add.py"
NO_GPU: dict[str, dict[str, str]] = {
    "KFD": {"DEV": "AMD"},
    "USB": {"DEV": "AMD", "AMD_IFACE": "USB"},
    "NV": {"DEV": "NV"},
    "KGSL": {"DEV": "QCOM", "QCOM_IFACE": "KGSL"},
    "MSM": {"DEV": "QCOM", "QCOM_IFACE": "MSM"},
}


class NoGpu(FakeMachine):
    """A machine with no node of any GPU."""

    def open(self, path: str, flags: int) -> int:
        raise translate(OSError(errno.ENOENT, os.strerror(errno.ENOENT)), f"open {path}")


@pytest.mark.parametrize("iface", NO_GPU)
def test_without_a_gpu_nothing_is_written(
    iface: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine: Any = NoGpu(X86)
    new, old = tmp_path / "recording.jsonl.gz", tmp_path / "older"
    old.write_bytes(b"an older recording")
    for path in (new, old):
        with pytest.raises(NotFound):
            record.record_kernel(machine, NO_GPU[iface], ADD, [], str(path))
    check(not new.exists() and old.read_bytes() == b"an older recording")
    check(capsys.readouterr().out == "", "and no file is named")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    machine: Any = NoGpu(X86)
    with pytest.raises(NotFound, match=r"gone\.py"):
        record.record_kernel(machine, {}, tmp_path / "gone.py", [], str(tmp_path / "r"))
    check(not list(tmp_path.iterdir()))


def test_a_device_that_cannot_be_opened_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, *, world: World, environ: object) -> None:
        check(world.exists("/etc/group"))
        raise Denied("/dev/kfd is not yours")

    monkeypatch.setattr(record, "open_device", refused)
    file, machine = tmp_path / "recording", NoGpu(X86)
    given: Any = machine
    with pytest.raises(Denied):
        record.record_kernel(given, {}, ADD, [], str(file))
    head, one = [json.loads(line) for line in file.read_text().splitlines()]
    check(head["program"] == "add.py" and one["op"] == "exists", f"{head} {one}")


class _Closes:
    """A device of which only its end is wanted."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_a_device_is_closed_where_the_file_cannot_be_made(tmp_path: Path) -> None:
    device = _Closes()

    def opening() -> Any:
        return device

    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("link", "no/folder", "."):
        device.closed = False
        with pytest.raises(DeviceError):
            record.Output(str(tmp_path / name), "{}\n").opened(opening)
        check(device.closed, name)
    check(not (tmp_path / "target").exists(), "a link is not written through")


def test_a_recording_that_no_replay_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    output = record.Output("unused", '{"recording": 1}\n')
    output.line('{"op": "close", "args": [3], "result": null}\n')
    check(output.wrong == "")
    monkeypatch.setattr(record, "MAX_ELEMENTS", 3)
    output.line('{"op": "read32", "args": [3, 4], "result": 1}\n')
    check("line 3 has more than 3 elements" in output.wrong, output.wrong)
