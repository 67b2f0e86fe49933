"""The cubin loader: committed cubins by nvrtc 13.5, against what `cuobjdump -elf` prints."""

from __future__ import annotations

import struct

import pytest

from compilers.nv import cubin, cubin_file
from drivers.base.contracts import Arg, Binary
from drivers.base.errors import MalformedInput, Unsupported
from queues.nv.kernel_code import NvCode
from tests import nv_cubins
from tests.nv_cubins import ARCHES
from tests.support import check

# src: `cuobjdump -elf` 13.5 of each: register count, min stack size, size of .text.k, of
# .nv.constant0.k, the place of parameters, and of .nv.shared.k; reserved: Ampere tuning guide
EXPECTED = {
    "sm_75": (75, 15, 0x190, 0x400, 0x174, 0x160, 0x200, 0x200),
    "sm_86": (86, 17, 0x190, 0x480, 0x174, 0x160, 0x200, 0x600),
    "sm_90a": (90, 17, 0x190, 0x500, 0x224, 0x210, 0x200, 0x600),
    "sm_120": (120, 15, 0x190, 0x480, 0x394, 0x380, 0x200, 0x600),
}


def kernel(arch: str, name: str = "k") -> Binary:
    return cubin.load(nv_cubins.cubin(arch), name, arch)


@pytest.mark.parametrize("arch", ARCHES)
def test_what_a_launch_needs(arch: str) -> None:
    binary = kernel(arch)
    code = NvCode.of(binary)
    found = (
        code.sm, code.registers, code.local_bytes, code.code_bytes, code.bank0_bytes,
        code.param_offset, binary.resources.shared_bytes, code.shared_bytes,
    )  # fmt: skip
    check(found == EXPECTED[arch], f"{arch}: {found}")
    check((code.barriers, code.max_threads, code.param_bytes) == (1, 128, 20), f"{code}")
    check(binary.entry == code.code_offset == 0, "the code comes first")
    wanted = (Arg(0, 8, True), Arg(8, 8, True), Arg(16, 4, False))
    check(binary.resources.args == wanted, f"{binary.resources.args}")


@pytest.mark.parametrize("arch", ARCHES)
def test_every_kernel_has_its_own_attributes(arch: str) -> None:
    """Attributes name a symbol: those of the other kernel are not taken."""
    binary = kernel(arch, "second")
    code = NvCode.of(binary)
    check(code.registers < NvCode.of(kernel(arch)).registers, f"{code.registers} registers")
    check((code.barriers, code.max_threads, binary.resources.shared_bytes) == (0, 0, 0), f"{code}")
    wanted = (Arg(0, 2, False), Arg(8, 8, True), Arg(16, 1, False))
    check(binary.resources.args == wanted, f"{binary.resources.args}")
    check(sorted(cubin.kernels(nv_cubins.cubin(arch))) == ["k", "second"], "by name")


@pytest.mark.parametrize("arch", ARCHES)
def test_constants_and_variables(arch: str) -> None:
    """Bank 3 has the user's table; bank 4 addresses of variables, which lie behind the code."""
    binary = kernel(arch)
    banks = {bank.number: bank for bank in NvCode.of(binary).banks}
    check(sorted(banks) == [3, 4] and banks[3].nbytes == 160, f"{banks}")
    start = banks[3].offset
    table = memoryview(binary.image[start : start + 12]).cast("f").tolist()
    check(table == [1.0, 2.0, 3.0], f"{table}")
    check(len(binary.fixups) == 2, f"{binary.fixups}")
    goals = {}
    for fixup in binary.fixups:
        check(banks[4].offset <= fixup.offset < banks[4].offset + 16, f"{fixup}")
        goals[fixup.addend] = binary.image[fixup.addend : fixup.addend + 16]
    check(min(goals) >= binary.data_offset, f"{goals}")
    numbers = bytes([5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0])
    check(numbers in goals.values(), f"{goals}")


def test_a_cubin_says_its_architecture() -> None:
    for arch in ARCHES:
        found = cubin.arch_of(nv_cubins.cubin(arch))
        check(found == arch.removesuffix("a"), f"{found}")
    with pytest.raises(MalformedInput, match="code for sm_86, not sm_75"):
        cubin.load(nv_cubins.cubin("sm_86"), "k", "sm_75")
    with pytest.raises(MalformedInput, match="0 kernels 'third'"):
        cubin.load(nv_cubins.cubin("sm_86"), "third", "sm_86")
    with pytest.raises(Unsupported, match="no NVIDIA compiler for 'sm_70'"):
        cubin.load(nv_cubins.cubin("sm_86"), "k", "sm_70")


