"""Kernels as ir3 code: what instructions they are made of, and listings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.families import family_of, toolchain_of
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.objects.listing import disassemble
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom.targets import CHIPS, qcom_target
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, Unsupported
from queues.qcom.kernel_code import AdrenoCode
from tests.compilers.lowering import matmul
from tests.support import check

every_chip = pytest.mark.parametrize("arch", CHIPS)


def built(root: Node, arch: str) -> Binary:
    """The one kernel of a graph."""
    key, _ = signature([root])
    (step,) = plan(rebuild(key).roots, Target.gpu_of(arch, 4)).steps
    kernel, toolchain = replace(step.kernel, name="k0"), toolchain_of("IR3", arch)
    source = toolchain.render(kernel, arch, frozenset())
    blob = toolchain.compiler.compile_object(source, arch, frozenset())
    return family_of(arch).load(blob, "k0", arch).in_blocks_of(kernel.block)


def numbers(dtype: dt.DType, *shape: int) -> Node:
    return graph.buffer(object(), dtype, shape)


@every_chip
def test_a_product_is_mostly_products_within_the_registers_of_its_waves(arch: str) -> None:
    binary = built(matmul(numbers(dt.float32, 256, 256), numbers(dt.float32, 256, 256)), arch)
    code, lines = AdrenoCode.of(binary), [line.text for line in disassemble(binary)]
    steps = sum("mad.f32" in line for line in lines)
    check(steps > len(lines) / 2, f"{steps} of {len(lines)} instructions multiply")
    check(code.private_bytes == 0, "sums are in registers")
    waves = binary.resources.block // code.wave_lanes
    check(code.full_registers * waves <= 2 * qcom_target(arch).register_file, "waves do not fit")


@every_chip
def test_a_listing_names_the_targets_of_branches(arch: str) -> None:
    binary = built(graph.reduce("add", numbers(dt.float32, 30, 5000), (1,)), arch)
    lines = disassemble(binary)
    jumps = [line for line in lines if line.jump]
    check(jumps, "a loop or a branch")
    labels = {line.address for line in lines if line.label}
    check(all(line.target in labels for line in jumps), "every target has a label")
    check(all(re.match(r"\(?[a-z]", line.text) for line in lines), "text")


def test_float64_and_unknown_chips_are_refused() -> None:
    root = graph.binary("add", numbers(dt.float64, 9), numbers(dt.float64, 9))
    with pytest.raises(Unsupported, match="float64"):
        built(root, "a630")
    with pytest.raises(Unsupported, match="a6xx"):
        qcom_target("a6xx")


@pytest.mark.parametrize(
    "text", ["", "ir4 6 48 64 0 1\nend", "ir3 6 48 64\nend", "ir3 6 48 64 0 1\nadd.u x1 v2"]
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedInput):
        toolchain_of("IR3", "a630").compiler.compile_object(text, "a630", frozenset())
