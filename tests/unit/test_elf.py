"""The ELF loader: images that run, words that match the architecture manuals, refusals."""

from __future__ import annotations

import platform
import struct
from types import ModuleType

import numpy as np
import pytest

from compilers.cpu import llvm
from compilers.objects import elf, elf_aarch64, elf_x86_64
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, Unsupported
from drivers.cpu.program import map_image
from drivers.world.linux import LinuxWorld
from tests.support import check

X86 = platform.machine() == "x86_64"
on_x86 = pytest.mark.skipif(not X86, reason="runs x86-64 code")


def load(text: str, name: str = "k", arch: str = "x86_64") -> Binary:
    return elf.load(llvm.compile_object(text, arch, frozenset()), name, arch)


def call(binary: Binary, *arguments: int) -> int:
    world = LinuxWorld()
    region = map_image(world, binary, "x86_64")
    try:
        return world.function(region.cpu_va + binary.entry, len(arguments))(*arguments)
    finally:
        region.close()


@on_x86
def test_code_without_data_runs() -> None:
    binary = load("define i64 @k(i64 %a) { %b = mul i64 %a, 7\n ret i64 %b }")
    check(call(binary, 6) == 42, "6 * 7")
    check(binary.fixups == (), "nothing outside")
    check(binary.data_offset % 4096 == 0, "data starts on a page")


@on_x86
def test_constants_and_calls_of_outside_functions() -> None:
    binary = load("""
declare float @sinf(float)
declare ptr @memcpy(ptr, ptr, i64)
define void @k(ptr %to, ptr %from, i64 %n) {
  %v = load float, ptr %from
  %w = fadd float %v, 2.5
  %s = call float @sinf(float %w)
  store float %s, ptr %to
  %t = getelementptr i8, ptr %to, i64 4
  %r = call ptr @memcpy(ptr %t, ptr %from, i64 %n)
  ret void
}""")
    check({fixup.symbol for fixup in binary.fixups} == {"sinf", "memcpy"}, "two outside symbols")
    source, result = np.array([0.75], np.float32), np.zeros(2, np.float32)
    call(binary, result.ctypes.data, source.ctypes.data, source.nbytes)
    np.testing.assert_allclose(result, [np.sin(np.float32(3.25)), 0.75], rtol=1e-6)


@on_x86
def test_writable_data_zeros_and_address_tables() -> None:
    binary = load("""
@count = internal global i64 40
@zeros = internal global [64 x i64] zeroinitializer
@table = internal constant [2 x ptr] [ptr @first, ptr @second]
define internal i64 @first(i64 %a) noinline { ret i64 %a }
define internal i64 @second(i64 %a) noinline { %b = mul i64 %a, 3\n ret i64 %b }
define i64 @k(i64 %which) {
  %c = load volatile i64, ptr @count
  %d = add i64 %c, 1
  store volatile i64 %d, ptr @count
  %z = load volatile i64, ptr getelementptr (i64, ptr @zeros, i64 63)
  %e = add i64 %d, %z
  %slot = getelementptr ptr, ptr @table, i64 %which
  %f = load ptr, ptr %slot
  %r = call i64 %f(i64 %e)
  ret i64 %r
}""")
    check(call(binary, 0) == 41, "table entry 0")
    check(call(binary, 1) == 123, "table entry 1, a fresh image counts from 40 again")
    check("" in {fixup.symbol for fixup in binary.fixups}, "own addresses")


@on_x86
def test_switch_tables_and_addresses_through_slots() -> None:
    cases = "\n".join(f"  i64 {i}, label %c{i}" for i in range(8))
    bodies = "\n".join(
        f"c{i}:\n  %r{i} = call i64 @work(i64 {i * i + 5}) \n  ret i64 %r{i}" for i in range(8)
    )
    binary = load(f"""
@labs = external global i8
define internal i64 @work(i64 %a) noinline {{ %b = xor i64 %a, 1\n ret i64 %b }}
define i64 @k(i64 %n) {{
  switch i64 %n, label %other [
{cases}
  ]
{bodies}
other:
  %p = ptrtoint ptr @labs to i64
  ret i64 %p
}}""")
    for n in range(8):
        check(call(binary, n) == (n * n + 5) ^ 1, f"case {n}")
    check(call(binary, 99) == LinuxWorld().symbol("labs"), "address from its slot")


def test_x86_words_match_hand_assembly() -> None:
    image = bytearray(16)
    elf_x86_64.patch(image, 4, elf_x86_64.R_X86_64_PC32, 0x1000 - 4)
    check(struct.unpack_from("<i", image, 4)[0] == 0x1000 - 4 - 4, "S + A - P")
    elf_x86_64.patch(image, 8, elf_x86_64.R_X86_64_PC64, -8)
    check(struct.unpack_from("<q", image, 8)[0] == -16, "64-bit distance")
    # jmp [rip+disp32] is FF /4 with mod 00, rm 101: FF 25; the distance counts from its end
    check(elf_x86_64.stub(0x10, 0x1000) == bytes.fromhex("ff25ea0f0000cccc"), "stub")