@pytest.mark.parametrize(("arch", "most_kib"), [("sm_75", 64), ("sm_86", 99), ("sm_90a", 227)])
def test_shared_memory_that_the_code_does_not_declare(arch: str, most_kib: int) -> None:
    """# src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": most
    shared memory of a thread block"""
    binary = kernel(arch)
    before, declared = NvCode.of(binary), binary.resources.shared_bytes
    more = cubin.with_shared(binary, 60 << 10)
    code = NvCode.of(more)
    check(more.resources.shared_bytes == 60 << 10, f"{more.resources}")
    check(code.dynamic_bytes == (60 << 10) - declared, f"{code}")
    check(code.shared_bytes - before.shared_bytes == code.dynamic_bytes, f"{code}")
    check(NvCode.of(cubin.with_shared(binary, most_kib << 10)).dynamic_bytes > 0, "the most")
    for nbytes in ((most_kib << 10) + 1, declared - 1):
        with pytest.raises(Unsupported, match=f"at most {most_kib << 10}"):
            cubin.with_shared(binary, nbytes)


def changed(arch: str, at: int, value: int, nbytes: int) -> bytes:
    data = bytearray(nv_cubins.cubin(arch))
    data[at : at + nbytes] = value.to_bytes(nbytes, "little")
    return bytes(data)


def test_other_files_are_refused() -> None:
    # src: System V gABI 4: e_ident[EI_OSABI] at 7, e_machine at 18, e_shnum at 60
    for at, value, nbytes, rule in (
        (7, 3, 1, "OS ABI 3"),
        (18, 224, 2, "not a little-endian ELF64 file for NVIDIA"),
        (60, 0, 2, "0 section headers"),
        (60, 0xFFFF, 2, "section headers"),
    ):
        with pytest.raises(MalformedInput, match=rule):
            cubin.load(changed("sm_86", at, value, nbytes), "k", "sm_86")


def every_relocation(blob: bytes) -> list[cubin_file.Relocation]:
    file = cubin_file.CubinFile(blob)
    return [one for section in file.sections for one in file.relocations(section)]


@pytest.mark.parametrize("kind", [2, 4, 9])
def test_tables_of_no_whole_records(kind: int) -> None:
    """SHT_SYMTAB, SHT_RELA, SHT_REL. # src: System V gABI 4, e_shoff at 40, sh_size at 32"""
    blob = bytearray(nv_cubins.cubin("sm_86"))
    (sections,), (count,) = struct.unpack_from("<Q", blob, 40), struct.unpack_from("<H", blob, 60)
    heads = [sections + 64 * number for number in range(count)]
    tables = [at for at in heads if struct.unpack_from("<I", blob, at + 4)[0] == kind]
    check(kind != 2 or len(tables) == 1, "one symbol table")
    for table in tables:
        (nbytes,) = struct.unpack_from("<Q", blob, table + 32)
        struct.pack_into("<Q", blob, table + 32, nbytes - 1)
        with pytest.raises(MalformedInput, match=r"bytes of (symbols|relocations)"):
            every_relocation(bytes(blob))
        struct.pack_into("<Q", blob, table + 32, nbytes)


def test_an_unknown_architecture_is_named() -> None:
    """e_flags at 48: the architecture is its second byte. # src: cuobjdump -elf, flags"""
    with pytest.raises(Unsupported, match="a cubin for sm_52"):
        cubin.arch_of(changed("sm_86", 49, 52, 1))


def test_a_call_is_refused_by_name() -> None:
    """A relocation of the code: the table of a section that no one needs is made one of .text.k."""
    blob = bytearray(nv_cubins.cubin("sm_86"))
    heads = int.from_bytes(blob[40:48], "little")
    count = int.from_bytes(blob[60:62], "little")
    for number in range(count):
        at = heads + 64 * number
        if int.from_bytes(blob[at + 4 : at + 8], "little") == 9:  # SHT_REL
            blob[at + 44 : at + 48] = text_of(bytes(blob)).to_bytes(4, "little")  # sh_info
    with pytest.raises(MalformedInput, match=r"\.text\.k has a relocation"):
        cubin.load(bytes(blob), "k", "sm_86")


def text_of(blob: bytes) -> int:
    """The number of .text.k by pyelftools."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    return int(ELFFile(BytesIO(blob)).get_section_index(".text.k"))
