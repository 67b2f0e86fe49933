"""What `make witness-rocr` takes for right and wrong, without a client."""

from __future__ import annotations

import errno
import struct
import sys
from pathlib import Path
from typing import Any

from drivers.amd.kfd.abi import IOCTLS
from tests.support import check
from tests.witness import hip
from tests.witness.expected import EXPECTED, explained, surprises
from tests.witness.record import Record, Report, request_name
from tests.witness.roots import Root
from tests.witness.session import Run, Setup, run

WITNESS = Path(__file__).parents[1] / "witness"


def test_every_command_of_kfd_has_its_name() -> None:
    """As the driver's own table has it, which tests/abi compares with kernel headers."""
    for ioctl in IOCTLS.values():
        name = ioctl.name.removeprefix("AMDKFD_IOC_").removesuffix("_DEPRECATED").lower()
        found = request_name(ioctl.request, True, bytes(ioctl.request >> 16 & 0x3FFF))
        check(found == f"kfd {name}", f"{found} of {ioctl.name}")


def test_queries_of_the_render_node_are_named_by_number() -> None:
    # src: amdgpu_drm.h struct drm_amdgpu_info: return_pointer, return_size, query
    argument = struct.pack("<QII4I", 0, 4, 0x16, 0, 0, 0, 0)
    check(request_name(0x40206445, False, argument) == "drm AMDGPU_INFO 0x16")


def test_what_no_record_explains_is_a_surprise() -> None:
    report = Report(
        violations=[("doorbell", "doorbell: a store to a doorbell that no queue has")],
        refused={"kfd set_xnack_mode: [Errno 1] this kernel has no shared virtual memory": 2,
                 "kfd create_queue: [Errno 22] size": 1},
        queues_left=["queue 0"],
    )  # fmt: skip
    found = list(surprises(report))
    check(len(found) == 3 and not any("xnack" in text for text in found), str(found))
    check(not list(surprises(Report(queues_left=["queue 0"], ended_early=True))))
    check(not list(surprises(Report())))


def test_every_record_has_a_reason_and_a_source() -> None:
    check(all(one.reason and one.source and one.what != "violation" for one in EXPECTED))
    check(explained("violation", "kfd svm: this kernel has no shared virtual memory") is None)
    check(all(one.reason and one.source for one in hip.OWN))


def test_what_one_client_may_do_is_a_surprise_of_the_others() -> None:
    report = Report(
        violations=[("unreleased", "unreleased: queue 1, KERNEL_DISPATCH at 0x10: ..."),
                    ("unreleased", "unreleased: queue 1, BARRIER_AND at 0x10: ...")],
        queues_left=["QueueSpec(queue_id=0, ...)"],
    )  # fmt: skip
    check(len(list(surprises(report))) == 3)
    check(list(surprises(report, hip.OWN)) == [f"violation: {report.violations[1][1]}"])


def test_a_report_is_read_back(tmp_path: Path) -> None:
    record, path = Record(), tmp_path / "report.json"
    record.file("/dev/kfd", there=True)
    record.file("/sys/module/amdgpu/version", there=False)
    # src: kfd_ioctl.h: AMDKFD_IOC_ALLOC_MEMORY_OF_GPU; flags VRAM 1, WRITABLE 1 << 31, no 1 << 22
    argument = struct.pack("<QQQQII", 0, 4096, 0, 0, 7, 1 << 31 | 1 << 22 | 1)
    record.ioctl(0xC0284B16, True, argument)
    record.refused(0xC0284B16, True, argument, OSError(errno.ENOMEM, "full"))
    record.event("queue fault", {"queue": 3, "why": "unmapped"})
    record.event("packet", {"queue": 3})
    record.write(path, [("kind", "text")], ["queue 1"])
    report = Report.load(path)
    check(report.absent_files == {"/sys/module/amdgpu/version": 1} and report.files == 1)
    check(report.flags == ["0x400000", "VRAM", "WRITABLE"], str(report.flags))
    check(report.refused == {"kfd alloc_memory_of_gpu: [Errno 12] full": 1}, str(report.refused))
    check(report.faults == ["queue 3: unmapped"] and report.queues_left == ["queue 1"])


def _setup(folder: Path, monkeypatch: Any, *words: str) -> Setup:
    """Programs run as they are, on this machine."""
    root = Root("here", folder, ("thing 1.0, fetched on 2026-01-01",))
    monkeypatch.setattr(Root, "command", lambda root, program, shim: [str(program), *words])
    monkeypatch.setattr(Root, "environ", lambda root: {})
    monkeypatch.setattr(Root, "python", folder)
    return Setup(root, "gfx1100", folder / "shim.so", folder / "run")


def test_a_client_that_ends_without_its_board_is_noticed(tmp_path: Path, monkeypatch: Any) -> None:
    setup = _setup(tmp_path, monkeypatch, "-c", "print('ok: 1'); print('WRONG: 2'); exit(3)")
    done = run(setup, Path(sys.executable))
    check((done.code, done.said("ok"), done.said("WRONG")) == (3, ["1"], ["2"]), str(done))
    check(list(surprises(done.report)) == ["trouble: no report was written"])
    check(setup.root.version("thing") == "1.0")


def test_a_client_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: Any) -> None:
    text = "print('ok: 1', flush=True); import time; time.sleep(600)"
    done: Run = run(_setup(tmp_path, monkeypatch, "-c", text), Path(sys.executable), limit_s=2)
    check(done.code == 124 and done.said("ok") == ["1"], str(done))


def test_what_runs_in_the_client_needs_only_the_board() -> None:
    """The client's Python has numpy and cffi, and nothing else of ours."""
    for name in ("inside.py", "record.py"):
        lines = (WITNESS / name).read_text().splitlines()
        ours = [line.split()[1] for line in lines if line.startswith("from ")]
        strangers = {name.split(".")[0] for name in ours} - set(sys.stdlib_module_names)
        check(strangers <= {"boards", "tests"}, str(strangers))
