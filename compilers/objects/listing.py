"""A Binary as annotated assembly: labels for jump targets, names for calls and data, the hot loop.

capstone decodes x86-64 and AArch64, LLVM decodes AMD GPUs; what they do not know is shown as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import capstone

from drivers.base.contracts import Binary
from drivers.base.errors import Unsupported

_SHOWN_BYTES = 8


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a listing. `address` is an offset in the image."""

    address: int
    code: bytes
    text: str
    """Mnemonic and operands."""
    target: int | None = None
    """Where a jump or call goes."""
    jump: bool = False
    note: str = ""
    label: str = ""
    hot: bool = False
    """Inside the hot loop: the innermost loop with most nesting, then most vector work."""

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + len(self.code)


def disassemble(binary: Binary) -> list[Instruction]:
    """Every instruction of the code part, in order, annotated.

    Raises: Unsupported for an architecture that cannot be decoded; NotFound.
    """
    decoded = list(_code(binary))
    while decoded and not any(decoded[-1].code):  # each turn drops a line
        decoded.pop()
    stubs = _stubs(binary, decoded)
    lines = [_named(line, stubs) for line in decoded]
    labels = _labels(binary, lines, stubs)
    hot = _hot_loop(lines)
    return [
        replace(
            line,
            label=labels.get(line.address, ""),
            note=line.note or labels.get(line.target if line.target is not None else -1, ""),
            hot=line.address in hot,
        )
        for line in lines
    ]


def _code(binary: Binary) -> Iterator[Instruction]:
    if binary.arch.startswith("gfx"):
        from compilers.amd import disasm as amd_disasm

        return amd_disasm.instructions(binary)
    return _decode(binary, binary.image[: binary.data_offset or len(binary.image)])


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
        if found.id:  # 0 is data that was skipped
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
    """Jump stubs: their address -> the outside function they reach."""
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
    """The number behind # in Arm's assembly; 0 where an offset of zero is left out."""
    return int(text.rpartition("#")[2].rstrip("]"), 0) if "#" in text else 0


def _named(line: Instruction, stubs: dict[int, str]) -> Instruction:
    if line.target is not None and line.target in stubs:
        return replace(line, note=stubs[line.target], jump=False)
    return line


def _labels(binary: Binary, lines: list[Instruction], stubs: dict[int, str]) -> dict[int, str]:
    targets = {line.target for line in lines if line.target is not None}
    places = sorted(targets & {line.address for line in lines} - set(stubs))
    labels = {place: f"L{number}" for number, place in enumerate(places)}
    labels |= {place: f"{name} (stub)" for place, name in stubs.items()}
    entered = any(line.address == binary.entry for line in lines)  # else a descriptor is there
    return labels | {binary.entry if entered or not lines else lines[0].address: binary.name}


def _hot_loop(lines: list[Instruction]) -> range:
    """The addresses of the loop that most of the time is likely spent in."""
    loops = [
        range(line.target, line.end)
        for line in lines
        if line.jump and line.target is not None and line.target <= line.address
    ]
    inner = [
        loop for loop in loops if not any(other != loop and _within(other, loop) for other in loops)
    ]

    def heat(loop: range) -> tuple[int, int, int]:
        depth = sum(_within(loop, other) for other in loops)
        body = [line for line in lines if line.address in loop]
        wide = sum("zmm" in line.text or "ymm" in line.text for line in body)
        return depth, wide, len(body)

    return max(inner, key=heat, default=range(0))


def _within(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def render(lines: Iterable[Instruction]) -> Iterator[str]:
    """The listing as text, a `>` before every line of the hot loop."""
    for line in lines:
        if line.label:
            yield f"{line.label}:"
        mark = ">" if line.hot else " "
        note = f"  ; {line.note}" if line.note else ""
        yield f" {mark} {line.address:6x}  {line.code.hex():<24} {line.text}{note}"
