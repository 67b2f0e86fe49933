"""Machine code of host CPUs as instructions: x86-64 and AArch64, by capstone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import capstone

from compilers.instruction import Instruction
from drivers.base.contracts import Binary
from drivers.base.errors import Unsupported

_SHOWN_BYTES = 8


def instructions(binary: Binary) -> Iterator[Instruction]:
    """Instructions of the code part, with the names of data and of jump stubs' targets.

    Raises: Unsupported for an architecture that cannot be decoded.
    """
    lines = list(_decode(binary, binary.image[: binary.data_offset or len(binary.image)]))
    stubs = _stubs(binary, lines)
    for line in lines:
        name = stubs.get(line.address)
        label = f"{name} (stub)" if name is not None else ""
        yield replace(_named(line, stubs), label=label)


def _decoder(arch: str) -> Any:
    modes = {
        "x86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if arch not in modes:
        raise Unsupported(f"capstone decodes no {arch!r}", hint=f"Known: {', '.join(modes)}")
    decoder = capstone.Cs(*modes[arch])
    decoder.detail = decoder.skipdata = True
    return decoder


def _decode(binary: Binary, code: bytes) -> Iterator[Instruction]:
    names = {fixup.offset: fixup.symbol for fixup in binary.fixups if fixup.symbol}
    for found in _decoder(binary.arch).disasm(code, 0):
        target, jump, note = None, False, ""
        if found.id:  # 0 is skipped data
            jump = found.group(capstone.CS_GRP_JUMP)
            for operand in found.operands:
                if operand.type == capstone.CS_OP_IMM and (
                    jump or found.group(capstone.CS_GRP_CALL) or found.mnemonic == "bl"
                ):
                    target = operand.imm
                place = _relative(found, operand)
                if place is not None:
                    note = _data_note(binary, names, place)
        text = f"{found.mnemonic} {found.op_str}".strip()
        yield Instruction(found.address, bytes(found.bytes), text, target, jump, note)


def _relative(found: Any, operand: Any) -> int | None:
    """The image offset an operand names relative to the instruction (x86 only)."""
    if operand.type != capstone.CS_OP_MEM or found.reg_name(operand.mem.base) != "rip":
        return None
    return int(found.address + found.size + operand.mem.disp)


def _data_note(binary: Binary, names: dict[int, str], place: int) -> str:
    if place in names:
        return f"address of {names[place]}"
    if not binary.data_offset <= place < len(binary.image):
        return f"at {place:#x}"
    value = binary.image[place : place + _SHOWN_BYTES]
    return f"data+{place - binary.data_offset:#x} = {value.hex(' ')}"


def _stubs(binary: Binary, lines: Iterable[Instruction]) -> dict[int, str]:
    """Jump stubs: their address -> the external function they jump to."""
    names = {fixup.offset: fixup.symbol for fixup in binary.fixups if fixup.symbol}
    if binary.arch == "x86_64":
        prefix = "address of "
        return {
            line.address: line.note.removeprefix(prefix)
            for line in lines
            if line.text.startswith("jmp qword ptr [rip") and line.note.startswith(prefix)
        }
    found: dict[int, str] = {}
    window: list[Instruction] = []
    for line in lines:
        window = [*window[-2:], line]
        if line.text == "br x16" and len(window) == 3 and window[0].text.startswith("adrp x16"):
            slot = sum(_immediate(part.text) for part in window[:2])
            found[window[0].address] = names.get(slot, "?")
    return found


def _immediate(text: str) -> int:
    """The number after # in Arm's assembly; 0 where an offset of zero is left out."""
    return int(text.rpartition("#")[2].rstrip("]"), 0) if "#" in text else 0


def _named(line: Instruction, stubs: dict[int, str]) -> Instruction:
    if line.target is not None and line.target in stubs:
        return replace(line, note=stubs[line.target], jump=False)
    return line
