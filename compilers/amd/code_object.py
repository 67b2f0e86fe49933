"""AMD code objects, relocatable (LLVM) and linked (clang, COMGR), to a Binary.

The image is flat and position-independent; `entry` is the kernel descriptor. `resources`:

    max_block shared_bytes scratch_bytes     of the metadata and the descriptor
    args                                     those that a launch passes
    vendor                                   the rest, as queues/amd/kernel_code.py has it

Source: LLVM AMDGPUUsage, "Code Object", "Kernel Descriptor", "Relocation Records".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compilers.amd import descriptor as amd_descriptor
from compilers.amd import metadata as amd_metadata
from compilers.amd import relocs as amd_relocs
from compilers.amd.descriptor import CODE_ALIGN_BYTES, DESCRIPTOR_BYTES, Descriptor
from compilers.amd.linked import Linked
from compilers.amd.metadata import KernelMetadata
from compilers.amd.targets import MACH_MASK, PAGE_BYTES, amd_target, target_of_flags
from compilers.objects import elf
from compilers.objects.elf_read import Object
from drivers.base.contracts import Arg, Binary, Fixup, Resources
from drivers.base.errors import MalformedInput
from drivers.base.view import View
from queues.amd.kernarg import BUFFER, GIVEN
from queues.amd.kernel_code import AmdCode, Implicit

_MACHINE: Final = "EM_AMDGPU"
_EM_AMDGPU: Final = 224
_HEADER_BYTES: Final = 64
_OSABI_AMDGPU_HSA: Final = 64
_ABI_VERSIONS: Final = frozenset({2, 3, 4})  # src: LLVM ELF.h, ELFABIVERSION_AMDGPU_HSA_V4..V6
_ET_REL, _ET_DYN = 1, 3
_OSABI_AT, _ABI_VERSION_AT, _TYPE_AT, _MACHINE_AT, _FLAGS_AT = 7, 8, 16, 18, 48
_FIXUP_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Image:
    """Common parts of both kinds of code object."""

    flags: int
    image: bytes
    data_offset: int
    fixups: tuple[Fixup, ...]
    notes: Sequence[View]
    entry: int
    code: int
    code_bytes: int


def load(blob: bytes, name: str, arch: str) -> Binary:
    """The kernel `name` of a code object for the chip `arch`.

    Raises: MalformedInput for anything else; Unsupported for a chip that is not known.
    """
    target = amd_target(arch)
    found = (_relocatable if _kind(blob) == _ET_REL else _linked)(blob, name)
    if found.flags & MACH_MASK != target.chip.elf_mach:
        raise MalformedInput(f"code object: e_flags {found.flags:#x} are not those of {arch}")
    described = [k for k in amd_metadata.kernels(found.notes) if k.symbol == f"{name}.kd"]
    if len(described) != 1:
        raise MalformedInput(f"code object: {len(described)} kernels {name!r} in its metadata")
    view = View(found.image, "image").sub(found.entry, DESCRIPTOR_BYTES, "kernel descriptor")
    descriptor = amd_descriptor.read(view, target)
    _check_place(found, descriptor)
    _check_agreement(descriptor, described[0])
    return Binary(
        arch, name, found.image, found.entry, found.fixups, found.data_offset,
        _resources(found, descriptor, described[0]),
    )  # fmt: skip


def kernels(blob: bytes) -> list[str]:
    """The names of the kernels in a code object. Raises: MalformedInput."""
    notes = Object(blob, _MACHINE).notes() if _kind(blob) == _ET_REL else Linked(blob).notes()
    return [kernel.symbol.removesuffix(".kd") for kernel in amd_metadata.kernels(notes)]


def is_code_object(blob: bytes) -> bool:
    """Whether the bytes start like an AMD code object."""
    machine = int.from_bytes(blob[_MACHINE_AT : _MACHINE_AT + 2], "little")
    return blob[:6] == b"\x7fELF\x02\x01" and machine == _EM_AMDGPU


def arch_of(blob: bytes) -> str:
    """The chip a code object is for. Raises: MalformedInput, Unsupported."""
    _kind(blob)
    return target_of_flags(View(blob, "code object").u32(_FLAGS_AT, "e_flags")).arch


def _kind(blob: bytes) -> int:
    """ET_REL or ET_DYN, with the rest of the header's identity checked."""
    view = View(blob, "code object")
    head = view.bytes(0, _HEADER_BYTES, "file header")
    kind = view.u16(_TYPE_AT, "e_type")
    if not is_code_object(head):
        raise view.fail("not a little-endian ELF64 file for AMD GPUs")
    osabi, version = head[_OSABI_AT], head[_ABI_VERSION_AT]
    if osabi != _OSABI_AMDGPU_HSA or version not in _ABI_VERSIONS:
        raise view.fail(f"OS ABI {osabi}, {version}: not HSA code object 4, 5 or 6", _OSABI_AT)
    if kind not in (_ET_REL, _ET_DYN):
        raise view.fail(f"ELF type {kind}: neither relocatable nor linked", _TYPE_AT)
    return kind


