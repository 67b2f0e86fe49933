"""Parts of an instruction's text: how each is written, and what it says when it is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from compilers.qcom.isa import memory_bindless
from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.instruction import HALF_TYPES, Cond, Insn, Type
from compilers.qcom.isa.memory import ATOMICS
from compilers.qcom.isa.names import (
    COMPONENTS,
    bare,
    marked,
    marked_third,
    moved,
    parse,
    parse_moved,
    register,
)
from compilers.qcom.isa.operand import Kind, Operand
from compilers.qcom.isa.slots import Draft, operand

TYPES: Final = tuple(one.name.lower() for one in Type)
_U64: Final = (*TYPES[:6], "u64", TYPES[7])
_ROUNDS: Final = ("", "(even)", "(pos_infinity)", "(neg_infinity)")
_OPERAND: Final = r"[^,\[\]]+?"
WITHOUT_H: Final = frozenset({"ldl", "ldlw", "ldlv", "stl", "stlw", "stp"})
"""Mesa writes their half registers as full ones."""
LOCAL_ATOMICS: Final = frozenset(f"atomic.{name}" for name in ATOMICS)
"""The same."""


@dataclass(frozen=True, slots=True)
class Token:
    """One `{name}` of a form's text."""

    pattern: str
    show: Callable[[Insn], str]
    take: Callable[[str, Draft], None]


def _field(name: str, *, bias: int = 0) -> Token:
    def take(text: str, draft: Draft) -> None:
        draft.fields[name] = int(text, 0)

    return Token(r"-?(?:0x[0-9a-fA-F]+|\d+)", lambda insn: str(insn.fields.get(name, bias)), take)


def _choice(name: str, values: tuple[str, ...]) -> Token:
    """A field by the names of its values; those without one have no place in a text."""
    pattern = "|".join(re.escape(one) for one in sorted(set(values), key=len, reverse=True))

    def show(insn: Insn) -> str:
        value = insn.fields.get(name, 0)
        return values[value] if value < len(values) else "?"

    def take(text: str, draft: Draft) -> None:
        draft.fields[name] = values.index(text)

    return Token(pattern, show, take)


def _offset(name: str) -> Token:
    """+5, -176, or nothing."""

    def show(insn: Insn) -> str:
        value = insn.fields.get(name, 0)
        return f"{value:+d}" if value else ""

    def take(text: str, draft: Draft) -> None:
        draft.fields[name] = int(text or "0", 0)

    return Token(r"(?:[+-](?:0x[0-9a-fA-F]+|\d+))?", show, take)


def _operand(name: str) -> Token:
    def show(insn: Insn) -> str:
        one = operand(insn, name)
        if insn.op in WITHOUT_H or insn.op in LOCAL_ATOMICS:
            one = replace(one, half=False)
        if "ei" in insn.flags and name == "dst":
            return "(ei)" + bare(one)
        return marked(one)

    def take(text: str, draft: Draft) -> None:
        if text.startswith("(ei)"):
            draft.flags.add("ei")
            text = text[4:]
        draft.operands[name] = parse(text)

    return Token(_OPERAND, show, take)


def _moved() -> Token:
    def take(text: str, draft: Draft) -> None:
        draft.operands["src0"] = parse_moved(text, draft.fields["src_type"])

    return Token(
        r".+?", lambda insn: moved(operand(insn, "src0"), insn.fields.get("src_type", 0)), take
    )


def third(name: str) -> Token:
    """A source of category 3."""
    plain = _operand(name)
    return Token(plain.pattern, lambda insn: marked_third(operand(insn, name)), plain.take)


def _const_target() -> Token:
    def show(insn: Insn) -> str:
        off = insn.fields.get("dst_off", 0)
        if not insn.fields.get("a1"):
            return str(off)
        return f"a1.x+{off}" if off else "a1.x"

    def take(text: str, draft: Draft) -> None:
        first, _, off = text.partition("+")
        if first == "a1.x":
            draft.fields |= {"a1": 1, "dst_off": int(off or "0", 0)}
        else:
            draft.fields["dst_off"] = int(first, 0)

    return Token(r"[a-z0-9.+]+", show, take)


def _scaled() -> Token:
    """Index of ldg.a and stg.a in generation 6: +(r1.z+1)<<2, or +r1.x<<4+3<<2."""
    form = re.compile(r"\+\((\w+\.\w)(?:\+(\d+))?\)<<(\d+)|\+(\w+\.\w)<<(\d+)(?:\+(\d+))?<<2")

    def show(insn: Insn) -> str:
        off, shift = insn.fields.get("off", 0), insn.fields.get("shift", 0)
        plus, index = f"+{off}" if off else "", register(operand(insn, "src1").number)
        if shift:
            return f"+{index}<<{shift + 2}{plus}<<2"
        return f"+({index}{plus})<<2"

    def take(text: str, draft: Draft) -> None:
        found = form.fullmatch(text)
        if found is None:
            raise refused(f"no index: {text!r}")
        near = found[1] is not None
        index, off = (found[1], found[2]) if near else (found[4], found[6])
        shift = int(found[3] if near else found[5]) - 2
        draft.operands["src1"] = parse(index)
        draft.fields |= {"off": int(off or "0"), "shift": shift}

    return Token(r"\+[^\]]+", show, take)


def _inverted(name: str) -> Token:
    def take(text: str, draft: Draft) -> None:
        draft.fields[name] = int(bool(text))

    return Token("!?", lambda insn: "!" if insn.fields.get(name) else "", take)


