"""The compile report: expressions, loads in flight, waves, bytes, and what follows from them."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from compilers import graph
from compilers.amd.rates import RATES, rates_of, units_per_group
from compilers.instruction import Instruction
from compilers.plan.signature import signature
from compilers.report import __main__ as report
from compilers.report.estimate import Estimate
from compilers.report.expression import parse_expression
from compilers.report.load_counts import count_loads, load_bytes, loads_left
from compilers.report.traffic import asked_bytes
from drivers.base.errors import MalformedInput, Unsupported
from tests.amd_toolbox import needs_libllvm
from tests.support import check


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("global_load_b128 v[0:3], v4, s[0:1]", 16),
        ("global_load_dwordx2 v[0:1], v4, s[0:1]", 8),
        ("global_load_d16_hi_b16 v13, v[14:15], off", 2),
        ("buffer_load_ubyte v0, v1, s[0:3], 0 offen", 1),
        ("ds_load_b128 v[0:3], v4", 0),
        ("s_load_b128 s[0:3], s[0:1], null", 0),
        ("global_store_b128 v0, v[1:4], s[0:1]", 0),
    ],
)
def test_the_width_of_a_load_is_in_its_name(text: str, nbytes: int) -> None:
    check(load_bytes(text) == nbytes, f"{text}: {load_bytes(text)}")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s_waitcnt vmcnt(3)", 3),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", 0),
        ("s_waitcnt lgkmcnt(0)", None),
        ("s_wait_loadcnt 0x5", 5),
        ("s_wait_loadcnt_dscnt 0x301", 3),
        ("s_wait_dscnt 0x0", None),
    ],
)
def test_waits_say_how_many_loads_may_be_left(text: str, left: int | None) -> None:
    check(loads_left(text) == left, f"{text}: {loads_left(text)}")


def _listing(*texts: str, hot: bool = True) -> list[Instruction]:
    return [Instruction(4 * at, bytes(4), text, hot=hot) for at, text in enumerate(texts)]


_WIDE = "global_load_b128 v[0:3], v[8:9], off"


def test_loads_that_are_waited_for_in_the_next_turn_are_in_flight() -> None:
    """Two of the turn before are left when two more are issued."""
    loop = _listing(_WIDE, _WIDE, "s_waitcnt vmcnt(2)", "v_add_f32 v0, v0, v1", "s_cbranch_scc1 1")
    counts = count_loads(loop, stores_wait=False)
    check((counts.loads, counts.bytes) == (4, 64), f"{counts}")
    check((counts.turn_bytes, counts.waits) == (32, 1), f"{counts}")
    check((counts.vector, counts.other) == (1, 4), f"{counts}")


def test_two_words_that_are_not_known_are_one_vector_instruction() -> None:
    counts = count_loads(
        _listing(_WIDE, ".long 0xd59c08a8", ".long 0x0000018d", "s_nop 0"), stores_wait=False
    )
    check((counts.vector, counts.other) == (1, 1), f"{counts}")


def test_a_wait_for_each_load_leaves_one_in_flight() -> None:
    loop = _listing(*[_WIDE, "s_waitcnt vmcnt(0)"] * 4)
    counts = count_loads(loop, stores_wait=False)
    check((counts.loads, counts.turn_bytes) == (1, 64), f"{counts}")


def test_stores_are_waited_for_as_loads_are_where_the_chip_counts_them_so() -> None:
    """With vmcnt(1) behind a load and a store, gfx9 may have the store left, gfx11 the load."""
    texts = (_WIDE, "global_store_b32 v0, v1, s[0:1]", "s_waitcnt vmcnt(1)", _WIDE)
    for stores_wait, loads in ((True, 1), (False, 2)):
        counts = count_loads(_listing(*texts, hot=False), stores_wait=stores_wait)
        check((counts.loads, counts.looped) == (loads, False), f"{stores_wait}: {counts}")


def test_what_bandwidth_times_latency_needs() -> None:
    """960 GB/s x 600 ns = 576,000 bytes, in 96 compute units."""
    check(round(rates_of("gfx1100").needed_bytes) == 6000, "gfx1100")
    check(round(rates_of("gfx942").needed_bytes) == 15691, "gfx942")
    with pytest.raises(Unsupported, match="gfx1030"):
        rates_of("gfx1030")


def test_workgroups_of_rdna_are_on_two_compute_units() -> None:
    found = {arch: units_per_group(arch) for arch in ("gfx1030", "gfx1100", "gfx942", "gfx950")}
    check(found == {"gfx1030": 2, "gfx1100": 2, "gfx942": 1, "gfx950": 1}, f"{found}")


@pytest.mark.parametrize(
    ("arch", "vgprs", "waves"),
    [("gfx1100", 24, 16), ("gfx1100", 97, 12), ("gfx1201", 192, 8), ("gfx942", 128, 4),
     ("gfx942", 129, 3), ("gfx942", 64, 8)],
)  # fmt: skip
def test_waves_follow_from_registers(arch: str, vgprs: int, waves: int) -> None:
    """By hand: 1536 registers in steps of 24 on RDNA, 512 in steps of 8 on CDNA3, up to a limit."""
    check(rates_of(arch).waves_of(vgprs) == waves, f"{rates_of(arch).waves_of(vgprs)}")


def test_expressions_are_the_graphs_of_the_tensor_layer() -> None:
    half = xp.asarray(np.zeros((1, 64)), dtype=xp.float16, device="CPU")
    whole = xp.asarray(np.zeros((64, 32)), dtype=xp.int8, device="CPU")
    scale = xp.asarray(np.zeros(32), dtype=xp.float16, device="CPU")
    pairs = {
        "f16[1,64] @ (i8[64,32] * f16[32])": half @ (xp.astype(whole, xp.float16) * scale),
        "f16[1,64] @ i8[64,32]": half @ whole,
        "f16[1,64] @ f16[32,64].T": half @ xp.asarray(
            np.zeros((32, 64)), dtype=xp.float16, device="CPU").T,
        "tanh(f16[32])": xp.tanh(scale),
    }  # fmt: skip
    for text, made in pairs.items():
        want, got = signature([made._node])[0], signature([parse_expression(text)])[0]
        check(got == want, f"{text}: {got}, not {want}")


@pytest.mark.parametrize(
    "text", ["", "f17[3]", "f16[2,3] @ f16[2,3]", "f16[0]", "f16[3] + f16[4]", "open('x')", "f16"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(MalformedInput, match="not an expression"):
        parse_expression(text)


def _only(text: str, arch: str) -> Estimate:
    (found,) = report.estimates(parse_expression(text), rates_of(arch))
    return found


@needs_libllvm
@pytest.mark.parametrize("arch", RATES)
def test_an_addition_of_large_arrays_is_bound_by_memory(arch: str) -> None:
    """Two loads of 128 bits in flight in a full GPU; 3 x 64 MiB are moved, each once, after one
    latency: 38.0 us and 0.9 us on gfx942."""
    found = _only("f32[16777216] + f32[16777216]", arch)
    check(found.counts.issued == {16: 2} and found.counts.loads == 2, f"{found.counts}")
    check(found.moved_bytes == 3 * 4 * 16777216, f"{found.moved_bytes}")
    check(found.asked_bytes == 2 * 4 * 16777216, f"{found.asked_bytes}")
    check(found.share > 0.97 and found.flight > 1, f"{found.share} {found.flight}")


def test_what_lanes_ask_for_again_is_counted_again() -> None:
    """A product of 64 x 64 x 64 in tiles of 32: each operand is read by two rows of tiles."""
    root = parse_expression("f32[64,64] @ f32[64,64]")
    (step,) = report.steps(root, rates_of("gfx1100"))
    check(asked_bytes(step.kernel) == 2 * 2 * 64 * 64 * 4, f"{asked_bytes(step.kernel)}")
    (step,) = report.steps(graph.reduce("add", root, (0, 1)), rates_of("gfx1100"))[-1:]
    check(asked_bytes(step.kernel) >= 64 * 64 * 4, "the sum reads the product")


@needs_libllvm
def test_the_command_prints_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    check(report.main(["f16[1,4096] @ f16[4096,4096]", "--chip", "gfx1100"]) == 0, "status")
    text = capsys.readouterr().out
    words = ("workgroups of", "waves a unit", "loads a lane", "bandwidth x latency needs 6000",
             "1 kernel, estimated")  # fmt: skip
    for word in words:
        check(word in text, f"{word}: {text}")


def test_the_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    check(report.main(["f16[1,4096] @"]) == 1, "status")
    check("not an expression" in capsys.readouterr().err, "message")


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "flops"), [("gfx1100", 122.8e12), ("gfx1201", 194e12), ("gfx942", 1307e12)]
)
def test_a_large_product_is_not_faster_than_the_matrix_units(arch: str, flops: float) -> None:
    """# src: AMD's product pages: peak of float16 matrix instructions at the boost clock."""
    found = _only("f16[4096,4096] @ f16[4096,4096]", arch)
    least = 2 * 4096**3 / flops
    check(0.99 * least < found.seconds < 2.5 * least, f"{found.seconds}, at least {least}")
