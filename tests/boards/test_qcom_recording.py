"""A program over KGSL, or over msm, is recorded on a board and played back without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.front import Setup, power_on
from drivers import record, replay
from drivers.qcom import queue_maker
from drivers.qcom.kgsl import abi as kgsl_abi
from drivers.qcom.kgsl import iface as kgsl
from drivers.qcom.msm import queue as msm_queue
from drivers.qcom.msm.abi import GEM_SUBMIT
from drivers.qcom.recorded import QcomIdentifiers
from tests.boards import recordings
from tests.boards.test_recording import mapped, words
from tests.support import check

IFACES = ["KGSL", "MSM"]
MOST_BYTES = 100_000
FAULT = """
from drivers.base.errors import DeviceFault
from queues.qcom import pm4
from queues.qcom.contracts import Item
from tensor.engine import device

WHERE, UNKNOWN_OP = 0x7E0000000000, 0x7E
opened = device("QCOM")
stray = pm4.event_value(pm4.Event.CACHE_FLUSH_TS, WHERE, 1)
wrong = pm4.pkt7(UNKNOWN_OP, [0])
opened.run([Item(stray if "IFACE" == "KGSL" else wrong)], lambda: None)
try:
    opened.synchronize(20.0)
except DeviceFault as error:
    where = (WHERE, "write") if "IFACE" == "KGSL" else (0, "")
    raise SystemExit(0 if (error.gpu_va, error.access) == where else 3)
raise SystemExit(4)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(recordings.PROGRAM.replace('"AMD"', '"QCOM"'))
    return path


def taped(iface: str, program: Path, chip: str = "a630") -> bytes:
    """What a board was recorded to do, running late."""
    return recordings.record_on(power_on(Setup(chip, iface=iface, late=True)), program)


@pytest.mark.parametrize("chip", ["a630", "a740"])
@pytest.mark.parametrize("iface", IFACES)
def test_it_replays_without_the_board(iface: str, chip: str, program: Path) -> None:
    data = taped(iface, program, chip)
    check(len(data) < MOST_BYTES, f"{len(data)} bytes")
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")
    check(world.count == data.count(b"\n") - 1 and world.count > 70, f"{world.count} operations")


@pytest.mark.parametrize("iface", IFACES)
def test_graphs_replay(iface: str, program: Path) -> None:
    program.write_text(recordings.GRAPHS.replace('"AMD"', '"QCOM"'))
    data = taped(iface, program)
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")


@pytest.mark.parametrize("iface", IFACES)
def test_it_holds_no_address_of_the_process(iface: str, program: Path) -> None:
    data = taped(iface, program)
    spans = mapped()
    suspects = {word for word in words(data) if 1 << 32 <= word < 1 << 47}
    own = [hex(va) for va in suspects if any(first <= va < last for first, last in spans)]
    check(not own, f"addresses of this process: {own}")
    check(len(suspects) > 10, f"only {len(suspects)} numbers were looked at")


@pytest.mark.parametrize("iface", IFACES)
def test_a_fault_replays(iface: str, program: Path) -> None:
    """Over KGSL a page fault with its address, which lies behind a pointer behind a pointer."""
    program.write_text(FAULT.replace("IFACE", iface))
    data = taped(iface, program)
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")
    requested = f" {kgsl_abi.GET_FAULT_REPORT.request}," in str(data)
    check(requested == (iface == "KGSL"), "the report was asked for")


def test_a_driver_that_asks_otherwise_is_reported(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = taped("KGSL", program)
    with monkeypatch.context() as patch:
        patch.setattr(kgsl, "PWR_MAX", 2)  # behind a pointer behind a pointer
        _, world = recordings.replay(data, program)
        check("memory 0 at 0x0 is written" in str(world.differences), str(world.differences))
    monkeypatch.setattr(queue_maker, "RING_BYTES", 2 << 20)
    status, world = recordings.replay(data, program)
    check(status is None and world.differ > 0, str(world.differences))


def test_another_list_of_packets_is_reported(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = taped("MSM", program)
    monkeypatch.setattr(msm_queue, "NO_IMPLICIT", 0)
    status, world = recordings.replay(data, program)
    check(status is None and f" {GEM_SUBMIT.request}, " in str(world.differences), "reported")


@pytest.mark.parametrize("iface", IFACES)
def test_the_commands(
    iface: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCOM_IFACE", iface)
    file = str(tmp_path / "add.jsonl.gz")
    check(record.main(["-o", file, "--board", "a630", "examples/add.py"]) == 0)
    monkeypatch.delenv("QCOM_IFACE")
    check(replay.main([file]) == 0)
    check(": 0 differences" in capsys.readouterr().out)


def test_a_property_is_behind_its_pointer() -> None:
    known, va = QcomIdentifiers(), (1 << 44) + 64
    call = bytearray(kgsl_abi.Property(type=1, value=va, sizebytes=40).raw)
    for ioctl in (kgsl_abi.GET_PROPERTY, kgsl_abi.SET_PROPERTY):
        check(known.params(ioctl.request, call) == va)
        check(known.params(ioctl.request, call[:8]) == 0, "a struct that shrank")
    check(known.params(kgsl_abi.OBJECT_INFO.request, call) == 0)
    call = bytearray(kgsl_abi.FaultReport(faultlist=va, faultnents=1, faultsize=24).raw)
    check(known.params(kgsl_abi.GET_FAULT_REPORT.request, call) == va, "a list of faults")
    check(known.params(kgsl_abi.GET_FAULT_REPORT.request, call[:8]) == 0, "a struct that shrank")
