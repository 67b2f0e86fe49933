"""`python -m drivers.amd.regs GRBM_STATUS`: registers of an AMD GPU by name, field by field.

Reads an unbound GPU that no program uses. Names may have wildcards ("CP_*STAT*").
With --decode VALUE --chip gfx1100 nothing is read: the value is taken apart.
With --chip alone, names are listed. --write VALUE --yes writes, and is the only thing that does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from drivers.amd.chips import CHIPS, Bare, Chip
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.registers import FILES, Version, load
from drivers.amd.tools.bare import looked_at, pick
from drivers.bare.registers import Register, RegisterFile
from drivers.base.contracts import World
from drivers.base.errors import BadArgument, DeviceError, NotFound
from drivers.base.pci import StateStore
from drivers.board_option import add_board_option, in_front_of
from drivers.machine.output import print_text
from drivers.world.linux import LinuxWorld
from unbound import terminal

_MOST_READS: Final = 256


@dataclass(frozen=True, slots=True)
class Reading:
    """One register's value."""

    block: str
    name: str
    value: int
    fields: dict[str, int]


def _blocks(chip: Chip, bare: Bare) -> dict[HwId, Version]:
    found = {
        HwId.GC: min(chip.gc), HwId.MMHUB: bare.mmhub, HwId.NBIF: bare.nbif, HwId.MP0: bare.mp,
        HwId.MP1: bare.mp, HwId.OSSSYS: bare.osssys, HwId.HDP: bare.hdp,
    }  # fmt: skip
    copies = min(chip.sdma)
    return found | ({HwId.SDMA0: copies} if copies in FILES[HwId.SDMA0] else {})


def chip_files(name: str) -> dict[HwId, RegisterFile]:
    """The registers of a chip, by block. Raises: NotFound with the chips that are known."""
    for chip in CHIPS.values():
        if chip.name == name and chip.bare:
            return {hw: load(hw, version) for hw, version in _blocks(chip, chip.bare).items()}
    known = [chip.name for chip in CHIPS.values() if chip.bare]
    raise NotFound(f"registers of {name!r} are not known", hint=f"Chips are {', '.join(known)}")


def matching(
    files: dict[HwId, RegisterFile], names: Sequence[str], block: str | None
) -> Iterator[tuple[HwId, Register]]:
    """Registers that a name, a role or a pattern stands for. Raises: NotFound."""
    for name in names:
        found = [
            (hw, register)
            for hw, file in files.items()
            if block in (None, hw.name)
            for register in _in_file(file, name.upper())
        ]
        if not found:
            raise NotFound(f"no register is called {name!r}", hint="--chip gfx1100 lists them")
        yield from found


def _in_file(file: RegisterFile, name: str) -> list[Register]:
    if name in file:
        return [file.get(name)]
    return [register for known, register in file.registers.items() if fnmatchcase(known, name)]


def _wanted(gpu: BareGpu, names: Sequence[str], block: str | None) -> list[tuple[HwId, Register]]:
    files = {
        hw: load(hw, gpu.ips.version(hw)) for hw in FILES
        if gpu.ips.instances(hw) and gpu.ips.version(hw) in FILES[hw]
    }  # fmt: skip
    return list(matching(files, names, block))


def _one(gpu: BareGpu, hw: HwId, register: Register, instance: int) -> Reading:
    block = gpu.block(hw, instance)
    value = block.read(register.name, ones=True)
    return Reading(block.label, register.name, value, register.decode(value))


def read(gpu: BareGpu, names: Sequence[str], block: str | None, instance: int) -> list[Reading]:
    """The registers of a GPU. Raises: NotFound, BadArgument for far too many, DeviceGone."""
    wanted = _wanted(gpu, names, block)
    if len(wanted) > _MOST_READS:
        raise BadArgument(f"{len(wanted)} registers are meant", hint="Name fewer of them")
    return [_one(gpu, hw, register, instance) for hw, register in wanted]


