"""`make witness-tinygrad`: stock tinygrad boots our PCI boards with its own driver, and computes.

python -m tests.witness.tinygrad                      # gfx1100, gfx1201, gfx942
python -m tests.witness.tinygrad --chip gfx1100 --traces FOLDER

Three ways to boot: a GPU fresh from power-on, one that an earlier client left (tinygrad's partial
boot), and one that amdgpu had (tinygrad resets it). docs/witness-tinygrad.md says what is checked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.debian import CannotRun
from tests.witness import expected
from tests.witness.expected import Expected
from tests.witness.tinygrad_run import Machine, Outcome
from tests.witness.tinygrad_wheel import VERSION, Wheel, wheel

CHIPS = ("gfx1100", "gfx1201", "gfx942")
VIOLATIONS = Path(__file__).with_name("tinygrad_violations.toml")
SHORT = ("add", "matmul")
PROGRAMS = (
    *SHORT, "matmul_large", "matmul_half", "total", "softmax", "transcendental", "convolution",
    "argmax", "cumulative", "gather", "select", "transposed_copy", "copies", "replayed",
)  # fmt: skip
DONE, FAILED, NOT_HERE = 0, 1, 77


def runs(chip: str, wheel: Wheel, traces: Path | None) -> list[Outcome]:
    """Every way to boot one chip."""
    trace = traces / f"tinygrad-{chip}.trace" if traces else None
    everything = [*PROGRAMS, *(str(path) for path in wheel.tests)]
    machine = Machine(chip)
    cold = machine.run("cold", wheel, everything, trace=trace)
    warm = machine.run("warm", wheel, SHORT)
    taken = Machine(chip, foreign=True, scattered=True, slow=True)
    takeover = taken.run("takeover", wheel, SHORT)
    for outcome, partial in ((cold, False), (warm, True), (takeover, False)):
        boots = [facts for facts in outcome.said if "boot" in facts]
        if [facts["boot"] for facts in boots] != [chip]:
            outcome.trouble.append(f"it says that it booted {boots}")
        elif boots[0]["partial"] != partial:
            outcome.trouble.append(f"partial boot: {boots[0]['partial']}")
    return [cold, warm, takeover]


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


def gaps(chip: str, outcome: Outcome) -> None:
    """What the client touched, and the board does not model."""
    places = outcome.not_modelled
    zeros = [one for one in places if not one.place.startswith("dword")]
    for one in places:
        if one not in zeros:
            print(f"      not modelled: {one}")
    print(f"      read, and never given a value (answered 0): {len(zeros)} registers")
    for one in zeros:
        print(f"        {one.place}, {one.count} times")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.witness.tinygrad", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--chip", choices=CHIPS, action="append", help="one; may be repeated")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="write the boards' traces")
    parser.add_argument("--optional", action="store_true", help="a missing wheel is no failure")
    return parser.parse_args()


def run_all(chips: Sequence[str], wheel: Wheel, traces: Path | None) -> bool:
    """All chips; whether everything passed."""
    known, passed = expected.load(VIOLATIONS), True
    for chip in chips:
        outcomes = runs(chip, wheel, traces)
        for outcome in outcomes:
            passed &= report(chip, outcome, known)
        gaps(chip, outcomes[0])
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
    if args.traces:
        args.traces.mkdir(parents=True, exist_ok=True)
    print(f"tinygrad {VERSION}, its own driver over REMOTE; LLVM: {found.llvm.name}", flush=True)
    passed = run_all(args.chip or CHIPS, found, args.traces)
    print(f"witness-tinygrad: {'passed' if passed else 'FAILED'}")
    return DONE if passed else FAILED


if __name__ == "__main__":
    sys.exit(main())
