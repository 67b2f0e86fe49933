"""AMD code objects: layout, descriptor, metadata and relocations, against LLVM's own assembly."""

from __future__ import annotations

import struct
from dataclasses import asdict

import pytest

from compilers import binary, toolchains
from compilers.amd import code_object as amd_object
from compilers.amd import llvm as amd_llvm
from compilers.amd.targets import TARGETS
from compilers.cache import Cache
from drivers.amd.chips import CHIPS
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, Unsupported
from queues.amd.kernel_code import AmdCode
from queues.amd.registers import REGISTERS
from tests import amd_kernels, amd_toolbox
from tests.support import check

NONE: frozenset[str] = frozenset()
WAVE64 = frozenset({"wavefrontsize64"})


def load(source: str, arch: str, features: frozenset[str] = NONE) -> Binary:
    return amd_object.load(amd_llvm.compile_object(source, arch, features), "k", arch)


def registers(arch: str) -> str:
    return "gfx9" if arch in amd_kernels.CDNA else arch[:5]


def word(image: bytes, at: int) -> int:
    return int.from_bytes(image[at : at + 4], "little")


def test_every_chip_is_a_target() -> None:
    check(set(TARGETS) == {chip.name for chip in CHIPS.values()}, str(TARGETS))
    check(set(TARGETS) == set(amd_kernels.ARCHES), "the tests' list")


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
@pytest.mark.parametrize(
    "source",
    [amd_kernels.add(), amd_kernels.reverse(), amd_kernels.scratch()],
    ids=["add", "lds", "scratch"],
)
def test_descriptor_and_metadata_are_what_llvm_prints(arch: str, source: str) -> None:
    found, said = load(source, arch), amd_toolbox.assembly(source, arch)
    wanted, code = amd_toolbox.directives(said), AmdCode.of(found)
    got = {**asdict(code), **asdict(found.resources)}
    for key, name in (
        ("shared_bytes", "amdhsa_group_segment_fixed_size"),
        ("scratch_bytes", "amdhsa_private_segment_fixed_size"),
        ("kernarg_bytes", "amdhsa_kernarg_size"),
        ("kernarg_align_bytes", "kernarg_segment_align"),
        ("max_block", "max_flat_workgroup_size"),
        ("wave_lanes", "wavefront_size"),
        ("vgpr_spills", "vgpr_spill_count"),
    ):
        check(got[key] == wanted[name], f"{arch} {key}: {got[key]}, LLVM says {wanted[name]}")
    check(bool(got["scratch_bytes"]) == ("addrspace(5)" in source), "scratch where it is used")
    fields = REGISTERS[registers(arch)]
    rsrc2 = fields.decode("COMPUTE_PGM_RSRC2", got["rsrc2"])
    check(rsrc2["user_sgpr"] == wanted["amdhsa_user_sgpr_count"], "user SGPRs")
    check(rsrc2["tgid_x_en"] == wanted["amdhsa_system_sgpr_workgroup_id_x"], "workgroup id")
    check(rsrc2["tidig_comp_cnt"] == wanted["amdhsa_system_vgpr_workitem_id"], "work-item ids")
    denormals = fields.decode("COMPUTE_PGM_RSRC1", got["rsrc1"])["float_mode"] >> 4
    check(denormals == 0xF, f"{arch}: denormals of every type are kept, {denormals:#x}")
    check(got["vgprs"] >= wanted["amdhsa_next_free_vgpr"], "enough vector registers")
    check(got["vgprs"] < wanted["amdhsa_next_free_vgpr"] + 8, "not a step too many")


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_arguments(arch: str) -> None:
    got = load(amd_kernels.add(), arch).resources.args or ()
    wanted = amd_toolbox.arguments(amd_toolbox.assembly(amd_kernels.add(), arch))
    listed = [(a.offset, a.nbytes, "global_buffer" if a.buffer else "by_value") for a in got]
    check(listed == wanted, str(listed))
    check([entry[:2] for entry in wanted] == [(0, 8), (8, 8), (16, 8), (24, 4)], "C's layout")


