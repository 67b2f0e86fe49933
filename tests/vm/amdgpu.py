"""The real amdgpu.ko on a board: bind, compute over the real KFD, unload, load, give and take.

One guest boots once; boards are hot-plugged into it one after the other (lab.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm import boots, faults, rocr
from tests.vm.accepted import broken, unexplained
from tests.vm.lab import Lab, LabError
from tests.vm.unmodelled import with_functions

_COMPLAINT = re.compile(r"BUG:|WARNING:|Oops|Call Trace|hung task|nobody cared|soft lockup").search
_BOUND = re.compile(r"Initialized amdgpu [\d.]+ for [\da-f]{4}:").findall
"""Not the nodes of gfx942's partitions, "for amdgpu_xcp_0"."""
_FAILED = re.compile(r"\*ERROR\*|probe with driver amdgpu failed").search
_INSERT = "insmod /modules/amdgpu.ko"
_WORK = "python3 tests/vm/guest/work.py"
_KFD = "export DEV=AMD AMD_IFACE=KFD; "
_PCI = "export DEV=AMD AMD_IFACE=PCI; "
_NODES = "grep -l 'simd_count [1-9]' /sys/class/kfd/kfd/topology/nodes/*/properties"
ROUNDS = 3
"""How often our driver takes the GPU from amdgpu, the third time killed."""
SESSIONS = 2
"""How often amdgpu has MSI switched on in one bind, at most. measured: Linux 6.12.107. More would
be another driver's, for which tests/vm/accepted.py must accept nothing."""
REMOVE = (
    "n=0; until rmmod amdgpu 2> /dev/null || test $n = 20; do sleep 1; n=$((n+1)); done; "
    "test ! -e /sys/module/amdgpu"
)
"""KFD lets go of a process that was killed some time after its end."""
LINES = 12
"""Of the kernel's log that a failure shows."""


