"""Parts of `make vm` that need no virtual machine: the guest's file system, and who passed."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import debian
from tests.debian import Archive, CannotRun
from tests.support import check
from tests.vm import __main__ as vm
from tests.vm.cpio import CpioWriter
from tests.vm.machine import Boot, Outcome, Places, child, judge, run

BOOT = Boot("a boot", "bars", limit_s=1)
GOOD = "PASS  one (0.1 s): fine\r\nnoise\nPASS  two (0.2 s): 3\nvm: exit status 0\n"


def entries(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Name to (mode, content). src: linux driver-api/early-userspace/buffer-format.rst"""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while at < len(data):
        check(data[at : at + 6] == b"070701", f"no header at {at}")
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_bytes = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_bytes - 1].decode()
        start = at + 110 + name_bytes
        start += -start % 4
        found[name] = mode, data[start : start + size]
        at = start + size
        at += -at % 4
    return found


def test_the_file_system_reads_back(tmp_path: Path) -> None:
    source = tmp_path / "script"
    source.write_bytes(b"#!/bin/sh\n")
    source.chmod(0o755)
    with CpioWriter(tmp_path / "image") as image:
        image.file("/bin/script", source)
        image.data("/etc/odd/name", b"12345")
        image.link("/bin/other", "script")
    with CpioWriter(tmp_path / "image", append=True) as image:
        image.character_device("/dev/console", 5, 1)
    found = entries((tmp_path / "image").read_bytes())
    check(found["bin/script"] == (stat.S_IFREG | 0o755, b"#!/bin/sh\n"))
    check(found["etc/odd/name"] == (stat.S_IFREG | 0o644, b"12345"))
    check(found["bin/other"] == (stat.S_IFLNK | 0o777, b"script"))
    check(stat.S_ISDIR(found["etc/odd"][0]) and stat.S_ISCHR(found["dev/console"][0]))
    order = list(found)
    check(order.index("etc") < order.index("etc/odd") < order.index("etc/odd/name"))
    check(order.count("TRAILER!!!") == 1)


def verdict(console: str, board_status: int = 0, trouble: str = "") -> Outcome:
    outcome = Outcome(BOOT, trouble=trouble)
    judge(outcome, console, board_status, "violation: something\n1 violations\n")
    return outcome


def test_a_good_boot_passes() -> None:
    outcome = verdict(GOOD)
    check(not outcome.failed, str(outcome))
    check([kind for kind, _ in outcome.lines] == ["PASS"] * 3)


@pytest.mark.parametrize(
    ("console", "status", "trouble"),
    [
        ("", 0, ""),
        (GOOD.replace("vm: exit status 0", "Kernel panic"), 0, ""),
        (GOOD.replace("status 0", "status 1"), 0, ""),
        (GOOD.replace("PASS  two", "FAIL  two"), 0, ""),
        ("vm: exit status 0\n", 0, ""),
        (GOOD, 1, ""),
        (GOOD, 0, "no end after 300 s"),
    ],
)
def test_everything_else_fails(console: str, status: int, trouble: str) -> None:
    check(verdict(console, status, trouble).failed)


def test_a_board_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    """And no machine that cannot run it, which `--optional` would forgive."""
    nowhere = Places(tmp_path, tmp_path, tmp_path)
    with (tmp_path / "log").open("w+b") as log:
        outcome = run(BOOT, "no such board", nowhere, log)
    check(outcome.failed and "did not start" in outcome.trouble, str(outcome))
    check(any(kind == "FAIL" and "exit status" in text for kind, text in outcome.lines))
    check(b"no such board" in (tmp_path / "log").read_bytes(), "what it said is in the log")


def test_a_folder_is_fetched_whole_or_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Archive, "update", lambda archive: None)
    folder, versions = tmp_path / "qemu", iter(("1", "2"))

    def fetch(archive: Archive, into: Path) -> list[str]:
        into.mkdir()
        (into / "half").touch()
        version = next(versions, "")
        if not version:
            raise CannotRun("no network")
        return [f"{vm.QEMU} {version}"]

    def fetched(*, refresh: bool) -> str:
        return "".join(debian.fetched(folder, "sid", fetch, refresh=refresh))

    check(f"{vm.QEMU} 1, fetched on 20" in fetched(refresh=False))
    check(f"{vm.QEMU} 1, fetched on 20" in fetched(refresh=False), "nothing is fetched again")
    check(f"{vm.QEMU} 2, fetched on 20" in fetched(refresh=True))
    with pytest.raises(CannotRun):
        fetched(refresh=True)
    check(f"{vm.QEMU} 2, fetched on 20" in fetched(refresh=False), "the old one stays")


def test_no_program_outlives_an_interruption(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]

    def interrupted() -> None:
        with (tmp_path / "said").open("wb") as said, child(sleeping, said) as running:
            started.append(running)
            vm.stop(15, None)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    check(started[0].returncode == -9, f"{started[0].returncode}")


def test_an_interruption_has_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["vm"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    for error, status in ((KeyboardInterrupt(), vm.STOPPED), (CannotRun("why"), vm.NOT_HERE)):

        def failing(*args: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(vm, "boot_all", failing)
        check(vm.main() == status)
    check("not run here: why" in capsys.readouterr().err)
