"""The code of a dispatch: instructions taken apart when first reached, and kept."""

from __future__ import annotations

from dataclasses import replace

from boards.qcom.isa.decode import decode
from boards.qcom.isa.instruction import Instruction
from boards.qcom.isa.scope import UnknownInstruction
from boards.qcom.isa.text import disassemble
from boards.qcom.wave import alias
from boards.qcom.wave.bind import Bound, beyond, bind
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.dispatch import Dispatch
from boards.qcom.wave.hazards import Hazards, Wants
from boards.qcom.wave.state import A1, slots_of

WORD_BYTES = 8
_KEPT = 256
_TEXTURE = 5
_CATEGORY_SHIFT = 61
"""Category 0 has the branches."""
_SEVENTH = 7
_A1 = frozenset(slots_of(A1, half=False))


class Illegal(Exception):
    """An instruction that cannot be run."""

    def __init__(self, pc: int, text: str, why: str) -> None:
        super().__init__(f"{text} at {pc:#x}: {why}")
        self.pc, self.text, self.why = pc, text, why


class Program:
    """Instructions by their index."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._bound: dict[int, Bound] = {}
        self._targets = _targets(dispatch)
        """Indices that branches lead to."""
        early = dispatch.early_preamble and dispatch.generation >= _SEVENTH
        self._early_end = _preamble_end(dispatch) if early else 0
        self.hazards = Hazards(dispatch.generation)
        self.beyond: dict[int, str] = {}
        """By index: a register that the instruction has not been given."""

    def at(self, index: int) -> Bound:
        """The instruction of this index. Raises: Illegal."""
        found = self._bound.get(index)
        if found is None:
            found = self._bind(index)
            self._bound[index] = found = replace(found, wants=self._placed(index, found.wants))
            missing = beyond(found, self._dispatch)
            if missing:
                self.beyond[index] = missing
        return found

    def _placed(self, index: int, wants: Wants) -> Wants:
        """What an instruction wants for the place where it is.

        In an early preamble of generation 7 a1.x is waited for by (ss), not by time.
        # src: Mesa 25.0.7, ir3_legalize.c, in_early_preamble
        """
        if index in self._targets:
            wants = replace(wants, target=True)
        if index < self._early_end and _A1 & {slot for slot, _, _ in wants.writes}:
            wants = replace(wants, result="ss")
        return wants

    def _bind(self, index: int) -> Bound:
        start, code = index * WORD_BYTES, self._dispatch.code
        if not 0 <= start <= len(code) - WORD_BYTES:
            raise Illegal(start, "(fetch)", f"behind the {len(code)} bytes of the code")
        word = int.from_bytes(code[start : start + WORD_BYTES], "little")
        try:
            inst = decode(word, self._dispatch.generation)
            return bind(
                inst, self._dispatch, self._aliases(index) if inst.category == _TEXTURE else ()
            )
        except UnknownInstruction as error:
            raise Illegal(start, f"{word:016x}", str(error)) from None
        except NotModelled as error:
            raise Illegal(start, self.text(index), f"not modelled: {error}") from None

    def _aliases(self, index: int) -> list[Instruction]:
        """The entries that stand before a texture instruction."""
        found: list[Instruction] = []
        while index > len(found) and len(found) < alias.MOST:
            before = self.at(index - 1 - len(found)).inst
            if not alias.is_entry(before):
                break
            found.append(before)
        return found

    def text(self, index: int) -> str:
        """The instruction as Mesa prints it."""
        start = index * WORD_BYTES
        word = int.from_bytes(self._dispatch.code[start : start + WORD_BYTES], "little")
        try:
            return disassemble(word, self._dispatch.generation)
        except UnknownInstruction:
            return f"{word:016x}"

    def instruction(self, index: int) -> Instruction:
        """As decoded. Raises: Illegal."""
        return self.at(index).inst


def _preamble_end(dispatch: Dispatch) -> int:
    """The index of shpe; 0: there is no preamble."""
    for index in range(len(dispatch.code) // WORD_BYTES):
        start = index * WORD_BYTES
        word = int.from_bytes(dispatch.code[start : start + WORD_BYTES], "little")
        if word >> _CATEGORY_SHIFT:
            continue
        try:
            if decode(word, dispatch.generation).op == "shpe":
                return index
        except UnknownInstruction:
            continue
    return 0


def _targets(dispatch: Dispatch) -> frozenset[int]:
    """Where branches of the code lead; what cannot be decoded leads nowhere."""
    found = set()
    for index in range(len(dispatch.code) // WORD_BYTES):
        start = index * WORD_BYTES
        word = int.from_bytes(dispatch.code[start : start + WORD_BYTES], "little")
        if word >> _CATEGORY_SHIFT:
            continue
        try:
            target = decode(word, dispatch.generation).target
        except UnknownInstruction:
            continue
        if target:
            found.add(index + target)
    return frozenset(found)


_programs: dict[tuple[object, ...], Program] = {}


def program_of(dispatch: Dispatch) -> Program:
    """The program of this code under these registers."""
    d = dispatch
    key = (d.code, d.generation, d.scalar_alu, d.full_registers, d.half_registers, d.merged,
           d.early_preamble)  # fmt: skip
    found = _programs.pop(key, None) or Program(dispatch)
    _programs[key] = found
    if len(_programs) > _KEPT:
        del _programs[next(iter(_programs))]
    return found