@dataclass(slots=True)
class Scenario:
    """The checks on one board; `lines` gets (PASS or FAIL, text)."""

    lab: Lab
    board: str
    rounds: int
    whole: bool = True
    """All checks; else those that differ from chip to chip."""
    last: bool = True
    """No other board comes after this one: amdgpu need not be removed any more."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    began: int = 0
    """Where the guest's console was when this began."""
    own: set[int] = field(default_factory=set)
    """Sessions with MSI on that were our driver's: nothing is accepted in them."""

    @property
    def failed(self) -> bool:
        """Whether any check did not pass."""
        return any(kind == "FAIL" for kind, _ in self.lines)

    def check(self, name: str, what: Callable[[], str]) -> bool:
        """One check, with its time; whether it passed."""
        began = time.monotonic()
        try:
            kind, said = "PASS", what()
        except LabError as error:
            kind, said = "FAIL", " ".join(str(error).split())
        self.lines.append((kind, f"{name} ({time.monotonic() - began:.1f} s): {said}"))
        return kind == "PASS"

    def shell(self, command: str, limit_s: float = 600) -> str:
        """Run a line in the guest. Raises: LabError with the end of its output."""
        status, said = self.lab.run(command, limit_s)
        if status:
            raise LabError(f"{command!r} ended with {status}: {said.strip()[-400:]}")
        return said

    def final(self, command: str) -> str:
        """The same; the last line it printed."""
        return (self.shell(command).strip().splitlines() or [""])[-1]

    # The checks

    def run(self) -> None:
        """All of them, in order; what needs a bound amdgpu is left out without it."""
        mark = self.began = self.lab.mark()
        with self._plugged():
            if not self.check("amdgpu binds", self._binds):
                return
            self.check("boot beside ours", lambda: boots.compared(self.lab, self.board))
            self.check("smoke over KFD", self._smoke)
            self.check("tensor program over KFD", lambda: self.final(_KFD + _WORK))
            if self.whole:
                self._of_any_chip()
            self.check("taken and given back", self._taken)
            self.check("unload and second load", self._again)
            if self.last:
                self._faults([faults.LAST])
            else:
                self.check("unload", lambda: self.final(f"{REMOVE} && echo gone"))
        self.check("kernel log", lambda: self._log(mark))

    def _of_any_chip(self) -> None:
        """What the kernel's common parts do: one chip of the run shows it."""
        self.check("two processes", self._two)
        self.check("kill -9, then again", self._killed)
        if self.lab.rocr and self.board in rocr.CHIPS:
            self.check("rocminfo", lambda: rocr.rocminfo(self.board, self.shell))
            self.check(self.lab.rocr, lambda: rocr.client(self.board, self.shell))
        for names in faults.PROCESSES:
            self._faults(names)
        self.check("another process after the faults", lambda: self.final(_KFD + _WORK))

    @contextmanager
    def _plugged(self) -> Iterator[None]:
        if not self.check("plug", lambda: self.lab.plug(self.board) or "in its slot"):
            return
        try:
            yield
        finally:
            self.lab.run("rmmod amdgpu 2> /dev/null")
            self.check("board", self._board)

    def _binds(self) -> str:
        """insmod returns when the probe has ended."""
        mark = self.lab.mark()
        self.shell(_INSERT)
        said = self.lab.console(mark)
        wrong = [line for line in said.splitlines() if _FAILED(line)]
        if wrong or not _BOUND(said):
            raise LabError("; ".join(wrong[:3]) or "amdgpu was not initialized")
        nodes = self.shell(_NODES).split()
        if len(nodes) != 1:
            raise LabError(f"{len(nodes)} KFD nodes with a GPU")
        self.shell("test -e /dev/kfd && test -e /dev/dri/renderD128")
        line = next(line for line in said.splitlines() if _BOUND(line))
        return line.split("] ", 1)[-1] + "; " + nodes[0].split("/")[-2].join(("KFD node ", ""))

    def _smoke(self) -> str:
        said = self.shell(_KFD + "python3 -m drivers.amd.probe --smoke")
        passed, failed = said.count(" ok "), said.count("FAILED")
        if failed or not passed:
            raise LabError(f"{passed} lines ok, {failed} failed")
        return f"{passed} lines ok"

    def _two(self) -> str:
        """Both have the GPU at the same time: each starts before the other ends."""
        said = self.shell(
            f"{_KFD} {_WORK} > /tmp/one & one=$!; {_WORK} > /tmp/two; two=$?; "
            "wait $one && test $two = 0 && cat /tmp/one /tmp/two"
        )
        if said.count("of numpy") != 2:
            raise LabError(said)
        return "both right"

    def _killed(self) -> str:
        """SIGKILL while work is on the GPU; the next process finds it usable."""
        self.shell(
            f"rm -f /tmp/forever; {_KFD} {_WORK} --forever > /tmp/forever & one=$!; n=0; "
            "until grep -qs working /tmp/forever || test $n = 300; do sleep 1; n=$((n+1)); done; "
            "sleep 1; kill -9 $one; wait $one; test $? = 137"
        )
        return self.final(_KFD + _WORK)

    def _faults(self, names: Sequence[str]) -> None:
        """Some faults of one process: a check of each, and what driver and kernel log say."""
        mark = self.lab.mark()
        try:
            _, said = self.lab.run(f"{_KFD}{faults.SCRIPT} {' '.join(names)} 2>&1")
        except LabError as error:
            said = str(error)
        for got, wrong in faults.judged(said, self.lab.console(mark), names):
            text = f"{got.driver}; next launch: {got.after}; kernel log: {got.log}"
            self.lines.append(
                ("FAIL", f"fault {got.name}: {text}: {'; '.join(wrong)}: {said.strip()[-300:]}")
                if wrong
                else ("PASS", f"fault {got.name}: {text}")
            )

    def _again(self) -> str:
        """Also after a GPU was given back, when Linux 6.12 keeps /dev/kfd locked until then."""
        self.shell(REMOVE)
        self._binds()
        return self.final(_KFD + _WORK)

    def _taken(self) -> str:
        """Our driver takes the GPU from amdgpu, computes, gives it back; amdgpu binds again."""
        for number in range(self.rounds):
            mark, killed = self.lab.mark(), number % 3 == 2
            if killed:
                self._kill_owner()
            else:
                self.shell(_PCI + _WORK)
            self._bound_again(number, self.lab.console(mark))
        return f"{self.rounds} rounds"

    def _kill_owner(self) -> None:
        self.shell(
            f"rm -f /tmp/forever; {_PCI} {_WORK} --forever > /tmp/forever & one=$!; n=0; "
            "until grep -qs working /tmp/forever || test $n = 300; do sleep 1; n=$((n+1)); done; "
            "kill -9 $one; wait $one; test $? = 137"
        )
        self.shell(_PCI + "python3 -m drivers.doctor --restore")

    def _bound_again(self, number: int, said: str) -> None:
        """amdgpu has let go of the GPU, has bound again, and has the GPU now."""
        for event, times in (
            ("finishing device", said.count("finishing device")),
            ("Initialized amdgpu", len(_BOUND(said))),
        ):
            if times != 1:
                raise LabError(f"round {number}: {times} x {event!r} in the kernel log")
        bound = self.shell("readlink /sys/bus/pci/devices/*:01:00.0/driver").strip()
        if not bound.endswith("/amdgpu"):
            raise LabError(f"round {number}: the driver is {bound or 'none'}")
        self.shell("test -e /dev/dri/renderD128")

    def _log(self, mark: int) -> str:
        lines = self.lab.console(mark).splitlines()
        wrong = [at for at, line in enumerate(lines) if _COMPLAINT(line)]
        if wrong:
            raise LabError(" | ".join(lines[wrong[0] : wrong[0] + LINES]))
        return f"{len(lines)} lines without a complaint"

    def _board(self) -> str:
        """The violations of the board that no committed reason explains."""
        self.lab.unplug()
        said = (self.lab.folder / f"{self.board}.log").read_text(errors="replace").splitlines()
        if not said or not re.search(r"\d+ violations|no violations", said[-1]):
            raise LabError(f"the board did not come to its end: {said[-1:]}")
        found, sessions = broken(said)
        binds = len(_BOUND(self.lab.console(self.began)))
        others = sessions - len(self.own)
        if not binds <= others <= SESSIONS * binds:
            raise LabError(f"{others} sessions with MSI, and amdgpu was bound {binds} times")
        left, used = unexplained(found, binds, self.board, self.own)
        if left:
            raise LabError("; ".join(left))
        touched = sum(line.startswith("not modelled:") for line in said)
        return f"{len(used)} violations that have a reason, {touched} registers not modelled"


