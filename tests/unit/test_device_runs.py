"""`python -m tests.device_runs`: a process for each device, all outputs, and one exit status."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests import device_runs
from tests.support import check


def pretended(arguments: Sequence[str]) -> int:
    """In place of pytest.main: fails on the device `intel`."""
    print("ran with", *arguments[:7])
    return int("intel" in arguments)


@pytest.mark.parametrize("at_once", ["1", "2"])
def test_each_device_runs_and_one_that_fails_is_named(
    at_once: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_runs.pytest, "main", pretended)
    names = ["pocl=0.125", "intel", "metal"]
    code = device_runs.main([*names, "--at-once", at_once, "--", "-k", "matmul"])
    out, err = capfd.readouterr()
    check(code == 1 and "failed on: intel" in err, err)
    for name, share, status in (("pocl", "0.125", 0), ("intel", "1.0", 1), ("metal", "1.0", 0)):
        check(f"--device {name} --share={share}" in out, out)
        check(f"{name}: exit status {status}, " in out, out)
    check(device_runs.main(["metal", "--at-once", at_once]) == 0, "nothing failed")


def test_options_go_to_pytest() -> None:
    wanted = device_runs.Wanted.of("pocl=0.5")
    arguments = wanted.arguments(["-k", "matmul"])
    place = arguments.index("-k")
    check(arguments[place + 1] == "matmul" and "--share=0.5" in arguments, f"{arguments}")
    check(all(path.startswith(str(device_runs.ROOT)) for path in arguments[place + 2 :]), "files")
    check(len(device_runs.suite()) > 15, "the suite is there")


@pytest.mark.parametrize("name", ["nowhere", "pocl=much", ""])
def test_an_unknown_device_is_an_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        device_runs.main([name])
    check(caught.value.code == 2 and "argument device" in capfd.readouterr().err, "usage")
