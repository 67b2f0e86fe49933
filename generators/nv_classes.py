"""Tables of NVIDIA's methods and QMDs: `queues/nv/tables`, from NVIDIA/open-gpu-doc's headers.

`python -m generators.nv_classes DOC queues/nv/tables/compute_c7c0.py` prints one of them; DOC is a
checkout of github.com/NVIDIA/open-gpu-doc. Names, offsets and bits are taken, no text.
"""

from __future__ import annotations

import re
import textwrap

from generators.command import run
from generators.source import Generator, Source, Unreadable
from unbound import terminal

NAME = "nv_classes"
FOLDER = "queues/nv/tables"
_DEFINE = r"#define\s+{prefix}_(\w+?)(\(i\))?\s+(\S.*)$"
_METHOD = re.compile(r"\(?0x([0-9a-fA-F]{4,8})\)?(?:\s*//.*)?$")
_METHODS = re.compile(r"\(0x([0-9a-fA-F]{4,8})\+\(i\)\*(\d+)\)$")
_BITS = re.compile(r"(\d+):(\d+)(?:\s*//.*)?$")
_QMD = re.compile(r"MW\((\d+):(\d+)\)$")
_QMD_ROW = re.compile(r"MW\(\((\d+)\+\(i\)\*(\d+)\):\((\d+)\+\(i\)\*\d+\)\)$")
_UNWANTED = re.compile(r"(DMA|GP_ENTRY[01]?_?)_|TYPEDEF|NUMBER_OF|NOTIF|ERROR_")
_CLASSES = {
    "host_c56f": "classes/host/clc56f.h",
    **{f"compute_{name}": f"classes/compute/cl{name}.h" for name in
       ("c5c0", "c7c0", "cbc0", "cec0")},
    **{f"copy_{name}": f"classes/dma-copy/cl{name}.h" for name in
       ("c5b5", "c7b5", "c8b5", "cab5")},
}  # fmt: skip
_QMDS = {"02_03": "c5c0", "03_00": "c7c0", "04_00": "cbc0", "05_00": "cec0"}
_WIDTH = 96


def _defines(text: str, prefix: str) -> list[tuple[str, bool, str]]:
    found = re.findall(_DEFINE.format(prefix=prefix), text, re.MULTILINE)
    return [(name, bool(row), value.strip()) for name, row, value in found]


def _methods(source: Source, path: str) -> list[str]:
    """`offset name [xSTRIDE] field hi:lo ...`, a line for each method, in order of offsets."""
    prefix = "NV" + path.rsplit("/cl", 1)[-1].removesuffix(".h").upper()
    rows: dict[str, tuple[int, str, list[str]]] = {}
    defines = _defines(source.read(path), prefix)
    with_bits = [name for name, _, value in defines if _BITS.match(value)]
    for name, _, value in defines:
        if _UNWANTED.match(name):
            continue
        one, many, part = _METHOD.match(value), _METHODS.match(value), _BITS.match(value)
        owner = next((key for key in _prefixes(name) if key in rows), None)
        if many:
            rows[name] = int(many[1], 16), f" x{many[2]}", []
        elif part and owner is not None:
            rows[owner][2].append(f"{name[len(owner) + 1 :]} {part[1]}:{part[2]}")
        elif one and (owner is None or any(bits.startswith(f"{name}_") for bits in with_bits)):
            rows[name] = int(one[1], 16), "", []
    ordered = sorted(rows.items(), key=lambda row: row[1][0])
    return [
        " ".join([f"{at:04x} {name}{stride}", *fields])
        for name, (at, stride, fields) in ordered
        if fields or name in _BARE
    ]


_BARE = frozenset({"NO_OPERATION", "WAIT_FOR_IDLE"})


def _prefixes(name: str) -> list[str]:
    """The names of methods that a field of this name can belong to, the longest first."""
    parts = name.split("_")
    return ["_".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _qmd(source: Source, version: str) -> list[str]:
    """`name [xSTRIDE] hi:lo`, a line for each field, in order of their bits."""
    chip = _QMDS[version]
    path, prefix = f"classes/compute/cl{chip}qmd.h", f"NV{chip.upper()}_QMDV{version}"
    rows: list[tuple[int, str]] = []
    for name, _, value in _defines(source.read(path), prefix):
        if one := _QMD.match(value):
            rows.append((int(one[2]), f"{name} {one[1]}:{one[2]}"))
        elif row := _QMD_ROW.match(value):
            rows.append((int(row[3]), f"{name} x{row[2]} {row[1]}:{row[3]}"))
    return [text for _, text in sorted(rows)]


def make(source: Source, output: str) -> str:
    """The text of one table. Raises: Unreadable."""
    name = OUTPUTS[output]
    version = name.removeprefix("qmd_")
    rows = _qmd(source, version) if version in _QMDS else _methods(source, _CLASSES[name])
    if not rows:
        raise Unreadable(f"{output}: the header has nothing that belongs there")
    wrapped = [line for row in rows for line in textwrap.wrap(row, _WIDTH, subsequent_indent=" ")]
    heads = [f"src: open-gpu-doc {path}, sha256\n  {digest}" for path, digest in
             source.digests.items()]  # fmt: skip
    lines = [
        f'"""Names and bits of {"QMD " + version if version in _QMDS else name}: data.\n',
        f"made by: python -m generators.{NAME} DOC {output}", *heads, '"""\n',
        "from __future__ import annotations\n", 'TABLE = """', *wrapped, '"""', "",
    ]  # fmt: skip
    return "\n".join(lines)


OUTPUTS = {
    f"{FOLDER}/{name}.py": name for name in (*_CLASSES, *(f"qmd_{version}" for version in _QMDS))
}
GENERATOR = Generator(NAME, OUTPUTS, make)

if __name__ == "__main__":
    terminal.run(lambda _: run(GENERATOR))