def table(scenario: Scenario, seconds: float, name: str = "amdgpu.ko") -> str:
    """Every check of a board."""
    lines = [f"{name} on {scenario.board} ({seconds:.0f} s)"]
    return "\n".join(lines + [f"  {kind}  {text}" for kind, text in scenario.lines])


def run(lab: Lab, boards: Sequence[str], rounds: int | None = None, *, whole: bool) -> bool:
    """All boards in one boot of the guest; whether all passed. Raises: LabError.

    Without `whole` the first board has all checks, the others those that differ by chip. Without
    `rounds` the first one has ROUNDS of them, and each other one has one.
    """
    passed = True
    lab.start()
    for board in boards:
        began, first = time.monotonic(), board == boards[0]
        times = (ROUNDS if first else 1) if rounds is None else rounds
        scenario = Scenario(lab, board, times, whole=whole or first, last=board == boards[-1])
        scenario.run()
        print(table(scenario, time.monotonic() - began), flush=True)
        for line in with_functions(board, touched(lab.folder / f"{board}.log")):
            print(f"        {line}", flush=True)
        passed &= not scenario.failed
    return passed


def touched(log: Path) -> list[str]:
    """What a board's log says of registers that are not modelled, and of registers waited for."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.startswith(("not modelled:", "waited for:"))]
