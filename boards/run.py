"""Run an unchanged tensor program on a board."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from boards.front import OnBoard, environ_of, power_on
from boards.machine.chassis import Facts
from boards.output import new_text
from boards.setup import Setup
from boards.trace import Recorder
from boards.vendors import Board, Watch, over, vendor_of
from drivers.kinds import BEST_FIRST, BY_NAME, NAMES
from drivers.machine.program import run_program
from tensor import engine

__all__ = ["Bench", "Setup", "powered", "report", "run", "run_program", "set_environ"]
NEVER_SILICON = "This ran on a software board and was never compared with silicon."
_OF_ANY_KIND = ("UNBOUND_DMA", "UNBOUND_REGISTER_TRACE", "UNBOUND_FIRMWARE_MANIFEST")
_OF_ONE_KIND = ("IFACE", "DMA", "TRACE")


@dataclass(slots=True)
class Bench:
    """A board with the product's devices in front of it."""

    board: Board
    watch: Watch
    recorder: Recorder | None = None
    devices: list[OnBoard] = field(default_factory=list)

    def hear(self, name: str, facts: Facts) -> None:
        """One event of the board's timeline."""
        self.watch(name, facts)
        if self.recorder is not None:
            self.recorder(name, facts)


def set_environ(setup: Setup, environ: MutableMapping[str, str]) -> None:
    """Make the board's GPU the default device; other choices are set aside."""
    vendor = vendor_of(setup.chip)
    others = [*NAMES, *(flag for kind in BEST_FIRST for flag in kind.flags), *_OF_ANY_KIND]
    others += [vendor.aql, *BY_NAME[vendor.device].compilers]
    others += [f"{vendor.device}_{choice}" for choice in _OF_ONE_KIND]
    for name in others:
        environ.pop(name, None)
    environ.update(environ_of(setup))


@contextmanager
def powered(setup: Setup, *, record: bool = False) -> Iterator[Bench]:
    """A board whose GPUs are devices 0, 1, ... of their kind inside. Raises: ValueError."""
    front = power_on(setup)
    board = front.board
    devices: list[OnBoard] = []
    vendor = vendor_of(setup.chip)
    compiler = setup.compiler if setup.compiler in vendor.compilers else ""

    def names(code_va: int) -> list[str]:
        return [name for device in devices for name in device.program_names(code_va=code_va)]

    bench = Bench(board, vendor.watch(board, names), devices=devices)
    if record:
        bench.recorder = Recorder(board, names)
    board.hardware.trace = bench.hear
    with ExitStack() as stack:
        for index in range(setup.gpus):
            device = front.open(index)
            stack.enter_context(device)
            devices.append(device)
            stack.enter_context(engine.adopted(f"{vendor.device}:{index}", device, compiler))
        yield bench
        gc.collect()


def report(bench: Bench, setup: Setup, status: int, stderr: TextIO) -> int:
    """Print faults and violations; the exit status of the command."""
    for text in bench.watch.reports:
        print(f"fault: {text}", file=stderr)
    violations = bench.board.violations
    for violation in violations:
        print(f"violation: {violation}", file=stderr)
    for text in bench.watch.notes.values():
        print(f"code: {text}", file=stderr)
    faults = len(bench.watch.reports)
    counts = [f"{faults} fault{'s' * (faults > 1)}"] if faults else []
    counts += [f"{len(violations)} violations"] if violations else []
    count = ", ".join(counts) or "no violations"
    strict = "strict" if setup.strict else "lenient"
    print(f"board {setup.chip}{over(setup)} ({strict}): {count}. {NEVER_SILICON}", file=stderr)
    return status or int(bool(violations or bench.watch.reports))


def run(
    setup: Setup,
    program: Path,
    arguments: Sequence[str],
    *,
    trace: Path | None = None,
    stderr: TextIO | None = None,
) -> int:
    """The whole command: 0 when the program ended well and the board has nothing to say.

    With `trace`, the timeline is written there, also when the program failed. Raises: OSError where
    that is no file to write, before anything has run.
    """
    out = stderr or sys.stderr
    with new_text(trace) if trace is not None else nullcontext() as file:
        with powered(setup, record=trace is not None) as bench:
            status = run_program(program, arguments, out)
        if file is not None and bench.recorder is not None:
            count = bench.recorder.write(file)
            print(f"{trace}: {count} events; open it in https://ui.perfetto.dev", file=out)
    return report(bench, setup, status, out)
