"""What an expression's kernels are on a GPU, by counting: python -m compilers.report --help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from compilers import toolchains
from compilers.amd.rates import RATES, Rates, rates_of
from compilers.command import command_parser, run_command
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.nv.targets import TARGETS
from compilers.plan.schedule import Step, plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom.targets import CHIPS
from compilers.report import qcom_lines
from compilers.report.estimate import Estimate, estimate
from compilers.report.expression import parse_expression
from compilers.report.nv_lines import lines_of
from compilers.report.product_cycles import describe_cycles, product_cycles
from drivers.base.contracts import Binary
from unbound import terminal

NAMED = {
    "decode": (
        "f16[1,4096] @ f16[4096,4096]",
        "f16[1,4096] @ f16[4096,4096].T",
        "f16[1,4096] @ f16[4096,11008]",
        "f16[1,11008] @ f16[11008,4096]",
        "f16[1,4096] @ f16[4096,14336]",
        "f16[1,4096] @ f16[4096,32000]",
        "f16[1,4096] @ (i8[4096,4096] * f16[4096])",
    ),
    "product": (
        "f16[4096,4096] @ f16[4096,4096]",
        "f16[4096,4096] @ f16[4096,4096].T",
        "f16[4096,4096].T @ f16[4096,4096]",
        "bf16[4096,4096] @ bf16[4096,4096]",
    ),
}
"""Names for sets of expressions: what language models compute for each word; a large product."""
_EXAMPLES = """\
examples:
  python -m compilers.report "f16[1,4096] @ f16[4096,4096]" --chip gfx1100
  python -m compilers.report "f16[4,4096] @ (i8[4096,4096] * f16[4096])"
  python -m compilers.report product --chip sm_86   counts of NVIDIA's (make nv)
  python -m compilers.report "sum(f32[1024,1024])" --chip a630   counts of an Adreno
  python -m compilers.report decode              a set of products, on every chip
Nothing is run. Loads, waits and instructions are counted in the machine code, waves follow from
registers and local memory; clocks, bandwidth and latency are data (compilers/amd/rates.py). It
takes libLLVM's disassembler (Debian: libllvm19)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 after a DeviceError, which is printed."""
    options = _parser().parse_args(arguments)
    return run_command(lambda: _lines(options.what, options.chip))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "compilers.report",
        "What an expression's kernels are on a GPU, by counting: an estimate.",
        _EXAMPLES,
    )
    names = ", ".join(NAMED)
    parser.add_argument("what", help=f"an expression over made-up arrays, or one of {names}")
    parser.add_argument(
        "--chip",
        action="append",
        choices=sorted({*RATES, *TARGETS, *CHIPS}),
        help="may be repeated (default: all of AMD); of NVIDIA's and Adreno, less is counted",
    )
    return parser


def _lines(what: str, chips: Sequence[str] | None) -> Iterator[str]:
    for text in NAMED.get(what, (what,)):
        node = parse_expression(text)
        yield text
        for chip in chips or RATES:
            if chip in TARGETS:
                yield f"  {chip}, compiled by nvrtc"
                yield from (f"    {line}" for line in lines_of(node, chip))
                continue
            if chip in CHIPS:
                yield f"  {chip}, compiled by IR3: {CHIPS[chip].units} cores"
                yield from (f"    {line}" for line in qcom_lines.lines_of(node, chip))
                continue
            rates = rates_of(chip)
            yield (
                f"  {chip} ({rates.product}): {rates.units} compute units, "
                f"{rates.bandwidth / 1e9:.0f} GB/s, {rates.latency_s * 1e9:.0f} ns assumed"
            )
            made = []
            for step, binary in built(node, rates):
                made.append(estimate(step.kernel, binary, rates))
                yield from (f"    {line}" for line in describe(made[-1]))
                product = product_cycles(step.kernel, binary, rates)
                if product is not None:
                    yield from (f"      {line}" for line in describe_cycles(product))
            yield f"    {total(made)}"


def target_of(rates: Rates) -> Target:
    """The compiler's parameters of a chip."""
    return Target.gpu_of(rates.arch, rates.units)


def steps(root: Node, rates: Rates) -> tuple[Step, ...]:
    """The plan of an expression for a chip."""
    key, _ = signature([root])
    return plan(rebuild(key).roots, target_of(rates)).steps


def built(root: Node, rates: Rates) -> Iterator[tuple[Step, Binary]]:
    """Each step of the plan, in order, with its machine code."""
    for step in steps(root, rates):
        yield step, toolchains.build(step.kernel, "LLVM", rates.arch, frozenset())


def estimates(root: Node, rates: Rates) -> Iterator[Estimate]:
    """Each kernel of an expression, in order. Raises: NotFound without a disassembler."""
    for step, binary in built(root, rates):
        yield estimate(step.kernel, binary, rates)


def describe(found: Estimate) -> Iterator[str]:
    """The lines of one kernel."""
    kernel, counts, rates = found.kernel, found.counts, found.rates
    issued = ", ".join(f"{n} x {8 * width} bits" for width, n in sorted(counts.issued.items()))
    place = "a turn of the loop" if counts.looped else "in all"
    yield (
        f"{kernel.name}: {kernel.grid} workgroups of {kernel.block} lanes, {found.vgprs} vector "
        f"registers, {found.lds_bytes} bytes of local memory"
    )
    yield (
        f"  waves a unit: {found.waves_resident:.1f} of {found.waves_possible:.0f} that fit; "
        f"moves {found.moved_bytes} bytes, asks for {found.again:.2f} times that"
    )
    yield (
        f"  loads a lane: {issued or 'none'} {place}, {counts.loads} ({counts.bytes} bytes) in "
        f"flight; {counts.vector} vector and {counts.other} other instructions {place}"
    )
    yield (
        f"  in flight a unit: {found.unit_bytes:.0f} bytes, bandwidth x latency needs "
        f"{rates.needed_bytes:.0f} ({found.flight:.0%}); estimated {found.seconds * 1e6:.2f} us, "
        f"{found.share:.0%} of bandwidth"
    )


def total(made: Sequence[Estimate]) -> str:
    """All kernels, one after the other: what the largest moves, by the time of all."""
    seconds = sum(found.seconds for found in made)
    moved = max((found.moved_bytes / found.rates.bandwidth for found in made), default=0.0)
    share = moved / seconds if seconds else 0.0
    kernels = "1 kernel" if len(made) == 1 else f"{len(made)} kernels"
    return f"{kernels}, estimated {seconds * 1e6:.2f} us, {share:.0%} of bandwidth"


if __name__ == "__main__":
    terminal.run(main)
