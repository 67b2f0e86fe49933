"""Launches prepared once: what lies in the ring after they are packed, word for word."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from drivers.base.errors import BadArgument, Unsupported
from queues.amd import pm4
from queues.amd.aql_launch import AqlLauncher, jump, jump_slots
from queues.amd.pm4_launch import Kernel, Launcher, Packer, Scratch, Target, Words
from queues.decode import decode, decoder, words_of
from queues.packet_layout import Packet
from tests.support import check

RING_VA, AT = 0x7F00_0000_0000, 1024
KERNEL = Kernel(
    name="k", code_va=0x7F12_3456_7800, descriptor_va=0x7F12_3456_7000, rsrc1=0x60AF0041,
    rsrc2=0x84, rsrc3=0, properties=0x408, block=64, max_block=256, group_bytes=0,
    private_bytes=0, kernarg_bytes=28, args=((0, 8), (8, 8), (16, 8), (24, 4)),
)  # fmt: skip
GFX11 = Target(pm4.flavour_of("gfx1100"), architected_scratch=True)
SCRATCH = Scratch(0x7F55_0000_0000, 1 << 20, 0x1020, (1, 2, 3, 4))
ARGUMENTS = [0x1111_2222_3333, 0x4444, 0x5555, 99]
# src: the captured stream of a gfx1100 launch in the shared notes: registers in this order, the
# src: offsets of gc_11_0_0_offset.h from 0x2c00
STREAM = (
    "c0065800 00000000 ffffffff 00ffffff 00000000 00000000 0000000a 000003f0 "
    "c0027600 0000020c 12345678 0000007f "
    "c0027600 00000212 60af0041 00000084 c0017600 00000228 00000000 c0017600 00000218 00001020 "
    "c0027600 00000210 55000000 0000007f c0037600 0000021b 00000000 00000000 00000000 "
)


def block(launcher: Launcher, words: list[int], grid: int, done: int) -> list[int]:
    """The words that a launch writes."""
    memory = bytearray(AT + launcher.nbytes)
    kernarg_va = RING_VA + AT + launcher.arguments_off
    launcher.pack_into(memory, AT, *launcher.values(words, kernarg_va, (grid, 1, 1), done))
    check(not any(memory[:AT]), "it wrote in front of its place")
    return list(struct.unpack(f"<{launcher.nwords}I", memory[AT:]))


def packets(words: list[int], chip: str = "gfx1100") -> list[Packet]:
    form = decoder("pm4", chip)
    return list(decode(form, words_of(struct.pack(f"<{len(words)}I", *words))))


def registers(found: list[Packet]) -> dict[int, int]:
    """Every SH register that the packets set."""
    return {
        0x2C00 + packet.fields["reg_offset"] + number: value
        for packet in found
        if packet.name == "SET_SH_REG"
        for number, value in enumerate(packet.tail)
    }


def test_a_launch_word_for_word() -> None:
    launcher = Launcher(GFX11, KERNEL, SCRATCH, (64, 1, 1), 0x7F99_0000_0FC0)
    words = block(launcher, ARGUMENTS, 7, 0x1_0000_0123)
    check(launcher.nwords % 16 == 0 and len(words) == launcher.nwords)
    at = launcher.arguments_off // 4
    check(at % 4 == 0, "arguments begin at a multiple of 16 bytes")
    check(words[at : at + 7] == [0x22223333, 0x1111, 0x4444, 0, 0x5555, 0, 99])
    found = packets(words)
    names = [packet.name for packet in found]
    check(names[0] == "NOP" and names[-3:] == ["DISPATCH_DIRECT", "EVENT_WRITE", "RELEASE_MEM"])
    golden = [int(word, 16) for word in STREAM.split()]
    start = found[1].at
    check(words[start : start + len(golden)] == golden, " ".join(f"{w:08x}" for w in words[start:]))
    sh = registers(found)
    kernarg_va = RING_VA + AT + launcher.arguments_off
    check((sh[0x2E40], sh[0x2E41]) == (kernarg_va & 0xFFFFFFFF, kernarg_va >> 32))
    check([sh[0x2E04 + n] for n in range(8)] == [0, 0, 0, 64, 1, 1, 0, 0] and sh[0x2E15] == 0)
    check(words[found[-3].at :][:5] == [0xC0031500, 7, 1, 1, 0x8005])
    check(words[found[-2].at :][:2] == [0xC0004600, 0x407])
    check(words[found[-1].at :] == [
        0xC0064900, 0x514, 0x40000000, 0x00000FC0, 0x7F99, 0x123, 1, 0
    ])  # fmt: skip


def test_only_what_is_open_changes() -> None:
    launcher = Launcher(GFX11, KERNEL, SCRATCH, (64, 1, 1), 0x7F99_0000_0FC0)
    first = block(launcher, ARGUMENTS, 7, 1)
    second = block(launcher, [1, 2, 3, 4], 8, 2)
    changed = [number for number, pair in enumerate(zip(first, second, strict=True))
               if pair[0] != pair[1]]  # fmt: skip
    at, found = launcher.arguments_off // 4, packets(first)
    expected = [at, at + 1, at + 2, at + 4, at + 6, found[-3].at + 1, found[-1].at + 5]
    check(changed == expected, f"{changed} {expected}")
    check(block(launcher, ARGUMENTS, 7, 1) == first, "the template was written to")


def test_flat_scratch_of_gfx10_is_in_user_registers() -> None:
    target = Target(pm4.flavour_of("gfx1030"), architected_scratch=False)
    kernel = replace(KERNEL, properties=0x400 | 1 | 8 | 32, private_bytes=128)
    words = block(Launcher(target, kernel, SCRATCH, (64, 1, 1), 64), ARGUMENTS, 1, 1)
    sh = registers(packets(words, "gfx1030"))
    check([sh[0x2E40 + n] for n in range(4)] == [1, 2, 3, 4])
    check((sh[0x2E46], sh[0x2E47]) == (0, 0x7F55), "flat_scratch_init is the base")
    check(0x2E10 not in sh and sh[0x2E18] == 0x1020)


def test_each_of_several_xccs_has_its_scratch_and_one_counts_the_step() -> None:
    """An AQL queue, which all XCCs read, jumps to a graph's packets."""
    target = Target(pm4.flavour_of("gfx942"), architected_scratch=True, xccs=2)
    launcher = Launcher(target, replace(KERNEL, properties=8), SCRATCH, (64, 1, 1), 64,
                        in_graph=True)  # fmt: skip
    inner = packets(block(launcher, ARGUMENTS, 7, 5), "gfx942")
    check(inner[0].name == "NOP")
    selected = [p.fields["virtual_xcc_id_select"] for p in inner if p.name == "PRED_EXEC"]
    check(selected == [1, 2, 1])
    bases = [p.tail for p in inner if p.name == "SET_SH_REG" and p.fields["reg_offset"] == 0x210]
    check(bases == [(0x55000000, 0x7F), (0x55001000, 0x7F)])
    check("cs_w32_en" not in str(inner))


