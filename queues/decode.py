"""`python -m queues.decode DUMP --FORMAT [--chip NAME]`: packets by name and field.

Reads a ring or an indirect buffer as 32-bit little-endian words. Fields that are 0 are not
printed; bits where the vendor has no field are, as `reserved[word]`. The formats are those that
the kinds of device name in their records (`drivers/kinds.py`).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.base.inputs import read_input
from drivers.kinds import BEST_FIRST, named
from drivers.machine.output import print_lines
from queues.packet_layout import Packet
from queues.packet_text import Decoder
from unbound import terminal

LIMIT_BYTES: Final = 16 << 20
"""Of a dump: a ring of the driver has 512 KiB."""
FORMATS: Final = {name: place for kind in BEST_FIRST for name, place in kind.packets.items()}
"""Name of a packet format -> "module:function" from a chip to its decoder."""


def decoder(kind: str, chip: str | None = None) -> Decoder:
    """The decoder of a format such as "pm4"; without a chip, of the one that its vendor names.

    Raises: Unsupported with the known formats or chips.
    """
    if kind not in FORMATS:
        raise Unsupported(f"no packet format {kind!r}", hint=f"known: {', '.join(FORMATS)}")
    make = named(FORMATS[kind])
    made: Decoder = make() if chip is None else make(chip)
    return made


def decode(form: Decoder, words: Sequence[int], start: int = 0) -> Iterator[Packet]:
    """The packets from word `start` on. Raises: MalformedInput at the first that is none."""
    following = start
    for at in range(start, len(words)):
        if at == following:
            packet, length = form.read(words, at)
            yield packet
            following = at + length


def listing(form: Decoder, words: Sequence[int], start: int = 0) -> Iterator[str]:
    """The packets as lines; of a run of equal one-word packets only the first.

    Raises: MalformedInput.
    """
    following, repeated, repeats = start, -1, 0
    for at in range(start, len(words)):
        if at < following:
            continue
        if words[at] == repeated:
            repeats += 1
            continue
        if repeats:
            yield f"        and {repeats} more"
        packet, length = form.read(words, at)
        yield from form.lines(packet)
        following = at + length
        repeated, repeats = words[at] if length == 1 else -1, 0
    if repeats:
        yield f"        and {repeats} more"


def dump(form: Decoder, words: Sequence[int], start: int = 0, limit: int = 64) -> str:
    """At most `limit` lines from word `start` on, for errors and logs; never raises on bad words.

    A word that begins no packet ends the text with a line of `!!`.
    """
    lines: list[str] = []
    try:
        for line in listing(form, words, start):
            if len(lines) == limit:
                return "\n".join([*lines, "   ..."])
            lines.append(line)
    except MalformedInput as error:
        lines.append(f"   !!: {error.message}")
    return "\n".join(lines)


def words_of(data: bytes) -> Sequence[int]:
    """The 32-bit words of a dump. Raises: MalformedInput."""
    words = array("I")
    if len(data) % words.itemsize:
        raise MalformedInput(
            f"a dump of {len(data)} bytes is not a multiple of {words.itemsize} bytes",
            hint="dump whole 32-bit words",
        )
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words


def main(arguments: Sequence[str]) -> Iterator[str]:
    """The lines that the command prints. Raises: DeviceError where the dump ends badly."""
    import argparse  # of the command alone: rings import this file

    parser = argparse.ArgumentParser(prog="python -m queues.decode", description=__doc__)
    parser.add_argument(
        "dump", help=f"file of little-endian 32-bit words, at most {LIMIT_BYTES >> 20} MiB"
    )
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind in FORMATS:
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    parser.add_argument("--chip", help="of the packets (default: the format's own)")
    parser.add_argument("--start", type=int, default=0, help="first word (default: 0)")
    chosen = parser.parse_args(arguments)
    if chosen.start < 0:
        parser.error("--start counts words from 0")
    form = decoder(chosen.kind, chosen.chip)
    yield from listing(form, words_of(read_input(chosen.dump, LIMIT_BYTES)), chosen.start)


def run(arguments: Sequence[str]) -> int:
    """Print the packets; exit status 1 when the dump or its name is wrong."""
    try:
        return print_lines(main(arguments))
    except DeviceError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    terminal.run(run)