def _base() -> Token:
    def show(insn: Insn) -> str:
        return f".base{insn.fields.get('base', 0)}" if insn.fields.get("bindless") else ""

    def take(text: str, draft: Draft) -> None:
        if text:
            draft.fields |= {"bindless": 1, "base": int(text[5:])}

    return Token(r"(?:\.base\d)?", show, take)


def _power(name: str, start: int) -> Token:
    """start << value: .w8, .w128."""

    def take(text: str, draft: Draft) -> None:
        draft.fields[name] = (int(text) // start).bit_length() - 1

    return Token(r"\d+", lambda insn: str(start << insn.fields.get(name, 0)), take)


def _lanes() -> Token:
    def take(text: str, draft: Draft) -> None:
        draft.fields["lanes"] = int(text) // 32 - 1

    return Token(r"\d+", lambda insn: str(32 * insn.fields.get("lanes", 0) + 32), take)


def _ways() -> Token:
    names = memory_bindless.SHUFFLES

    def take(text: str, draft: Draft) -> None:
        draft.fields["way"] = next(key for key, value in names.items() if value == text)

    return Token(
        "|".join(names.values()), lambda insn: names.get(insn.fields.get("way", 0), "?"), take
    )


def _flag(name: str, text: str) -> Token:
    def take(found: str, draft: Draft) -> None:
        draft.flags |= {name} if found else set()

    return Token(
        f"(?:{re.escape(text)})?", lambda insn: text if name in insn.flags else "", take
    )  # fmt: skip


def _types() -> Token:
    one = "|".join(sorted(TYPES, key=len, reverse=True))

    def show(insn: Insn) -> str:
        return TYPES[insn.fields.get("src_type", 0)] + TYPES[insn.fields.get("dst_type", 0)]

    def take(text: str, draft: Draft) -> None:
        for cut in range(2, len(text)):
            if text[:cut] in TYPES and text[cut:] in TYPES:
                draft.fields["src_type"] = TYPES.index(text[:cut])
                draft.fields["dst_type"] = TYPES.index(text[cut:])

    return Token(f"(?:{one})(?:{one})", show, take)


def _alias_type() -> Token:
    """f32, b16: what immediates are written as, and the width of both operands."""

    def show(insn: Insn) -> str:
        narrow = operand(insn, "dst").half
        return ("b" if insn.fields.get("integer") else "f") + ("16" if narrow else "32")

    def take(text: str, draft: Draft) -> None:
        draft.fields["integer"] = int(text[0] == "b")

    return Token("[fb](?:16|32)", show, take)


def _alias_value() -> Token:
    def show(insn: Insn) -> str:
        one = operand(insn, "src0")
        if one.kind is not Kind.IMMEDIATE:
            return bare(one)
        if insn.fields.get("integer"):
            return f"{'h' if one.half else ''}(0x{one.number:x})"
        return moved(one, Type.F16 if one.half else Type.F32)

    def take(text: str, draft: Draft) -> None:
        narrow = draft.operands["dst"].half
        if draft.fields["integer"]:
            draft.operands["src0"] = replace(parse(text), half=narrow)
        else:
            draft.operands["src0"] = parse_moved(text, Type.F16 if narrow else Type.F32)

    return Token(".+", show, take)


def half_by_type(draft: Draft, name: str) -> None:
    """Give an operand that is written without h the width of its type."""
    one = draft.operands.get(name)
    if one is not None and draft.fields.get("type", 1) in HALF_TYPES and one.kind is Kind.GPR:
        draft.operands[name] = Operand(Kind.GPR, one.number, half=True)


TOKENS: Final = {
    **{name: _operand(name) for name in ("dst", "dst1", "dst2", "dst3")},
    **{f"src{place}": _operand(f"src{place}") for place in range(4)},
    **{name: _field(name) for name in ("target", "index", "offset", "src")},
    **{name: _field(name, bias=1) for name in ("size", "count", "d")},
    "comp1": _choice("comp1", tuple(COMPONENTS)), "comp2": _choice("comp2", tuple(COMPONENTS)),
    "inv1": _inverted("inv1"), "inv2": _inverted("inv2"),
    "cond": _choice("cond", tuple(one.name.lower() for one in Cond)),
    "type": _choice("type", TYPES), "types": _types(), "round": _choice("round", _ROUNDS),
    "moved": _moved(), "off": _offset("off"), "plus": _offset("off"), "off_plain": _field("off"),
    "dst_off": _const_target(), "scaled": _scaled(), "base": _base(), "u": _flag("u", ".u"),
    "typed": _choice("typed", ("untyped", "typed")),
    "mode": _choice("mode", memory_bindless.MODES), "lanes": _lanes(), "way": _ways(),
    "alias_type": _alias_type(), "alias_value": _alias_value(), "table": _field("table"),
    "scope": _choice("scope", ("tex", "rt", "mem")),
    "cluster": _power("w", 2), "long": _choice("long", (".s", ".l")),
    "all": _choice("all", (".shr", ".all")), "sign": _choice("sign", (".unsigned", ".mixed")),
    "pack": _choice("pack", (".low", ".high")),
    **{name: _choice(name, ("", "." + name)) for name in "wrlg"},
}  # fmt: skip
WIDE_TYPE: Final = _choice("type", _U64)
"""Of atomics through descriptors or addresses."""
