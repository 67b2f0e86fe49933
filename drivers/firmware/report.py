"""What each GPU needs and what this machine has, as data and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, NotFound
from drivers.firmware.manifest import Chip, Entry, Manifest
from drivers.firmware.packages import package
from drivers.firmware.search import Image, by_name, find, folders

OK, MISSING, WRONG, UNKNOWN = "ok", "missing", "wrong", "unknown"
"""States of a file; UNKNOWN is one that the user named and the manifest does not know."""


@dataclass(frozen=True, slots=True)
class FileLine:
    """One file: `where` is its path, "" without one; `text` is its release, or what is wrong."""

    name: str
    block: str
    state: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class ChipLine:
    """One chip and its files. `variants` are files that some of its cards want instead."""

    arch: str
    blocks: str
    files: tuple[FileLine, ...]
    variants: tuple[FileLine, ...]

    @property
    def complete(self) -> bool:
        """Whether a card of the chip could be booted with what is here."""
        return all(line.state in (OK, UNKNOWN) for line in self.files)


def survey(
    world: World,
    manifest: Manifest,
    archs: Iterable[str],
    folder: str | None = None,
    named: Iterable[str] = (),
) -> list[ChipLine]:
    """The state of every file of these chips. Raises: BadChoice for a named file of no block."""
    trusted = by_name(manifest, named)
    seen: dict[str, FileLine] = {}

    def line(name: str) -> FileLine:
        if name not in seen:
            seen[name] = _judged(world, manifest, manifest.files[name], folder, trusted)
        return seen[name]

    return [_chip(manifest.chips[arch], line) for arch in archs]


def _chip(chip: Chip, line: Callable[[str], FileLine]) -> ChipLine:
    instead = dict.fromkeys(new for one in chip.variants for new in one.replace.values())
    files = tuple(line(name) for name in chip.files)
    return ChipLine(chip.arch, chip.blocks, files, tuple(line(name) for name in instead))


def _judged(
    world: World, manifest: Manifest, entry: Entry, folder: str | None, named: Mapping[str, str]
) -> FileLine:
    try:
        image = find(world, manifest, entry, folder=folder, named=named)
    except NotFound:
        return FileLine(entry.name, entry.block, MISSING, "", f"it is in {entry.releases}")
    except DeviceError as error:
        return FileLine(entry.name, entry.block, WRONG, "", str(error))
    return FileLine(entry.name, entry.block, *_accepted(image))


def _accepted(image: Image) -> tuple[str, str, str]:
    if image.version is None:
        return UNKNOWN, image.path, "named by the user; not a known file"
    return OK, image.path, ", ".join(image.version.releases)


def shown(
    world: World, manifest: Manifest, chips: Iterable[ChipLine], folder: str | None = None
) -> str:
    """The survey as text; what to install is said once, at the end."""
    lines = [f"Searched in {', '.join(folders(manifest, folder))}", ""]
    incomplete = False
    for chip in chips:
        there = sum(line.state in (OK, UNKNOWN) for line in chip.files)
        lines.append(f"{chip.arch} ({chip.blocks}): {there} of {len(chip.files)} files")
        lines += [_file(line) for line in chip.files]
        if chip.variants:
            lines.append("  some cards of this chip want these instead:")
            lines += [_file(line) for line in chip.variants]
        incomplete = incomplete or not chip.complete
    lines.append("")
    if incomplete:
        lines.append(package(world, manifest))
    lines += [f"{name}: {origin}" for name, origin in manifest.origins.items()]
    lines.append(f"Licence: {manifest.licence}")
    return "\n".join(lines)


def _file(line: FileLine) -> str:
    start = f"  {line.name:<30}{line.block:<6}{line.state:<9}"
    return f"{start}{line.where}{' from ' if line.where else ''}{line.text}"
