"""The packet decoder: reads back what the encoders write, prints names, stops at what is wrong."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.base.errors import MalformedInput, NotFound, Unsupported
from queues.amd import aql, pm4, sdma
from queues.decode import LIMIT_BYTES, decode, decoder, dump, listing, main, run, words_of
from queues.packet_layout import Packet, WordLayout
from tests.packet_golden import Golden
from tests.packet_golden_aql import AQL
from tests.packet_golden_pm4 import PM4
from tests.packet_golden_sdma import SDMA
from tests.share import part
from tests.support import check, run_limited

ROOT = Path(__file__).parents[2]
SIGNAL = 0x7F00_0000_1000
GFX11 = pm4.flavour_of("gfx1100")
ENGINE = sdma.engine_of("gfx1100")


def layouts(kind: str, chip: str) -> list[WordLayout]:
    if kind == "pm4":
        return list(pm4.flavour_of(chip).packets.values())
    if kind == "sdma":
        return list(sdma.engine_of(chip).packets.values())
    return [*aql.BY_TYPE.values(), *aql.BY_FORMAT.values()]


def encode(kind: str, layout: WordLayout, values: dict[str, int], tail: Sequence[int]) -> list[int]:
    return pm4.encode(layout, values, tail) if kind == "pm4" else layout.encode(values, tail)


@st.composite
def packets(draw: st.DrawFn, layout: WordLayout) -> tuple[dict[str, int], list[int]]:
    """Any values that fit, and data words."""
    lengths = [number for number in layout.tail_words if number <= 5]
    tail = draw(
        st.sampled_from(lengths).flatmap(
            lambda n: st.lists(st.integers(0, 2**32 - 1), min_size=n, max_size=n)
        )
    )
    values: dict[str, int] = {}
    for field in layout.fields:
        if field.active(values):
            most = (1 << field.width) // field.align - 1
            values[field.name] = draw(st.integers(0, most)) * field.align + field.bias
    if layout.tail and "count" in values:
        values["count"] = len(tail)
    return values, tail


CASES = [
    *(("pm4", chip) for chip in ("gfx942", "gfx1030", "gfx1100", "gfx1201")),
    *(("sdma", chip) for chip in ("gfx942", "gfx1030", "gfx1100", "gfx1201")),
    ("aql", "gfx1100"),
]


@pytest.mark.parametrize(("kind", "chip"), CASES, ids=lambda part: part)
@settings(max_examples=part(60, 15))
@given(st.data())
def test_every_packet_is_read_back(kind: str, chip: str, data: st.DataObject) -> None:
    drawn = [(layout, *data.draw(packets(layout))) for layout in layouts(kind, chip)]
    words = [word for one in drawn for word in encode(kind, *one)]
    found = list(decode(decoder(kind, chip), words))
    np.testing.assert_equal(len(found), len(drawn))
    for packet, (layout, values, tail) in zip(found, drawn, strict=True):
        check(packet.name == layout.name, f"{packet.name} for {layout.name}")
        np.testing.assert_equal(packet.fields, values, layout.name)
        np.testing.assert_equal((packet.tail, packet.reserved), (tuple(tail), ()), layout.name)


def kind_and_chip(golden: Golden) -> tuple[str, str]:
    if golden in AQL:
        return "aql", "gfx1100"
    chips = {"gfx9": "gfx942", "pred_exec": "gfx942", "4.4": "gfx942", "5.2": "gfx1030",
             "7.0": "gfx1201", "gfx10": "gfx1030", "gfx12": "gfx1201"}  # fmt: skip
    found = [chip for part, chip in chips.items() if part in golden.name]
    return "pm4" if golden in PM4 else "sdma", found[-1] if found else "gfx1100"


@pytest.mark.parametrize("golden", [*PM4, *SDMA, *AQL], ids=lambda golden: golden.name)
def test_the_vendors_words_are_read_and_written_again(golden: Golden) -> None:
    kind, chip = kind_and_chip(golden)
    words = [int(word, 16) for word in golden.words.split()]
    (packet,) = decode(decoder(kind, chip), words)
    np.testing.assert_equal(packet.reserved, (), "no bit without a name")
    named = {layout.name: layout for layout in layouts(kind, chip)}
    again = encode(kind, named[packet.name], packet.fields, packet.tail)
    np.testing.assert_equal(again, words)


def launch() -> list[int]:
    return [
        *pm4.wait_mem(addr=SIGNAL, reference=3),
        *pm4.set_sh_reg(reg=0x2E12, values=[0x60AF0040, 0x92]),
        *pm4.set_sh_reg(reg=0x2FFF, values=[5]),
        *pm4.set_uconfig_reg(reg=0xC200, values=[0xE0000000]),
        *pm4.dispatch_direct(dim_x=4, dim_y=1, dim_z=1, dispatch_initiator=0x8005),
        *pm4.nop(),
        *pm4.nop() * 3,
        *pm4.event_write(),
        *pm4.wait_reg(reg=0x2E40, reference=1),
        *pm4.write_data(dst=64, data=range(1, 20)),
        0x80000000,
        0xC0017600, 0x10000000 | 0x400000, 7,
    ]  # fmt: skip


LISTING = """\
     0: WAIT_REG_MEM function=GE mem_space=MEMORY mem_poll_addr=0x7f0000001000 reference=0x3 \
