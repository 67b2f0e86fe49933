"""Machine code of NVIDIA GPUs as text, by the board's own decoder: no other program is needed.

python -m boards.nv.listing kernel.cubin
python -m boards.nv.listing kernel.cubin --kernel add
python -m boards.nv.listing code.bin --arch sm_86

A line has the offset, the control word and the instruction. Of the control word: stall cycles, Y
for a yield, W and R with the number of a write or read barrier, and barriers that are waited for.
A dash stands for a word that the tables do not have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from boards.machine.elf import Elf
from boards.nv.isa.control import WAIT_BITS, Control
from boards.nv.isa.decode import WORD_BYTES, UnknownInstruction
from boards.nv.isa.table import NoTable, architectures, table
from boards.nv.isa.text import word_text
from unbound import terminal

_ELF_MAGIC = b"\x7fELF"
_TEXT = ".text."
_VERSION_AT, _NEW_VERSION, _SHIFT = 8, 8, 8
"""# src: cubins of nvrtc 13.5: EI_ABIVERSION 8 has the architecture in bits 8 to 15 of e_flags"""
_MOST_BYTES = 64 << 20


def control_text(control: Control) -> str:
    """Stall, yield, barriers and what is waited for, in columns."""
    write = "-" if control.write_barrier is None else f"W{control.write_barrier}"
    read = "-" if control.read_barrier is None else f"R{control.read_barrier}"
    waits = "".join(str(n) if control.wait >> n & 1 else "." for n in range(WAIT_BITS))
    return f"{control.stall:>2} {'Y' if control.yields else '-'} {write:<2} {read:<2} {waits}"


def texts(code: bytes, arch: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each instruction. Raises: NoTable."""
    known = _known(arch)
    table(known)
    for at, word in _words(code):
        try:
            yield at, word_text(word, known, at)
        except UnknownInstruction:
            yield at, f"- {word:032x}"


def lines(code: bytes, arch: str) -> Iterator[str]:
    """The listing of code. Raises: NoTable."""
    for (_, word), (at, shown) in zip(_words(code), texts(code, arch), strict=True):
        yield f"{at:04x}  {control_text(Control.of(word))}  {shown}"


def _words(code: bytes) -> Iterator[tuple[int, int]]:
    for at in range(0, len(code) - WORD_BYTES + 1, WORD_BYTES):
        yield at, int.from_bytes(code[at : at + WORD_BYTES], "little")


def arch_of(blob: bytes, flags: int) -> str:
    """The architecture of a cubin, with the letter of a table that is for it alone."""
    number = flags >> (_SHIFT if blob[_VERSION_AT] == _NEW_VERSION else 0) & 0xFF
    return _known(f"sm_{number}")


def _known(arch: str) -> str:
    """The table of an architecture, where one with a letter is the only one."""
    return f"{arch}a" if arch not in architectures() and f"{arch}a" in architectures() else arch


def functions(blob: bytes) -> Iterator[tuple[str, str, bytes]]:
    """(architecture, name, code) of each function of a cubin. Raises: ValueError."""
    file = Elf(blob)
    arch = arch_of(blob, file.flags)
    for section in file.within([one for one in file.sections if one.name.startswith(_TEXT)]):
        yield arch, section.name.removeprefix(_TEXT), section.view.tobytes()


def listing(blob: bytes, arch: str, kernel: str) -> Iterator[str]:
    """All of a file. Raises: NoTable; ValueError for a file that is neither."""
    if not blob.startswith(_ELF_MAGIC):
        if not arch:
            raise ValueError("it is not a cubin. For raw code, give --arch")
        yield from lines(blob, arch)
        return
    found = [one for one in functions(blob) if kernel in ("", one[1])]
    if not found:
        raise ValueError(f"no function {kernel!r} is in the file")
    for own, name, code in found:
        yield f"{name}: {arch or own}"
        yield from lines(code, arch or own)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 with the reason where the file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m boards.nv.listing", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", type=Path, help="a cubin, or code alone")
    parser.add_argument("--kernel", default="", help="this function alone")
    parser.add_argument("--arch", default="", help=", ".join(architectures()))
    options = parser.parse_args(arguments)
    try:
        with options.file.open("rb") as file:
            blob = file.read(_MOST_BYTES)
        for line in listing(blob, options.arch, options.kernel):
            sys.stdout.write(f"{line}\n")
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except (OSError, ValueError, NoTable) as error:
        sys.stderr.write(f"{options.file}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    terminal.run(main)