@pytest.mark.parametrize("arch", amd_kernels.RDNA)
def test_waves_of_64_lanes(arch: str) -> None:
    found = load(amd_kernels.add(), arch, WAVE64)
    check(AmdCode.of(found).wave_lanes == 64, "the feature is passed on")
    said = amd_toolbox.assembly(amd_kernels.add(), arch, "-wavefrontsize32,+wavefrontsize64")
    used = amd_toolbox.directives(said)["amdhsa_next_free_vgpr"]
    check(used <= AmdCode.of(found).vgprs < used + 4, "steps of four registers")


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_the_image_is_code_then_data(arch: str) -> None:
    found = load(amd_kernels.table(), arch)
    offset, nbytes = AmdCode.of(found).code_offset, AmdCode.of(found).code_bytes
    s_endpgm = 0xBFB00000 if arch[:5] in ("gfx11", "gfx12") else 0xBF810000  # src: ISA manuals
    check(word(found.image, offset + nbytes - 4) == s_endpgm, "the code ends with s_endpgm")
    check(offset % 256 == 0 and found.entry % 64 == 0, "alignment that the hardware asks for")
    check(offset + nbytes <= found.data_offset <= found.entry, "code, then the descriptor")
    (distance,) = struct.unpack_from("<q", found.image, found.entry + 16)
    check(found.entry + distance == offset, "the descriptor finds the code")


def test_constants_are_reached_relative_to_the_program_counter() -> None:
    found = load(amd_kernels.table(), "gfx1100")
    image = found.image
    # src: RDNA3 ISA: S_GETPC_B64 is SOP1 op 0x47; S_ADD_U32 with a literal is 8 bytes
    getpc = next(at for at in range(0, 256, 4) if word(image, at) & 0xFF80FFFF == 0xBE804700)
    check(word(image, getpc + 4) & 0xFF80FF00 == 0x8000FF00, "s_add_u32 with a literal")
    low, high = word(image, getpc + 8), word(image, getpc + 16)
    at = (getpc + 4 + low + (high << 32)) % (1 << 64)
    check(struct.unpack_from("<4i", image, at) == (3, 5, 7, 11), f"the table at {at:#x}")


def test_absolute_addresses_become_fixups() -> None:
    for found in (
        load(amd_kernels.pointers(), "gfx1100"),
        amd_object.load(amd_toolbox.POINTERS_LINKED.read_bytes(), "k", "gfx1100"),
    ):
        check(len(found.fixups) == 2, "a pointer and a slot")
        for fixup in found.fixups:
            check(not fixup.symbol and fixup.offset >= found.data_offset, str(fixup))
            check(word(found.image, fixup.addend) == 7, "both point at the seven")


def test_a_linked_object() -> None:
    blob = amd_toolbox.POINTERS_LINKED.read_bytes()
    check(amd_object.kernels(blob) == ["k"], "its kernels")
    check(amd_object.arch_of(blob) == "gfx1100", "its chip")
    found = amd_object.load(blob, "k", "gfx1100")
    # src: llvm-readelf of that file: k.kd 0x540, k 0x1600 of 112 bytes, writable from 0x2800
    check(found.entry == 0x540 and AmdCode.of(found).code_offset == 0x1600, "symbols")
    check(AmdCode.of(found).code_bytes == 112 and found.data_offset == 0x2000, "segments")
    check(sorted(f.offset for f in found.fixups) == [0x28A0, 0x38B0], "R_AMDGPU_ABS64")
    same = load(amd_kernels.pointers(), "gfx1100")
    check(found.resources.args == same.resources.args, "args as in the relocatable object")
    got, wanted = asdict(AmdCode.of(found)), asdict(AmdCode.of(same))
    for key in ("rsrc1", "rsrc2", "rsrc3", "properties", "kernarg_bytes", "implicit", "vgprs"):
        check(got[key] == wanted[key], f"{key} as in the relocatable object")


def test_a_linked_object_with_a_gnu_hash_table_only() -> None:
    blob = amd_toolbox.POINTERS_LINKED.read_bytes()
    tag = 0x880  # src: llvm-readelf: the last entry of its dynamic section is DT_HASH
    check(blob[tag : tag + 8] == (4).to_bytes(8, "little"), "DT_HASH")
    found = amd_object.load(patched(blob, tag, 0x6FFFFFF0, 8), "k", "gfx1100")
    same = amd_object.load(blob, "k", "gfx1100")
    check((found.entry, found.fixups) == (same.entry, same.fixups), "the same symbols")
    check(found.resources == same.resources, "the same kernel")


