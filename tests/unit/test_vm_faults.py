"""What a run of the guest's faults is judged by, without a guest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import check
from tests.vm.faults import KINDS, LAST, PROCESSES, judged, log_said

# Recorded from Linux 6.12.107 on board gfx1100; times and process ids are as they came.
PAGE_FAULT = """\
[  191.568686] fault: write
[  191.634490] amdgpu 0000:01:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:8 pasid:5)
[  191.635034] amdgpu 0000:01:00.0: amdgpu:  in process python3 pid 215 thread python3 pid 215)
amdgpu 0000:01:00.0: amdgpu:   in page starting at address 0x0000000010000000 from client 10
[  191.635501] amdgpu 0000:01:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x0084115A
[  191.635654] amdgpu 0000:01:00.0: amdgpu: \t Faulty UTCL2 client ID: TCP (0x8)
[  191.635789] amdgpu 0000:01:00.0: amdgpu: \t MORE_FAULTS: 0x0
[  191.635902] amdgpu 0000:01:00.0: amdgpu: \t WALKER_ERROR: 0x5
[  191.636013] amdgpu 0000:01:00.0: amdgpu: \t PERMISSION_FAULTS: 0x5
[  191.636131] amdgpu 0000:01:00.0: amdgpu: \t MAPPING_ERROR: 0x1
[  191.636246] amdgpu 0000:01:00.0: amdgpu: \t RW: 0x1
"""
WAVES = """\
[  165.519397] fault: illegal
[  165.541801] amdgpu: sq_intr: error, detail 0x00000000, type 1, sh 0, priv 0, wave_id 0, simd_id 0
[  166.255640] fault: trap
"""
WAVES_9 = """\
[  403.350039] fault: illegal
[  403.382910] amdgpu: sq_intr: error, se 0, data 0x0, sh 0, priv 0, wave_id 0, simd_id 0, \
cu_id 0, err_type 1
[  406.950431] fault: trap
"""
"""measured: Linux 6.12.107 with board gfx942, 2026-11-23"""
WRITE = {
    "fault": "write", "before": True, "error": "DeviceFault", "kind": "unmapped", "access": "write",
    "gpu_va": 0x1000_0000, "queue": "AMD:0 compute queue", "after": "DeviceGone",
}  # fmt: skip
ILLEGAL = {
    "fault": "illegal", "before": True, "error": "DeviceFault", "kind": "illegal instruction",
    "access": "", "gpu_va": 0, "queue": "AMD:0 compute queue", "after": "right",
}  # fmt: skip


def test_the_page_has_the_table() -> None:
    lines = (Path(__file__).parents[2] / "docs/witnesses.md").read_text().splitlines()
    missing = [kind.row() for kind in KINDS.values() if kind.row() not in lines]
    check(not missing, str(missing))


def test_every_kind_is_made_once() -> None:
    made = [name for names in PROCESSES for name in names]
    check(sorted([*made, LAST]) == sorted(KINDS), str(made))


def test_a_run_as_it_must_be() -> None:
    (_, wrong), *more = judged(json.dumps(WRITE), PAGE_FAULT, ["write"])
    check(not wrong and not more, str(wrong))
    for log in (WAVES, WAVES_9):
        (_, wrong), *more = judged(f"noise\n{json.dumps(ILLEGAL)}", log, ["illegal"])
        check(not wrong and not more, str(wrong))


@pytest.mark.parametrize(
    "change",
    [{"gpu_va": 0x2000_0000}, {"access": "read"}, {"after": "right"}, {"before": False},
     {"kind": "read-only"}, {"error": "Hang"}, {"queue": "AMD:0 copy queue"}],
)  # fmt: skip
def test_what_is_otherwise_is_wrong(change: dict[str, object]) -> None:
    ((_, wrong),) = judged(json.dumps(WRITE | change), PAGE_FAULT, ["write"])
    check(bool(wrong), str(change))


def test_another_log_is_wrong() -> None:
    ((_, wrong),) = judged(json.dumps(WRITE), PAGE_FAULT.replace("TCP", "CPC"), ["write"])
    check(bool(wrong), "another unit")
    ((_, wrong),) = judged(json.dumps(ILLEGAL), WAVES.replace("type 1", "type 2"), ["illegal"])
    check(bool(wrong), "another type")
    ((_, wrong),) = judged(json.dumps(ILLEGAL), PAGE_FAULT, ["illegal"])
    check(bool(wrong), "no mark of this fault")


def test_a_script_that_ends_early_is_wrong() -> None:
    got = list(judged(json.dumps(WRITE), PAGE_FAULT, ["write", "read"]))
    check([bool(wrong) for _, wrong in got] == [False, True], str(got))


def test_a_log_of_nothing() -> None:
    check(log_said([]) == "nothing")
    check("GPU reset begin!" in log_said(["amdgpu: GPU reset begin!"]))
