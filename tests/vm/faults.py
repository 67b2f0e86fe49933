"""Faults through the real KFD: what our driver and amdgpu's kernel log say of each.

docs/witnesses.md has the same table; a run of the guest compares itself with `KINDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SCRIPT = "python3 tests/vm/guest/faults.py"
MARK = re.compile(r"\] fault: (\w+)$")
"""Of tests/vm/guest/faults.py, before each fault."""
_PAGE = re.compile(r"in page starting at address (0x[0-9a-f]+)")
_CLIENT = re.compile(r"Faulty UTCL2 client ID: (.+?) \(0x")
_LACKS = re.compile(r"PERMISSION_FAULTS: (0x[0-9a-f]+)")
_RW = re.compile(r"RW: 0x([01])")
_WAVE = re.compile(r"sq_intr: error, .*?\b(?:err_)?(type \d)")
"""src: kfd_int_process_v11.c print_sq_intr_info_error(); kfd_int_process_v9.c has err_type"""
_OTHERS = re.compile(r"Illegal opcode in command stream|MES failed to respond.*|GPU reset begin!")


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault; what our driver raises, the next launch of the same process, the kernel's log."""

    name: str
    driver: str
    after: str
    log: str

    def row(self) -> str:
        """Of the page's table."""
        return f"| {self.name} | {self.driver} | {self.after} | {self.log} |"


_AT = "0x10000000"
_EVICTED, _RIGHT = "DeviceGone", "right"
KINDS = {
    kind.name: kind
    for kind in (
        Kind("read", f"unmapped read {_AT}, compute", _EVICTED,
             f"{_AT} TCP, lacks 0x3 RW 0"),
        Kind("write", f"unmapped write {_AT}, compute", _EVICTED,
             f"{_AT} TCP, lacks 0x5 RW 1"),
        Kind("execute", f"unmapped read {_AT}, compute", _EVICTED,
             f"{_AT} SQC (inst), lacks 0x9 RW 0"),
        Kind("illegal", "illegal instruction, compute", _RIGHT, "sq_intr: error, type 1"),
        Kind("trap", "s_trap 2, compute", _RIGHT, "nothing"),
        Kind("misaligned", "memory violation, compute", _RIGHT, "sq_intr: error, type 2"),
        Kind("hang", "Hang, compute", _RIGHT, "nothing"),
        Kind("packet", "bad packet, compute", _RIGHT, "Illegal opcode in command stream"),
    )
}  # fmt: skip
PROCESSES = (("read",), ("write",), ("execute",), ("illegal", "trap", "misaligned"), ("hang",))
"""Kinds that one process makes one after the other: after a page fault it is refused the GPU."""
LAST = "packet"
"""Linux 6.12 never lets go of the process: kfd_dqm_suspend_bad_queue_mes() takes a reference by
kfd_lookup_process_by_pasid() that nothing gives back, so the module cannot be removed any more."""


def driver_said(report: dict[str, object]) -> str:
    """What the script says of an error, as the table has it."""
    queue = (
        str(report.get("queue", "")).removeprefix("AMD:0 ").removesuffix(" queue")
        or "no queue named"
    )
    if report.get("error") != "DeviceFault":
        return f"{report.get('error')}, {queue}"
    address = report.get("gpu_va")
    at = f" {address:#x}" if isinstance(address, int) and address else ""
    access = f" {report['access']}" if report.get("access") else ""
    return f"{report.get('kind')}{access}{at}, {queue}"


def log_said(lines: Iterable[str]) -> str:
    """What a piece of the kernel's log says of a fault, without what differs from run to run."""
    text = "\n".join(lines)
    found = []
    for page in _PAGE.findall(text):
        client, lacks, write = (seek.search(text) for seek in (_CLIENT, _LACKS, _RW))
        words = [match[1] if match else "?" for match in (client, lacks, write)]
        found.append(f"{int(page, 16):#x} {words[0]}, lacks {words[1]} RW {words[2]}")
    found += [f"sq_intr: error, {kind}" for kind in _WAVE.findall(text)]
    found += _OTHERS.findall(text)
    return "; ".join(found) or "nothing"


def pieces(console: str) -> dict[str, list[str]]:
    """The kernel's log behind each mark, by the fault's name."""
    found: dict[str, list[str]] = {}
    here: list[str] = []
    for line in console.splitlines():
        match = MARK.search(line.rstrip())
        if match is not None:
            here = found.setdefault(match[1], [])
        else:
            here.append(line)
    return found


def judged(said: str, console: str, wanted: Iterable[str]) -> Iterator[tuple[Kind, list[str]]]:
    """For each kind that was made: what came of it, and what of that is wrong."""
    reports = {}
    for line in said.splitlines():
        if line.startswith("{"):
            report = json.loads(line)
            reports[report["fault"]] = report
    logs = pieces(console)
    for name in wanted:
        report = reports.get(name)
        if report is None:
            yield Kind(name, "no report", "", ""), ["the script did not come so far"]
            continue
        got = Kind(name, driver_said(report), str(report["after"]), log_said(logs.get(name, ())))
        wrong = [] if report["before"] else ["the launch before it was wrong"]
        if got != KINDS[name]:
            wrong.append(f"wanted {KINDS[name].row()}")
        yield got, wrong
