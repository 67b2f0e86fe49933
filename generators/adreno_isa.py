"""The board's table of ir3 encodings, from Mesa's isaspec files: `python -m generators.adreno_isa`.

Inheritance is resolved here: an encoding lists all its cases, its own first. Encodings of other
generations than 6 and 7 are left out. boards/qcom/isa/table.py says what the members mean.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from generators.adreno_expression import prefix_form
from generators.source import Source, Unreadable
from unbound import terminal

OUTPUT: Final = "boards/qcom/isa/tables/ir3.json"
_RELEASE: Final = "Mesa 25.0.7"
_ISA: Final = "src/freedreno/isa/"
_FIRST_GEN, _LAST_GEN = 600, 799
_SPACES: Final = (
    (r"c<a0\.x", "c<a0.x>", "OFFSET"), (r"r<a0\.x", "r<a0.x>", "OFFSET"),
    (r"^r\{GPR\}|^[ap]0\.\{SWIZ\}", "r", "GPR"), (r"^c\{GPR\}", "c", "GPR"),
    (r"c\{CONST\}\.", "c", "CONST"), (r"\{IMMED\}", "#", "IMMED"),
    (r"^\{OFFSET\}$", "c", "OFFSET"), (r"^a1\.x\{OFFSET\}", "c<a1.x>", "OFFSET"),
)  # fmt: skip
"""What the text of an operand says: where the operand lives, and which field is its number."""
_DEPTHS: Final = {"sha256": 1, "enums": 1, "expressions": 1, "sets": 2, "cases": 1}


@dataclass
class _Isa:
    """Everything of the files, by name; a name may have one encoding for each generation."""

    enums: dict[str, dict[str, str]] = field(default_factory=dict)
    expressions: dict[str, object] = field(default_factory=dict)
    bitsets: dict[str, list[Element]] = field(default_factory=dict)
    cases: list[dict[str, object]] = field(default_factory=list)
    made: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class _Pattern:
    """Bits that an encoding fixes: which, to what, and which of them are unused."""

    mask: int = 0
    match: int = 0
    unused: int = 0

    def add(self, element: Element) -> None:
        low, high = _bits(element)
        digits = _text(element)
        self.mask |= ((1 << high + 1 - low) - 1) << low
        self.match |= int(digits.replace("x", "0"), 2) << low
        self.unused |= int(digits.replace("1", "0").replace("x", "1"), 2) << low


def _bits(element: Element) -> tuple[int, int]:
    pos = element.get("pos")
    low, high = (pos, pos) if pos else (element.get("low"), element.get("high"))
    return int(low or 0), int(high or 0)


def _text(element: Element) -> str:
    return (element.text or "").strip()


def _tree(text: str) -> Element:
    builder, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(text, True)
    return builder.close()


def _read(source: Source, name: str, isa: _Isa) -> None:
    root = _tree(source.read(_ISA + name))
    for other in root.findall("import"):
        _read(source, other.attrib["file"], isa)
    for one in root.findall("expr"):
        isa.expressions[one.attrib["name"]] = prefix_form(_text(one))
    for one in root.findall("enum"):
        isa.enums[one.attrib["name"]] = {
            value.attrib["val"]: value.attrib["display"] for value in one.findall("value")
        }
    for one in root.findall("bitset"):
        isa.bitsets.setdefault(one.attrib["name"], []).append(one)


def _expression(element: Element, isa: _Isa) -> str:
    inner = element.find("expr")
    if inner is None:
        return element.attrib["expr"]
    form = prefix_form(_text(inner))
    name = json.dumps(form)
    isa.expressions[name] = form
    return name


def _fields(element: Element, isa: _Isa) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for one in [*element.findall("derived"), *element.findall("field")]:
        made: dict[str, object] = {"type": one.attrib["type"]}
        if one.tag == "derived":
            made["is"] = _expression(one, isa)
            made["bits"] = [0, int(one.get("width", "1")) - 1]
        else:
            made["bits"] = list(_bits(one))
        if "display" in one.attrib:
            made["show"] = one.attrib["display"].strip()
        passed = {
            param.get("as", param.attrib["name"]): param.attrib["name"]
            for param in one.findall("param")
        }
        if passed:
            made["pass"] = passed
        found[one.attrib["name"]] = made
    return found


def _case(element: Element, isa: _Isa, condition: str | None) -> dict[str, object]:
    case: dict[str, object] = {}
    if condition is not None:
        case["if"] = condition
    display = element.find("display")
    if display is not None:
        case["text"] = _text(display)
        for pattern, space, number in _SPACES:
            if re.search(pattern, _text(display)):
                case |= {"space": space, "number": number}
                break
    fields = _fields(element, isa)
    if fields:
        case["fields"] = fields
    asserts = [[*_bits(one), int(_text(one), 2)] for one in element.findall("assert")]
    if asserts:
        case["asserts"] = asserts
    return case


def _own_cases(element: Element, isa: _Isa) -> list[int]:
    if id(element) not in isa.made:
        cases = [_case(one, isa, _expression(one, isa)) for one in element.findall("override")]
        cases.append(_case(element, isa, None))
        isa.made[id(element)] = list(range(len(isa.cases), len(isa.cases) + len(cases)))
        isa.cases += cases
    return isa.made[id(element)]


def _line(element: Element, isa: _Isa) -> list[Element]:
    """The encoding and what it extends, the root last."""
    line = [element]
    while "extends" in line[-1].attrib:
        line.append(isa.bitsets[line[-1].attrib["extends"]][0])
    return line


def _generations(line: list[Element]) -> tuple[int, int]:
    limits = [one for element in line for one in element.findall("gen")]
    lows = [int(one.attrib["min"]) for one in limits if "min" in one.attrib]
    highs = [int(one.attrib["max"]) for one in limits if "max" in one.attrib]
    return max([_FIRST_GEN, *lows]), min([_LAST_GEN, *highs])


def _destinations(line: list[Element]) -> list[str]:
    """Fields that Mesa's encoder fills from an instruction's destinations; none: by their name."""
    maps: dict[str, str] = {}
    for element in line:
        for one in element.findall("encode/map"):
            maps.setdefault(one.attrib["name"], _text(one))
    return sorted(name for name, text in maps.items() if re.fullmatch(r"src->dsts\[\d\]", text))


def _leaf(element: Element, isa: _Isa) -> dict[str, object] | None:
    line = _line(element, isa)
    first, last = _generations(line)
    if first > last:
        return None
    pattern = _Pattern()
    for part in line:
        for one in part.findall("pattern"):
            pattern.add(one)
    made: dict[str, object] = {
        "name": element.get("displayname", element.attrib["name"]),
        "generations": [first, last], "mask": f"{pattern.mask:x}", "match": f"{pattern.match:x}",
        "unused": f"{pattern.unused:x}",
        "cases": [case for part in line for case in _own_cases(part, isa)],
    }  # fmt: skip
    if line[-1].attrib["name"] == "#instruction":
        made["destinations"] = _destinations(line)
    return made


def _sets(isa: _Isa) -> dict[str, list[dict[str, object]]]:
    parents = {one.get("extends") for each in isa.bitsets.values() for one in each}
    sets: dict[str, list[dict[str, object]]] = {}
    for name, elements in isa.bitsets.items():
        for element in elements if name not in parents else []:
            made = _leaf(element, isa)
            if made is not None:
                sets.setdefault(_line(element, isa)[-1].attrib["name"], []).append(made)
    return sets


def _lines(value: object, depth: int) -> str:
    """JSON with a line for each entry of the outer levels."""
    if depth and isinstance(value, dict):
        inner = (f"{json.dumps(name)}: {_lines(one, depth - 1)}" for name, one in value.items())
        return "{\n" + ",\n".join(inner) + "\n}"
    if depth and isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]"
    return json.dumps(value)


def make(source: Source) -> str:
    """The text of the table. Raises: Unreadable."""
    isa = _Isa()
    _read(source, "ir3.xml", isa)
    members = {
        "made by": f"python -m generators.adreno_isa MESA > {OUTPUT}",
        "sha256": {f"{_RELEASE}, {path}": digest for path, digest in source.digests.items()},
        "enums": isa.enums, "expressions": isa.expressions, "sets": _sets(isa), "cases": isa.cases,
    }  # fmt: skip
    rows = (f'"{name}": {_lines(value, _DEPTHS.get(name, 0))}' for name, value in members.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m generators.adreno_isa", description=__doc__)
    parser.add_argument("mesa", type=Path, help="Mesa's source, see tests/references.py")
    try:
        sys.stdout.write(make(Source(parser.parse_args().mesa)))
    except (Unreadable, KeyError, expat.ExpatError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