def patched(blob: bytes, at: int, value: int, nbytes: int) -> bytes:
    return blob[:at] + value.to_bytes(nbytes, "little") + blob[at + nbytes :]


DESCRIPTOR_AT = 0x540
"""In the linked file: its first segment starts at file offset 0, address 0."""


@pytest.mark.parametrize(
    ("at", "value", "nbytes", "rule"),
    [
        (18, 62, 2, "AMD GPUs"),  # e_machine
        (7, 0, 1, "OS ABI"),
        (8, 1, 1, "OS ABI"),
        (16, 2, 2, "neither"),  # e_type
        (48, 0x36, 4, "e_flags"),  # gfx1030's
        (56, 60000, 2, "program headers"),
        (DESCRIPTOR_AT, 1 << 20, 4, "LDS"),
        (DESCRIPTOR_AT, 64, 4, "group_bytes"),
        (DESCRIPTOR_AT + 4, 16, 4, "private_bytes"),
        (DESCRIPTOR_AT + 12, 1, 4, "reserved"),
        (DESCRIPTOR_AT + 16, 0x1800 - DESCRIPTOR_AT, 8, "not 0x1600"),
        (DESCRIPTOR_AT + 52, 0, 4, "user SGPRs"),
        (DESCRIPTOR_AT + 56, 0x008, 2, "wave_lanes"),
        (0x4E0, DESCRIPTOR_AT, 8, "inside the kernel descriptor"),  # r_offset
        (0x4E8, 10, 4, "relocation 10"),
        (64 + 5 * 56 + 40, 0xA1, 8, "a dynamic section of 161 bytes"),  # p_memsz
        (0x818, 47, 8, "47 bytes of relocations"),  # DT_RELASZ
    ],
)
def test_what_is_wrong_is_named(at: int, value: int, nbytes: int, rule: str) -> None:
    blob = patched(amd_toolbox.POINTERS_LINKED.read_bytes(), at, value, nbytes)
    with pytest.raises(MalformedInput, match=rule):
        amd_object.load(blob, "k", "gfx1100")


def test_names_and_chips_that_are_not_there() -> None:
    blob = amd_llvm.compile_object(amd_kernels.add(), "gfx1100", NONE)
    with pytest.raises(MalformedInput, match="no 'other'"):
        amd_object.load(blob, "other", "gfx1100")
    with pytest.raises(MalformedInput, match="e_flags"):
        amd_object.load(blob, "k", "gfx1101")
    with pytest.raises(Unsupported, match="gfx1100, gfx1101"):
        amd_object.load(blob, "k", "gfx600")
    with pytest.raises(Unsupported, match="unknown chip"):
        amd_object.arch_of(patched(blob, 48, 0xFE, 4))
    with pytest.raises(MalformedInput, match="no kernel 'other'"):
        amd_object.load(amd_toolbox.POINTERS_LINKED.read_bytes(), "other", "gfx1100")


def test_every_prefix_of_both_kinds_is_refused() -> None:
    relocatable = amd_llvm.compile_object(amd_kernels.table(), "gfx1100", NONE)
    linked = amd_toolbox.POINTERS_LINKED.read_bytes()
    # src: llvm-readelf: the section headers end the one, the last segment ends at 0x8b8 the other
    for blob, needed in ((relocatable, len(relocatable)), (linked, 0x8B8)):
        amd_object.load(blob, "k", "gfx1100")
        for size in range(0, needed, 8):
            with pytest.raises(MalformedInput):
                amd_object.load(blob[:size], "k", "gfx1100")


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_through_the_cache(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cache("")
    first = toolchains.compile_source(amd_kernels.add(), "k", "LLVM", arch, NONE, store)
    check(first == load(amd_kernels.add(), arch), "what the loader gives")
    check(binary.decode(binary.encode(first)) == first, "an entry holds all of it")
    monkeypatch.setattr(amd_llvm, "compile_object", None)
    again = toolchains.compile_source(amd_kernels.add(), "k", "LLVM", arch, NONE, store)
    check(again == first, "the second time nothing is compiled")