def _relocatable(blob: bytes, name: str) -> _Image:
    source = Object(blob, _MACHINE)
    done = elf.link(source, amd_relocs, PAGE_BYTES)
    code = source.function(name)
    return _Image(
        source.flags, bytes(done.image), done.data_offset, tuple(done.fixups), source.notes(),
        done.value(source.function(f"{name}.kd")), done.value(code), code.nbytes,
    )  # fmt: skip


def _linked(blob: bytes, name: str) -> _Image:
    source = Linked(blob)
    entry, code = source.find(f"{name}.kd"), source.find(name)
    if entry is None or code is None:
        raise MalformedInput(f"code object: it defines no kernel {name!r}")
    return _Image(
        source.flags, source.image, source.data_offset, source.fixups(), source.notes(),
        entry.value, code.value, code.nbytes,
    )  # fmt: skip


def _check_place(found: _Image, descriptor: Descriptor) -> None:
    """Check that the descriptor has a fixed address and points at the kernel's code."""
    for fixup in found.fixups:
        if fixup.symbol:
            raise MalformedInput(
                f"code object: it needs {fixup.symbol!r} from outside",
                hint="Device libraries must be linked in by the compiler",
            )
        if fixup.offset < found.entry + DESCRIPTOR_BYTES and (
            fixup.offset + _FIXUP_BYTES > found.entry
        ):
            raise MalformedInput("code object: an address inside the kernel descriptor")
    code = found.entry + descriptor.code_off
    inside = code >= 0 and 0 < found.code_bytes <= found.data_offset - code
    if found.entry % DESCRIPTOR_BYTES or code % CODE_ALIGN_BYTES or code != found.code:
        raise MalformedInput(
            f"code object: descriptor at {found.entry:#x}, code at {code:#x}, not {found.code:#x}"
        )
    if not inside:
        raise MalformedInput(f"code object: {found.code_bytes} bytes at {code:#x} are not code")


def _check_agreement(descriptor: Descriptor, described: KernelMetadata) -> None:
    """Check that descriptor and metadata agree."""
    pairs = {
        "group_bytes": (descriptor.group_bytes, described.group_bytes),
        "private_bytes": (descriptor.private_bytes, described.private_bytes),
        "wave_lanes": (descriptor.wave_lanes, described.wave_lanes),
    }
    for what, (here, there) in pairs.items():
        if here != there:
            raise MalformedInput(f"code object: {what} is {here} and in the metadata {there}")
    align = described.kernarg_align_bytes
    if described.kernarg_bytes > _rounded(descriptor.kernarg_bytes, align):
        raise MalformedInput(f"code object: kernarg of {descriptor.kernarg_bytes} bytes")
    if described.vgprs > descriptor.vgprs or (
        descriptor.sgprs and described.sgprs > descriptor.sgprs
    ):
        raise MalformedInput("code object: the metadata counts more registers than RSRC1 gives")


def _rounded(nbytes: int, align: int) -> int:
    if not align or align & (align - 1) or align > PAGE_BYTES:
        raise MalformedInput(f"code object: kernarg alignment {align}")
    return nbytes + -nbytes % align


def _resources(found: _Image, descriptor: Descriptor, described: KernelMetadata) -> Resources:
    args = list(enumerate(described.args))
    code = AmdCode(
        rsrc1=descriptor.rsrc1,
        rsrc2=descriptor.rsrc2,
        rsrc3=descriptor.rsrc3,
        properties=descriptor.properties.raw & 0xFFFF,
        preload=descriptor.properties.raw >> 16,
        code_offset=found.code,
        code_bytes=found.code_bytes,
        kernarg_bytes=max(descriptor.kernarg_bytes, described.kernarg_bytes),
        kernarg_align_bytes=described.kernarg_align_bytes,
        wave_lanes=descriptor.wave_lanes,
        vgprs=descriptor.vgprs,
        sgprs=descriptor.sgprs or described.sgprs,
        agprs=described.agprs,
        vgpr_spills=described.vgpr_spills,
        sgpr_spills=described.sgpr_spills,
        dynamic_stack=described.dynamic_stack,
        implicit=tuple(
            Implicit(number, arg.nbytes, arg.offset, arg.kind)
            for number, arg in args
            if arg.kind not in GIVEN
        ),
    )
    return Resources(
        max_block=described.max_workgroup_lanes,
        shared_bytes=descriptor.group_bytes,
        scratch_bytes=descriptor.private_bytes,
        args=tuple(
            Arg(arg.offset, arg.nbytes, arg.kind == BUFFER) for _, arg in args if arg.kind in GIVEN
        ),
        vendor=code.encode(),
    )