mask=0xffffffff poll_interval=0x4
     7: SET_SH_REG reg_offset=0x212
        COMPUTE_PGM_RSRC1 = 0x60af0040  sgprs=0x1 float_mode=0xf0 wgp_mode=0x1 \
mem_ordered=0x1 dx10_clamp=0x1 ieee_mode=0x1
        COMPUTE_PGM_RSRC2 = 0x00000092  user_sgpr=0x9 tgid_x_en=0x1
    11: SET_SH_REG reg_offset=0x3ff
        register 0x2fff = 0x00000005
    14: SET_UCONFIG_REG reg_offset=0x200
        GRBM_GFX_INDEX = 0xe0000000  sa_broadcast_writes=0x1 instance_broadcast_writes=0x1 \
se_broadcast_writes=0x1
    17: DISPATCH_DIRECT dim_x=0x4 dim_y=0x1 dim_z=0x1 dispatch_initiator=0x8005
        COMPUTE_DISPATCH_INITIATOR = 0x00008005  compute_shader_en=0x1 force_start_at_000=0x1 \
cs_w32_en=0x1
    22: NOP
        and 3 more
    26: EVENT_WRITE event_type=CS_PARTIAL_FLUSH event_index=CS_PARTIAL_FLUSH
    28: WAIT_REG_MEM function=EQ reg_poll_addr=0x2e40 reference=0x1 mask=0xffffffff \
poll_interval=0x4 (COMPUTE_USER_DATA_0)
    35: WRITE_DATA dst_sel=MEMORY wr_confirm=0x1 dst_mem_addr=0x40
        00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008 00000009 \