# src: Arm Architecture Reference Manual, A64 base instructions: BL, B.cond, ADRP, ADD, LDR
@pytest.mark.parametrize(
    ("kind", "before", "value", "after"),
    [
        ("CALL26", 0x94000000, 0x1000, 0x94000400),
        ("JUMP26", 0x14000000, -4, 0x17FFFFFF),
        ("CONDBR19", 0x54000001, 8, 0x54000041),
        ("ADR_PREL_PG_HI21", 0x90000000, 0x1234, 0xB0000000),
        ("ADR_PREL_PG_HI21", 0x90000010, 0x4000, 0x90000030),
        ("ADR_GOT_PAGE", 0x90000001, -1, 0xF0FFFFE1),
        ("ADD_ABS_LO12_NC", 0x91000000, 0x5010, 0x91004000),
        ("LDST8_ABS_LO12_NC", 0x39400000, 0x003, 0x39400C00),
        ("LDST32_ABS_LO12_NC", 0xBD400000, 0x104, 0xBD410400),
        ("LDST64_ABS_LO12_NC", 0xF9400000, 0x008, 0xF9400400),
        ("LDST128_ABS_LO12_NC", 0x3DC00000, 0x020, 0x3DC00800),
        ("LD64_GOT_LO12_NC", 0xF9400210, 0x2FF8, 0xF947FE10),
    ],
)
def test_aarch64_words_match_the_manual(kind: str, before: int, value: int, after: int) -> None:
    image = bytearray(struct.pack("<I", before))
    elf_aarch64.patch(image, 0, getattr(elf_aarch64, f"R_AARCH64_{kind}"), value)
    check(struct.unpack("<I", image)[0] == after, f"{image[::-1].hex()} is not {after:x}")


def test_aarch64_stub_words() -> None:
    words = struct.unpack("<3I", elf_aarch64.stub(0x20, 0x10008))
    np.testing.assert_array_equal(words, [0x90000090, 0xF9400610, 0xD61F0200])


def test_aarch64_objects_link() -> None:
    binary = load(
        """declare float @sinf(float)
@c = internal constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
define float @k(i64 %i) {
  %p = getelementptr float, ptr @c, i64 %i
  %v = load float, ptr %p
  %s = call float @sinf(float %v)
  ret float %s
}""",
        arch="aarch64",
    )
    check([fixup.symbol for fixup in binary.fixups] == ["sinf"], "one outside symbol")
    check(binary.data_offset == 65536, "64 KiB pages exist")
    expected = struct.pack("<4f", 1, 2, 3, 4)
    check(expected in binary.image[binary.data_offset :], "the table is data")


@pytest.mark.parametrize(
    ("patcher", "kind", "value"),
    [
        (elf_x86_64, elf_x86_64.R_X86_64_32S, 0),
        (elf_x86_64, 999, 0),
        (elf_x86_64, elf_x86_64.R_X86_64_PC32, 1 << 31),
        (elf_x86_64, elf_x86_64.R_X86_64_PC64, 0),
        (elf_aarch64, 999, 0),
        (elf_aarch64, elf_aarch64.R_AARCH64_CALL26, 1 << 27),
        (elf_aarch64, elf_aarch64.R_AARCH64_CALL26, 2),
        (elf_aarch64, elf_aarch64.R_AARCH64_LDST64_ABS_LO12_NC, 4),
        (elf_aarch64, elf_aarch64.R_AARCH64_PREL64, 0),
    ],
)
def test_relocations_that_cannot_be_are_refused(patcher: ModuleType, kind: int, value: int) -> None:
    with pytest.raises(MalformedInput, match="ELF"):
        patcher.patch(bytearray(4), 0, kind, value)


def test_refusals() -> None:
    blob = llvm.compile_object("define void @k() { ret void }", "x86_64", frozenset())
    with pytest.raises(MalformedInput, match="no 'other'"):
        elf.load(blob, "other", "x86_64")
    with pytest.raises(MalformedInput, match="EM_AARCH64"):
        elf.load(blob, "k", "aarch64")
    with pytest.raises(Unsupported, match="z80"):
        elf.load(blob, "k", "z80")
    for size in range(0, len(blob), 7):
        with pytest.raises(MalformedInput):
            elf.load(blob[:size], "k", "x86_64")


def test_a_symbol_table_of_no_whole_records() -> None:
    blob = bytearray(llvm.compile_object("define void @k() { ret void }", "x86_64", frozenset()))
    (sections,) = struct.unpack_from("<Q", blob, 40)  # src: System V gABI 4, Elf64_Ehdr e_shoff
    count = struct.unpack_from("<H", blob, 60)[0]
    heads = [sections + 64 * number for number in range(count)]
    (table,) = [at for at in heads if struct.unpack_from("<I", blob, at + 4)[0] == 2]  # SHT_SYMTAB
    (nbytes,) = struct.unpack_from("<Q", blob, table + 32)
    for wrong in (nbytes - 1, nbytes - 23, 1):
        struct.pack_into("<Q", blob, table + 32, wrong)
        with pytest.raises(MalformedInput, match="a symbol table of"):
            elf.load(bytes(blob), "k", "x86_64")


def test_huge_zeros_are_refused() -> None:
    with pytest.raises(MalformedInput, match="larger than"):
        load(
            "@z = internal global [99999999 x i64] zeroinitializer\n"
            "define i64 @k(i64 %i) { %p = getelementptr i64, ptr @z, i64 %i\n"
            "store i64 1, ptr %p\n %v = load volatile i64, ptr %p\n ret i64 %v }"
        )


def test_thread_local_data_is_refused() -> None:
    with pytest.raises(MalformedInput):
        load(
            "@t = thread_local global i64 5\ndefine i64 @k() { %v = load i64, ptr @t\n ret i64 %v }"
        )
