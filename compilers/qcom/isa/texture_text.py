"""Text of category 5: modifiers after the name, and what follows the destination."""

from __future__ import annotations

import re
from typing import Final

from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.names import COMPONENTS, parse, register
from compilers.qcom.isa.slots import Draft
from compilers.qcom.isa.tables import form
from compilers.qcom.isa.texture import (
    IMMEDIATE_MODE,
    USES_A1,
    Descriptor,
    is_bindless,
    is_indirect,
)
from compilers.qcom.isa.tokens import TYPES, Token

_FLAGS: Final = (("3d", ".3d"), ("a", ".a"), ("o", ".o"), ("p", ".p"), ("s", ".s"), ("v", ".v"))
_UNIFORM: Final = frozenset({0, 1, 5})
_A1_IMMEDIATE: Final = 7
INDEX: Final = "#{index}"
"""In the place of what `index_text` writes."""
_UNTYPED: Final = ("dsxpp.1", "dsypp.1")
_BY_WORDS: Final = {
    (False, True, False): 0, (True, True, True): 1, (True, False, False): 2,
    (True, False, True): 3, (False, False, False): 4, (True, True, False): 5,
}  # fmt: skip
"""Mode of an index in a register: bindless, uniform, with a1.x."""


def _look(insn: Insn) -> str:
    mode = insn.fields.get("desc")
    found = "".join(text for name, text in _FLAGS if name in insn.flags)
    if mode is not None:
        if mode < IMMEDIATE_MODE:
            found += ".s2en" + (".uniform" if mode in _UNIFORM else ".nonuniform")
        if is_bindless(mode):
            found += f".base{insn.fields.get('base', 0)}"
    return found + (".1d" if insn.op == "isam" and "inv1d" not in insn.flags else "")


def _take_look(text: str, draft: Draft) -> None:
    words = text.split(".")[1:]
    draft.flags |= {name for name, mark in _FLAGS if mark[1:] in words}
    if "1d" not in words:
        draft.flags.add("inv1d")
    base = next((word for word in words if word.startswith("base")), None)
    if base is not None:
        draft.fields |= {"base": int(base[4:]), "desc": IMMEDIATE_MODE}
    if "s2en" in words:
        draft.fields["desc"] = _BY_WORDS[base is not None, "uniform" in words, False]


def _sampled(insn: Insn) -> str:
    mask = insn.fields.get("mask", 0)
    kind = "" if insn.op in _UNTYPED else f"({TYPES[insn.fields.get('type', 0)]})"
    return kind + "(" + "".join(c for i, c in enumerate(COMPONENTS) if mask >> i & 1) + ")"


def _take_sampled(text: str, draft: Draft) -> None:
    *kind, mask = re.findall(r"\((\w*)\)", text)
    if kind:
        draft.fields["type"] = TYPES.index(kind[0])
    draft.fields["mask"] = sum(1 << COMPONENTS.index(letter) for letter in mask)


def _coordinates(insn: Insn) -> str:
    plain = insn.srcs[:-1] if is_indirect(insn) else insn.srcs
    parts = [register(one.number, one.half) for one in plain]
    if insn.fields.get("off"):
        parts[-1] += f"+{insn.fields['off']}"
    mode = insn.fields.get("desc")
    if is_indirect(insn):
        parts.append(register(insn.srcs[-1].number, insn.srcs[-1].half))
    elif mode == _A1_IMMEDIATE:
        parts.append(INDEX)
    else:
        (kinds,) = (s for s in form(insn.op, 6).slots if isinstance(s, Descriptor))
        parts += [f"s#{insn.fields.get('samp', 0)}"] if kinds.sampler else []
        parts += [f"t#{insn.fields.get('tex', 0)}"] if kinds.texture else []
    parts += ["a1.x"] if mode in USES_A1 else []
    return "".join(f", {part}" for part in parts)


def _take_coordinates(text: str, draft: Draft) -> None:
    parts = [part.strip() for part in text.split(",")[1:]]
    mode = draft.fields.get("desc")
    if parts and parts[-1] == "a1.x":
        parts.pop()
        if mode == IMMEDIATE_MODE:
            draft.fields["desc"] = _A1_IMMEDIATE
        else:
            draft.fields["desc"] = {5: 1, 2: 3}.get(mode or 0, 1)
    place = 0
    for part in parts:
        if part[:2] in ("s#", "t#"):
            wide = draft.fields.get("desc") == _A1_IMMEDIATE
            name = "index" if wide else "samp" if part[0] == "s" else "tex"
            draft.fields[name] = int(part[2:])
            continue
        name, plus, off = part.partition("+")
        draft.operands[f"src{place}"] = parse(name)
        draft.fields |= {"off": int(off)} if plus else {}
        place += 1


def index_text(insn: Insn, generation: int) -> str:
    """The immediate beside a1.x: of a sampler in generation 6, of a texture in 7."""
    (kinds,) = (s for s in form(insn.op, generation).slots if isinstance(s, Descriptor))
    if not kinds.indexed:
        return ""
    return f", {'s' if generation < 7 else 't'}#{insn.fields.get('index', 0)}"


TEXTURE_TOKENS: Final = {
    "look": Token(r"[.a-z0-9]*", _look, _take_look),
    "sampled": Token(r"(?:\(\w+\))?\([xyzw]*\)", _sampled, _take_sampled),
    "coordinates": Token(r"(?:, .+)?", _coordinates, _take_coordinates),
}