0000000a 0000000b 0000000c 0000000d 0000000e 0000000f 00000010 ...
    58: TYPE2
    59: SET_SH_REG index=0x1 reserved[1]=0x400000
        register 0x2c00 = 0x00000007"""


def test_packets_registers_and_fields_by_name() -> None:
    np.testing.assert_equal("\n".join(listing(decoder("pm4", "gfx1100"), launch())), LISTING)


def test_sdma_and_aql_by_name() -> None:
    words = [*sdma.fence(ENGINE, addr=8, data=1), *[0] * 5, *sdma.trap(int_context=3)]
    np.testing.assert_equal(
        list(listing(decoder("sdma", "gfx1100"), words)),
        [
            "     0: FENCE mtype=UC addr=0x8 data=0x1",
            "     4: NOP",
            "        and 4 more",
            "     9: TRAP int_context=0x3",
        ],
    )
    words = [*aql.invalid(), *aql.barrier_or(dep_signals=[64], release=aql.FenceScope.NONE)]
    np.testing.assert_equal(
        list(listing(decoder("aql", "gfx942"), words)),
        ["     0: INVALID", "    16: BARRIER_OR barrier=0x1 acquire=SYSTEM dep_signal0=0x40"],
    )


MALFORMED = {
    "type 0": ("pm4", [0]),
    "type 1": ("pm4", [0x40000000]),
    "opcode": ("pm4", [0xC000FF00, 0]),
    "cut": ("pm4", pm4.event_write()[:1]),
    "too long": ("pm4", [0xC0011500, 0, 0]),
    "too short": ("pm4", [0xC0023C00, 0, 0, 0]),
    "event with half an address": ("pm4", [0xC0014600, 0, 0]),
    "pred_exec": (
        "pm4",
        pm4.pred_exec(pm4.flavour_of("gfx942"), virtual_xcc_id_select=1, exec_count=1),
    ),
    "operation": ("sdma", [99]),
    "sub-operation": ("sdma", [0x101, 0, 0, 0, 0, 0, 0]),
    "cut copy": ("sdma", [1, 0, 0, 0, 0, 0]),
    "cut header": ("sdma", [2, 0, 0]),
    "cut data": ("sdma", [2, 0, 0, 1, 7]),
    "cut nop": ("sdma", [1 << 16]),
    "part of a packet": ("aql", aql.invalid()[:15]),
    "packet type": ("aql", [6] + [0] * 15),
    "agent dispatch": ("aql", [4] + [0] * 15),
    "vendor format": ("aql", [0] * 16),
}


@pytest.mark.parametrize(("kind", "words"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_dumps(kind: str, words: list[int]) -> None:
    form = decoder(kind, "gfx1100")
    with pytest.raises(MalformedInput, match="word 0"):
        list(decode(form, words))
    check("!!" in dump(form, words), "a dump shows where it stops")


def test_a_dump_is_bounded_and_shows_what_it_could_read() -> None:
    form = decoder("pm4", "gfx1100")
    text = dump(form, pm4.event_write() * 100, limit=5).splitlines()
    np.testing.assert_equal((len(text), text[-1]), (6, "   ..."))
    text = dump(form, [*pm4.event_write(), 0, *pm4.event_write()]).splitlines()
    np.testing.assert_equal(len(text), 2)
    check(text[1].startswith("   !!: word 2:"), text[1])
    text = dump(form, [0, *pm4.event_write()], start=1)
    check(text.startswith("     1: EVENT_WRITE"), text)


def test_unknown_chips_and_formats_name_the_known_ones() -> None:
    with pytest.raises(Unsupported, match="gfx110"):
        decoder("pm4", "gfx9999")
    with pytest.raises(Unsupported, match="sdma"):
        decoder("vpe", "gfx1100")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    path.write_bytes(struct.pack(f"<{len(launch())}I", *launch()))
    return path


def test_the_command_prints_packets(saved: Path) -> None:
    command = [sys.executable, "-m", "queues.decode", str(saved), "--pm4", "--chip", "gfx1100"]
    result = run_limited(command, cwd=ROOT, capture_output=True, cpu_s=60, check=True)
    np.testing.assert_equal(result.stdout.decode(), LISTING + "\n")


def test_the_command_says_what_is_wrong(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.testing.assert_equal(run([str(saved), "--sdma", "--start", "2"]), 1)
    check("word 2" in capsys.readouterr().err, "where")
    np.testing.assert_equal(run([str(saved.parent / "none"), "--aql"]), 1)
    check("cannot read" in capsys.readouterr().err, "what")
    with pytest.raises(NotFound):
        list(main([str(saved.parent), "--aql"]))
    saved.write_bytes(b"12345")
    with pytest.raises(MalformedInput, match="5 bytes"):
        list(main([str(saved), "--aql"]))
    for arguments in (
        [str(saved)],
        [str(saved), "--pm4", "--aql"],
        [str(saved), "--pm4", "--start", "-1"],
    ):
        with pytest.raises(SystemExit):
            list(main(arguments))


def test_words_are_little_endian() -> None:
    np.testing.assert_equal(list(words_of(b"\x01\x02\x03\x04\xff\0\0\0")), [0x04030201, 0xFF])


class Counted:
    """A decoder that counts what is read."""

    def __init__(self, kind: str) -> None:
        self.inner, self.reads = decoder(kind, "gfx1100"), 0

    def read(self, words: Sequence[int], at: int) -> tuple[Packet, int]:
        self.reads += 1
        return self.inner.read(words, at)

    def lines(self, packet: Packet) -> list[str]:
        return self.inner.lines(packet)


@pytest.mark.parametrize(("kind", "word"), [("pm4", 0xFFFF1000), ("sdma", 0), ("pm4", 1 << 31)])
def test_padding_is_read_once(kind: str, word: int) -> None:
    form = Counted(kind)
    words = words_of(struct.pack("<I", word) * (1 << 18))
    np.testing.assert_equal(list(listing(form, words))[1:], [f"        and {(1 << 18) - 1} more"])
    np.testing.assert_equal(form.reads, 1)


def test_lines_come_while_a_dump_is_read(saved: Path) -> None:
    form = Counted("pm4")
    lines = listing(form, words_of(struct.pack("<2I", *pm4.event_write()) * 1000))
    check("EVENT_WRITE" in next(lines))
    np.testing.assert_equal(form.reads, 1)
    check(f"at most {LIMIT_BYTES >> 20} MiB" in help_of(), help_of())
    with saved.open("wb") as sparse:
        sparse.truncate(LIMIT_BYTES + 4)
    with pytest.raises(MalformedInput, match=f"longer than {LIMIT_BYTES >> 20} MiB"):
        list(main([str(saved), "--aql"]))


def help_of() -> str:
    command = [sys.executable, "-m", "queues.decode", "--help"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