def write(gpu: BareGpu, name: str, value: int, block: str | None, instance: int) -> list[Reading]:
    """Write one register, then read it. Raises: BadArgument when the name means several."""
    wanted = _wanted(gpu, [name], block)
    if len(wanted) != 1:
        meant = ", ".join(f"{hw.name}.{register.name}" for hw, register in wanted)
        raise BadArgument(f"{name} means {meant}", hint="Name one register, and --block")
    hw, register = wanted[0]
    gpu.block(hw, instance).write(register.name, value)
    return [_one(gpu, hw, register, instance)]


def as_text(readings: Sequence[Reading]) -> str:
    """A line for each register, and one for each field that is not 0."""
    lines = []
    for one in readings:
        lines.append(f"{one.block}.{one.name} = {one.value:#010x}")
        lines += [f"    {name} = {value:#x}" for name, value in one.fields.items() if value]
    return "\n".join(lines)


def as_json(readings: Sequence[Reading]) -> str:
    """A list with an object for each register."""
    return json.dumps(
        [
            {"block": one.block, "register": one.name, "value": one.value, "fields": one.fields}
            for one in readings
        ],
        indent=2,
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drivers.amd.regs", description=__doc__)
    parser.add_argument("names", nargs="*", help="registers, without reg or mm in front")
    parser.add_argument("--address", help="the GPU's PCI address")
    parser.add_argument("--block", help="only registers of this block (GC, MMHUB, NBIF, MP0, ...)")
    parser.add_argument("--instance", type=int, default=0, help="which of several, as XCCs are")
    parser.add_argument("--chip", help="decode or list for this chip, without reading a GPU")
    parser.add_argument("--decode", type=lambda text: int(text, 0), metavar="VALUE")
    parser.add_argument("--write", type=lambda text: int(text, 0), metavar="VALUE")
    parser.add_argument("--yes", action="store_true", help="with --write: really write")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_board_option(parser, "AMD", tool="regs", pci=True)
    parser.add_argument("--trace", metavar="FILE", help="write every register access to FILE")
    chosen = parser.parse_args(arguments)
    if chosen.write is not None and (not chosen.yes or len(chosen.names) != 1 or chosen.chip):
        parser.error("--write needs one name and --yes: a wrong value can hang the machine")
    if chosen.decode is not None and not chosen.chip:
        parser.error("--decode needs --chip")
    if not chosen.names and not chosen.chip:
        parser.error("name registers, or --chip to list them")
    return chosen


def _without_gpu(chosen: argparse.Namespace) -> str:
    files = chip_files(chosen.chip)
    names = chosen.names or ["*"]
    found = list(matching(files, names, chosen.block))
    if chosen.decode is None:
        lines = (f"{hw.name}.{one.name}  segment {one.segment}, dword {one.offset_dw:#x}"
                 for hw, one in found)  # fmt: skip
        return "\n".join(lines)
    readings = [Reading(hw.name, one.name, chosen.decode, one.decode(chosen.decode))
                for hw, one in found]  # fmt: skip
    return as_json(readings) if chosen.json else as_text(readings)


def run(arguments: Sequence[str], world: World, state: StateStore | None = None) -> str:
    """What the command prints. `state`: the claims' directory; None: this user's own."""
    chosen = _parse(arguments)
    if chosen.chip:
        return _without_gpu(chosen)
    if chosen.board:
        front = in_front_of(chosen.board, "PCI")
        front.boot_once()
        world, state = front.world, front.state
    function = pick(world, chosen.address)
    with looked_at(world, state, function, chosen.trace) as gpu:
        if chosen.write is not None:
            readings = write(gpu, chosen.names[0], chosen.write, chosen.block, chosen.instance)
        else:
            readings = read(gpu, chosen.names, chosen.block, chosen.instance)
    return as_json(readings) if chosen.json else as_text(readings)


def command(arguments: Sequence[str]) -> int:
    """The command: print, and the exit status."""
    try:
        return print_text(run(arguments, LinuxWorld()))
    except DeviceError as error:
        sys.stderr.write(f"regs: {error}\n")
        return 1


if __name__ == "__main__":
    terminal.run(command)
