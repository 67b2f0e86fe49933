"""`make witness-tinygrad`: stock tinygrad boots our PCI boards with its own driver, and computes.

python -m tests.witness.tinygrad                      # gfx1100, gfx1201, gfx942
python -m tests.witness.tinygrad --chip gfx1100 --traces FOLDER

Three ways to boot: a GPU fresh from power-on, one that an earlier client left (tinygrad's partial
boot), and one that amdgpu had (tinygrad resets it). docs/witness-tinygrad.md says what is checked.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from boards.compare_trace import Summary, read
from tests.debian import CannotRun
from tests.witness import known_violations, own_boot, tinygrad_boots
from tests.witness.known_violations import Expected
from tests.witness.tinygrad_run import Machine, Outcome
from tests.witness.tinygrad_wheel import VERSION, Wheel, wheel
from unbound import terminal

CHIPS = ("gfx1100", "gfx1201", "gfx942")
VIOLATIONS = Path(__file__).with_name("tinygrad_violations.toml")
SHORT = ("add", "matmul")
PROGRAMS = (
    *SHORT, "matmul_large", "matmul_half", "total", "softmax", "transcendental", "convolution",
    "argmax", "cumulative", "gather", "select", "transposed_copy", "copies", "replayed",
)  # fmt: skip
DONE, FAILED, NOT_HERE = 0, 1, 77


def runs(chip: str, wheel: Wheel, trace: Path) -> list[Outcome]:
    """Every way to boot one chip; the trace is that of the first."""
    everything = [*PROGRAMS, *(str(path) for path in wheel.tests)]
    machine = Machine(chip)
    cold = machine.run("cold", wheel, everything, trace=trace)
    warm = machine.run("warm", wheel, SHORT)
    killed = machine.run("killed", wheel, [*SHORT, "kill"], status=-signal.SIGKILL)
    after = machine.run("after a kill", wheel, SHORT)
    taken = Machine(chip, foreign=True, scattered=True, slow=True)
    takeover = taken.run("takeover", wheel, SHORT)
    outcomes = [cold, warm, killed, after, takeover]
    for outcome, partial in zip(outcomes, (False, True, True, False, False), strict=True):
        boots = [facts for facts in outcome.said if "boot" in facts]
        if [facts["boot"] for facts in boots] != [chip]:
            outcome.trouble.append(f"it says that it booted {boots}")
        elif boots[0]["partial"] != partial:
            outcome.trouble.append(f"partial boot: {boots[0]['partial']}")
    return outcomes


def report(chip: str, outcome: Outcome, known: Expected) -> bool:
    """Print what came of one run; whether it is as it should be."""
    new = known.new(outcome.violations, chip)
    trouble = [*outcome.trouble, *(f"violation: {violation}" for violation in new)]
    results = [facts for facts in outcome.said if "program" in facts]
    tests = [facts for facts in results if "tests" in facts]
    ran = f"{len(results) - len(tests)} programs"
    for facts in tests:
        ran += f", {facts['program']}: {facts['tests']} tests, {facts['skipped']} skipped"
    verdict = "FAIL" if trouble else "PASS"
    print(f"{verdict}  {chip} {outcome.name} ({outcome.seconds:.1f} s): {ran}")
    print(
        f"      {outcome.reads} register reads, {outcome.writes} writes; violations: "
        f"{len(outcome.violations)} known, {len(new)} new"
    )
    for line in trouble:
        print(f"      {line}")
    sys.stdout.flush()
    return not trouble


def gaps(outcome: Outcome) -> None:
    """What the client touched, and the board does not model."""
    print(f"      touched, and not modelled by the board: {len(outcome.not_modelled)} lines")
    for line in outcome.not_modelled:
        print(f"        {line}")


def boots(chip: str, theirs: Summary, own_trace: Path | None, *, record: bool) -> bool:
    """Compare tinygrad's boot with ours; whether every difference is known."""
    if own_trace:
        own_trace.write_text(own_boot.record(chip)[0])
    if record:
        tinygrad_boots.record(theirs)
    numbers, trouble = tinygrad_boots.check_boot(theirs)
    print(f"{'FAIL' if trouble else 'PASS'}  {chip}: our boot and tinygrad's: {numbers}")
    for line in trouble:
        print(f"      {line}")
    return not trouble


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.witness.tinygrad", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--chip", choices=CHIPS, action="append", help="one; may be repeated")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="write the boards' traces")
    parser.add_argument("--record", action="store_true", help="keep tinygrad's boots in tests/data")
    parser.add_argument("--optional", action="store_true", help="a missing wheel is no failure")
    return parser.parse_args()


def run_all(args: argparse.Namespace, wheel: Wheel, folder: Path) -> bool:
    """All chips; whether everything passed."""
    known, passed = known_violations.load(VIOLATIONS), True
    chips: Sequence[str] = args.chip or CHIPS
    for chip in chips:
        trace = folder / f"tinygrad-{chip}.trace"
        outcomes = runs(chip, wheel, trace)
        for outcome in outcomes:
            passed &= report(chip, outcome, known)
        gaps(outcomes[0])
        with trace.open() as lines:
            theirs = read(lines, trace.name, own_boot.BOOTED)
        own_trace = folder / f"unbound-{chip}.trace" if args.traces else None
        passed &= boots(chip, theirs, own_trace, record=args.record)
    for stale in known.stale(chips):
        print(f"FAIL  {VIOLATIONS.name}: nobody does {stale.kind}: {stale.what} any more")
        passed = False
    return passed


def main() -> int:
    """0: all passed; 1: something did not; 77: the wheel cannot be had, and why."""
    args = arguments()
    try:
        found = wheel()
    except CannotRun as error:
        print(f"witness-tinygrad: not run here: {error}", file=sys.stderr)
        return DONE if args.optional else NOT_HERE
    print(f"tinygrad {VERSION}, its own driver over REMOTE; LLVM: {found.llvm.name}", flush=True)
    with TemporaryDirectory() as folder:
        kept = Path(args.traces or folder)
        kept.mkdir(parents=True, exist_ok=True)
        passed = run_all(args, found, kept)
    print(f"witness-tinygrad: {'passed' if passed else 'FAILED'}")
    return DONE if passed else FAILED


if __name__ == "__main__":
    terminal.run(lambda _: main())
