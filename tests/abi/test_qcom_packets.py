"""Adreno's packets and registers: against words from elsewhere, and Mesa's own files."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from boards.qcom.chips import CHIPS as BOARD_CHIPS
from drivers.base.errors import BadArgument, MalformedInput, Unsupported
from queues.decode import decoder, listing
from queues.qcom import chips, pm4
from queues.qcom.registers import GEN6, GEN7, REGISTERS
from queues.qcom.words import setup
from tests.c_compiler import CCompiler
from tests.qcom_packets import GOLDEN
from tests.references import MESA, find
from tests.support import check

PM4_HEADER = "src/freedreno/common/freedreno_pm4.h"
REGISTER_FILES = ("src/freedreno/registers/adreno/a6xx.xml",)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_words_of_a_packet(name: str) -> None:
    made, words = GOLDEN[name]
    check(made == words, f"{[hex(word) for word in made]}, not {[hex(word) for word in words]}")
    head = pm4.parse(made[0])
    check(head is not None and not head.wrong and head.nwords == len(made) - 1, str(head))


def test_parity_is_odd() -> None:
    rng = random.Random(1)
    for value in (*range(256), *(rng.getrandbits(18) for _ in range(2000))):
        check((value.bit_count() + pm4.odd_parity(value)) % 2 == 1, hex(value))


def _mesa(path: str) -> Path:
    folder = find(MESA)
    if folder is None:
        pytest.skip("no Mesa source: make references")
    return folder / path


def test_headers_are_those_of_mesa_s_macros(c_compiler: CCompiler, tmp_path: Path) -> None:
    """Its functions, compiled: every operation, and registers and counts at random."""
    header, rng = _mesa(PM4_HEADER), random.Random(2)
    sevens = [(int(op), rng.randrange(0x4000)) for op in pm4.Op for _ in range(8)]
    fours = [(rng.randrange(1, 0x10000), rng.randrange(1, pm4.TYPE4_MAX)) for _ in range(400)]
    text = header.read_text()
    parity = "#define P(v) ((~0x6996 >> (((v) ^ (v) >> 16 ^ ((v) ^ (v) >> 16) >> 8 ^ "
    parity += "(((v) ^ (v) >> 16 ^ ((v) ^ (v) >> 16) >> 8) >> 4)) & 15)) & 1)\n"
    check("return (~0x6996 >> val) & 1" in text, "the header has another parity")
    seven = re.search(r"pm4_pkt7_hdr\(.*?return (.*?);", text, re.DOTALL)
    four = re.search(r"pm4_pkt4_hdr\(.*?return (.*?);", text, re.DOTALL)
    check(seven is not None and four is not None, "the header has other functions")
    prelude = tmp_path / "prelude.h"
    prelude.write_text(
        "#include <stdint.h>\n#define CP_TYPE4_PKT 0x40000000u\n#define CP_TYPE7_PKT 0x70000000u\n"
        + parity + "#define pm4_odd_parity_bit(v) P((unsigned)(v))\n"
        + f"#define SEVEN(opcode, cnt) ({_one_line(seven)})\n"
        + f"#define FOUR(regindx, cnt) ({_one_line(four)})\n"
    )  # fmt: skip
    asked = [f"SEVEN({op}u, {count}u)" for op, count in sevens]
    asked += [f"FOUR({place}u, {count}u)" for place, count in fours]
    values = c_compiler.values([str(prelude)], asked, tmp_path)
    made = [pm4.pkt7(op, [0] * count)[0] for op, count in sevens]
    made += [pm4.pkt4(place, [0] * count)[0] for place, count in fours]
    check(values == made, f"{len(values)} headers")


def _one_line(found: re.Match[str] | None) -> str:
    return " ".join(found[1].split()) if found is not None else ""


@pytest.mark.parametrize("generation", [GEN6, GEN7])
def test_registers_are_where_mesa_has_them(generation: int) -> None:
    text = "".join(_mesa(path).read_text() for path in REGISTER_FILES)
    wanted = {GEN6: "A6XX", GEN7: "A7XX-"}[generation]
    for name, number in REGISTERS[generation].items():
        found = re.findall(rf'<reg(?:32|64)[^>]*name="{name}"[^>]*>', text)
        places = {
            int(place[1], 16)
            for tag in found
            if (variants := re.search(r'variants="([^"]*)"', tag)) is None or variants[1] == wanted
            for place in [re.search(r'offset="(0x[0-9a-fA-F]+)"', tag)]
            if place is not None
        }
        check(number in places, f"{name} at {number:#x}, Mesa has {places} in {found}")


@pytest.mark.parametrize("name", list(BOARD_CHIPS))
def test_two_readings_of_a_chip_agree(name: str) -> None:
    """The driver's table and the board's were made from Mesa's and Linux's files one by one."""
    ours, theirs = chips.chip_named(name), BOARD_CHIPS[name]
    check(ours is chips.chip_of(theirs.chip_id), hex(theirs.chip_id))
    check(ours.generation == theirs.generation and ours.sp_cores == theirs.sps)
    check(ours.fibers_per_sp == theirs.fibers and ours.icache_units == theirs.instr_cache)
    check(ours.generation == GEN7 or ours.has_lpac == theirs.lpac, "LPAC")


def test_chips_that_are_not_known() -> None:
    check(chips.chip_of(0x06030002).name == "a630", "another revision")
    check(chips.chip_of(0xFFFF << 32 | 0x43050A01).name == "a740", "a speed bin")
    for number in (0, 0x05040001, 0x43050A00, 0x44050000):
        with pytest.raises(Unsupported, match="chip id"):
            chips.chip_of(number)


def test_what_does_not_fit_is_refused() -> None:
    for wrong in (
        lambda: pm4.pkt4(0x40000, [0]), lambda: pm4.pkt4(1, []), lambda: pm4.pkt4(1, [0] * 127),
        lambda: pm4.pkt7(0x80), lambda: pm4.pkt7(1, [0] * 0x4000), lambda: pm4.pkt7(1, [1 << 32]),
        lambda: pm4.event_value(4, 1 << 64, 0), lambda: pm4.exec_cs((-1, 1, 1)),
    ):  # fmt: skip
        with pytest.raises(BadArgument):
            wrong()


@pytest.mark.parametrize("name", chips.BY_NAME)
def test_a_setup_is_read_back(name: str) -> None:
    """By name, and nothing in it is a register without one."""
    words = setup(chips.chip_named(name))
    text = "\n".join(listing(decoder("qcom", name), words))
    check("SP_CHICKEN_BITS" in text and "CACHE_INVALIDATE" in text and " register 0x" not in text)


def test_words_that_are_no_packets() -> None:
    form = decoder("qcom")
    for words, rule in (
        ([0x30000000], "begins no packet"), ([0x70260000], "parity of count"),
        ([0x70A68000], "parity of place"), ([0x70B30004, 0], "ends after the dump"),
        ([pm4.pkt7(0x7E)[0]], "operation 0x7e"),
    ):  # fmt: skip
        with pytest.raises(MalformedInput, match=rule):
            list(listing(form, words))