def test_what_a_launch_cannot_give_is_refused() -> None:
    for properties, what in ((2, "dispatch_ptr"), (16, "dispatch_id")):
        with pytest.raises(Unsupported, match=what):
            Launcher(GFX11, replace(KERNEL, properties=properties), SCRATCH, (64, 1, 1), 64)
    for args in (((0, 2),), ((4, 8),), ((0, 16),), ((0, 8), (24, 8)), ((0, 8), (8, 8), (12, 4))):
        with pytest.raises(Unsupported, match="an argument of"):
            Launcher(GFX11, replace(KERNEL, args=args), SCRATCH, (64, 1, 1), 64)
    with pytest.raises(BadArgument, match="outside"):
        Launcher(GFX11, replace(KERNEL, kernarg_bytes=16), SCRATCH, (64, 1, 1), 64)


def test_an_aql_launch_word_for_word() -> None:
    """Barrier bit, agent scopes. # src: ROCR inc/hsa.h hsa_kernel_dispatch_packet_t"""
    launcher = AqlLauncher(replace(KERNEL, group_bytes=512, private_bytes=32), (64, 1, 1))
    slot, side = bytearray(64), bytearray(32)
    launcher.pack_arguments(side, 0, *ARGUMENTS)
    check(struct.unpack_from("<3QI", side) == tuple(ARGUMENTS))
    launcher.pack_into(slot, 0, *launcher.values(0x7F00_1230_0040, (7, 1, 1)))
    expected = struct.pack(
        "<6H5I3QQ", 2 | 1 << 8 | 1 << 9 | 1 << 11, 3, 64, 1, 1, 0, 7 * 64, 1, 1, 32, 512,
        KERNEL.descriptor_va, 0x7F00_1230_0040, 0, 0,
    )  # fmt: skip
    check(bytes(slot) == expected, slot.hex())
    launcher.pack_into(slot, 0, *launcher.values(64, (2, 3, 4)))
    check(struct.unpack_from("<3I", slot, 12) == (128, 3, 4))
    with pytest.raises(BadArgument, match="workgroups of 64"):
        launcher.values(0, (1 << 27, 1, 1))
    with pytest.raises(BadArgument, match="workgroups of 64"):
        launcher.values(0, (1 << 26, 1, 1))
    check(launcher.values(0, ((1 << 26) - 1, 1, 1)) is not None)


def test_a_packer_leaves_holes_of_32_and_64_bits() -> None:
    made = Words()
    made.add([1, 2, 3, 4, 5], [("a", 0, 1), ("b", 2, 2)])
    packer, memory = Packer(made, {"a": 7}), bytearray(24)
    values = packer.template.copy()
    values[packer.slots["b"]] = 1 << 40
    packer.pack_into(memory, 4, *values)
    check(struct.unpack("<6I", memory) == (0, 7, 2, 0, 256, 5))


@pytest.mark.parametrize("xccs", [1, 8])
def test_a_jump_to_pm4_words_from_an_aql_queue(xccs: int) -> None:
    """# src: ROCR amd_aql_queue.cpp amd_aql_pm4_ib; inc/hsa.h hsa_barrier_and_packet_t"""
    target = replace(GFX11, xccs=xccs)
    system, none = 2 << 11, 0
    pushed = struct.pack("<HHI7Q", 3 | 1 << 8 | none << 9 | system, 0, 0, *[0] * 7)
    jumps = struct.pack(
        "<HH4II8IQ", 1 << 8 | 2 << 9 | system, 1, 0xC0023F00, 0x3456_7000, 0x12, 1 << 23 | 5,
        0xA, *[0] * 8, 0,
    )  # fmt: skip
    expected = (pushed if xccs > 1 else b"") + jumps
    check(jump(target, 0x12_3456_7000, 5) == expected)
    check(jump_slots(target) * 64 == len(expected))
