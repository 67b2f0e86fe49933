"""Cubins to a Binary: the kernel's instructions, its constant banks, and what a launch needs.

    image    instructions | constant banks 1 ... 7, each 256-byte aligned | global variables
    entry    the first instruction
    args     parameters by their offset from `NvCode.param_offset`; one of 8 bytes is a buffer, a
             larger structure is several integers

A cubin does not say which parameters are pointers: kernels made here pass nothing else of 8 bytes.
Constant bank 0 is made by the driver for each launch. Addresses of global variables that a bank
holds are fixups; functions that a kernel calls lie behind it. Addresses in code are patches.
"""

from __future__ import annotations

import re
from typing import Final

from compilers.nv import cubin_code
from compilers.nv.cubin_code import Layout
from compilers.nv.cubin_file import (
    LOADED_LIMIT_BYTES,
    NOBITS,
    CubinFile,
    Relocation,
    Section,
    Symbol,
    is_cubin,
)
from compilers.nv.cubin_info import KernelInfo, read_common, read_own
from compilers.nv.cubin_resources import ADDRESS_BYTES, resources_of, with_shared
from compilers.nv.targets import TARGETS, nv_target
from drivers.base.contracts import Binary, Fixup
from drivers.base.errors import MalformedInput, Unsupported
from queues.nv.kernel_code import BANK_ALIGN, CODE_ALIGN, MAX_BANKS, ConstantBank

__all__ = ["arch_of", "is_cubin", "kernels", "load", "with_shared"]

PAGE_BYTES: Final = 4096
R_CUDA_64: Final = 2
"""The address of a symbol. # src: cuobjdump and Mesa's nv_cubin.c, R_CUDA_64"""
_BANK: Final = re.compile(r"\.nv\.constant([1-7])(?:\.(.+))?")
_ORDER: Final = "little"


def load(blob: bytes, name: str, arch: str) -> Binary:
    """The kernel `name` of a cubin for `arch`.

    Raises: MalformedInput for anything else; Unsupported for an architecture that is not known.
    """
    target, file = nv_target(arch), CubinFile(blob)
    if file.sm != target.sm:
        raise file.fail(f"code for sm_{file.sm}, not {arch}")
    named = [symbol for symbol in file.kernels() if symbol.name == name]
    if len(named) != 1:
        raise file.fail(f"{len(named)} kernels {name!r}")
    code = cubin_code.with_called(file, cubin_code.kernel_section(file, named[0]))
    info = _info_of(file, named[0])
    layout = _layout(file, code, name)
    fixups = tuple(_fixups(file, layout, code))
    resources = resources_of(file, target, named[0], code, info, layout)
    return Binary(arch, name, layout.image, 0, fixups, layout.data_offset, resources)


def kernels(blob: bytes) -> list[str]:
    """The names of the kernels in a cubin. Raises: MalformedInput."""
    return [symbol.name for symbol in CubinFile(blob).kernels()]


def arch_of(blob: bytes) -> str:
    """The architecture that a cubin is for; its header does not say whether it is "sm_90a".

    Raises: MalformedInput, Unsupported.
    """
    found = f"sm_{CubinFile(blob).sm}"
    if found not in TARGETS:
        raise Unsupported(f"a cubin for {found}", hint=f"Known: {', '.join(TARGETS)}")
    return found


def _info_of(file: CubinFile, symbol: Symbol) -> KernelInfo:
    info = KernelInfo()
    for name in (".nv.info", f".nv.info.{symbol.name}"):
        if name not in file.by_name:
            raise file.fail(f"no {name}")
    read_common(file.body(file.by_name[".nv.info"]), symbol.number, info)
    read_own(file.body(file.by_name[f".nv.info.{symbol.name}"]), info)
    if info.registers is None or info.min_stack_bytes is None:
        raise file.fail(f"no registers or no stack size of {symbol.name!r}: it may be recursive")
    return info


def _layout(file: CubinFile, code: list[Section], name: str) -> Layout:
    """Lay out code, banks and variables."""
    image, places, banks = bytearray(), dict[int, int](), list[ConstantBank]()

    def put(section: Section, align: int) -> int:
        image.extend(bytes(-len(image) % align))
        places[section.number] = start = len(image)
        if start + section.nbytes > LOADED_LIMIT_BYTES:
            raise file.fail(f"{section.name} of {section.nbytes} bytes")
        empty = section.kind == NOBITS
        image.extend(bytes(section.nbytes) if empty else file.body(section).data)
        return start

    for section in code:
        put(section, CODE_ALIGN)
    code_bytes = len(image)
    for section in file.sections:
        found = _BANK.fullmatch(section.name)
        if found is None or found[2] not in (None, name) or not section.nbytes:
            continue
        if len(banks) >= MAX_BANKS:
            raise file.fail(f"more than {MAX_BANKS} constant banks")
        banks.append(ConstantBank(int(found[1]), put(section, BANK_ALIGN), section.nbytes))
    if len({bank.number for bank in banks}) != len(banks):
        raise file.fail("two constant banks of one number")
    variables = [file.by_name[name] for name in cubin_code.GLOBALS if name in file.by_name]
    parts = [section for section in variables if section.nbytes]
    if parts:
        image.extend(bytes(-len(image) % PAGE_BYTES))
    data_offset = len(image)
    for section in parts:
        put(section, BANK_ALIGN)
    patches = cubin_code.patches(file, code, places)
    return Layout(bytes(image), code_bytes, places, data_offset, tuple(banks), patches)


def _fixups(file: CubinFile, layout: Layout, code: list[Section]) -> list[Fixup]:
    """Addresses that banks and variables hold."""
    found: list[Fixup] = []
    for number, start in layout.places.items():
        section = file.sections[number]
        if section in code:
            continue
        found.extend(
            _fixup(file, section, start, each, layout) for each in file.relocations(section)
        )
    return found


def _fixup(
    file: CubinFile, section: Section, start: int, relocation: Relocation, layout: Layout
) -> Fixup:
    symbol, at = relocation.symbol, relocation.offset
    if relocation.kind != R_CUDA_64 or symbol.section not in layout.places:
        raise MalformedInput(
            f"cubin: {section.name} has a relocation of kind {relocation.kind} by {symbol.name!r}",
            hint="Only addresses of the cubin's own variables are filled in: no printf, no calls",
        )
    if section.kind == NOBITS or at + ADDRESS_BYTES > section.nbytes:
        raise file.fail(f"a relocation at {at:#x} leaves {section.name}")
    place = start + at
    addend = relocation.addend
    if addend is None:
        addend = int.from_bytes(layout.image[place : place + ADDRESS_BYTES], _ORDER)
    goal = layout.places[symbol.section] + symbol.value + addend
    if not 0 <= goal <= len(layout.image):
        raise file.fail(f"an address of {goal:#x} leaves the image")
    return Fixup(place, "", goal)
