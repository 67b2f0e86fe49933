"""What `firmware_manifests/*.toml` says, checked: chips, files, the known bytes of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

from drivers.base.contracts import World
from drivers.base.errors import Unsupported
from drivers.firmware.fields import LIMIT_BYTES, Pattern, Table, read_toml

LARGEST_FILE_BYTES = 16 << 20
"""No firmware file is larger; src: the packages that the manifests name, largest 3.9 MB."""
_MAX_ID = 0xFFFF
_MAX_REVISION = 0xFF
_FILE = re.compile(r"[a-z0-9][a-z0-9_]{0,62}\.bin")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_LINE = re.compile(r"[ -~]{1,200}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_Built = TypeVar("_Built")


@dataclass(frozen=True, slots=True)
class Version:
    """Bytes that are known to be a file: their number and digest, and the releases with them."""

    nbytes: int
    sha256: str
    releases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One firmware file. `block` is the part of the GPU that takes it: "PSP", "MEC", ..."""

    name: str
    block: str
    versions: tuple[Version, ...]

    @property
    def releases(self) -> str:
        """The names of all releases that have the file."""
        return ", ".join(dict.fromkeys(name for one in self.versions for name in one.releases))


@dataclass(frozen=True, slots=True)
class Variant:
    """Cards of a chip that want other files. None: any PCI device id, or any revision."""

    device: int | None
    revision: int | None
    replace: Mapping[str, str]

    def fits(self, device: int | None, revision: int | None) -> bool:
        """Whether it is the variant of a card with these PCI numbers."""
        return (self.device in (None, device)) and (self.revision in (None, revision))


@dataclass(frozen=True, slots=True)
class Chip:
    """What one architecture needs, in the order in which the manifest names it."""

    arch: str
    blocks: str
    files: tuple[str, ...]
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One vendor's firmware. `folder` is where it lies below the machine's firmware directory."""

    folder: str
    licence: str
    packages: Mapping[str, str]
    """Name of a distribution (as /etc/os-release spells it) to its package."""
    origins: Mapping[str, str]
    """Name of a release to where its files were taken from."""
    chips: Mapping[str, Chip]
    files: Mapping[str, Entry]

    def needs(
        self, arch: str, device: int | None = None, revision: int | None = None
    ) -> tuple[Entry, ...]:
        """The files of one GPU; PCI device id and revision choose among variants of a chip.

        Raises: Unsupported for a chip that the manifest does not have.
        """
        chip = self.chips.get(arch)
        if chip is None:
            raise Unsupported(
                f"no firmware is known for {arch}", hint=f"Known are {', '.join(self.chips)}"
            )
        fitting = [one for one in chip.variants if one.fits(device, revision)]
        replace = fitting[0].replace if fitting else {}
        return tuple(self.files[replace.get(name, name)] for name in chip.files)


def read_manifest(data: bytes, what: str) -> Manifest:
    """The manifest in a TOML file. Raises: MalformedInput."""
    table = read_toml(data, what)
    origins = _named(table, "release", "name", _WORD, lambda row, _: row.text("origin", _LINE))
    entries = _named(table, "file", "name", _FILE, lambda row, name: _entry(row, name, origins))
    chips = _named(table, "chip", "arch", _WORD, lambda row, arch: _chip(row, arch, entries))
    manifest = Manifest(
        folder=table.text("folder", re.compile(r"[a-z0-9]{1,32}")),
        licence=table.text("licence", _LINE),
        packages=table.strings("packages", _WORD),
        origins=origins,
        chips=chips,
        files=entries,
    )
    table.done()
    return manifest


@cache
def shipped_manifest(name: str) -> Manifest:
    """The one that came with this program for a kind of device, by its `Kind.firmware`."""
    path = files("firmware_manifests").joinpath(f"{name}.toml")
    return read_manifest(path.read_bytes(), f"firmware_manifests/{name}.toml")


def chosen_manifest(world: World, path: str | None, name: str) -> Manifest:
    """The manifest at `path` (UNBOUND_FIRMWARE_MANIFEST), or the one that came along as `name`.

    Raises: NotFound, Denied, MalformedInput.
    """
    if path is None:
        return shipped_manifest(name)
    return read_manifest(world.read(path, LIMIT_BYTES), path)


def _named(
    table: Table, key: str, name: str, rule: Pattern, build: Callable[[Table, str], _Built]
) -> dict[str, _Built]:
    """The list of tables `key`, each built under its own name."""
    found: dict[str, _Built] = {}
    for row in table.tables(key):
        own = row.text(name, rule)
        if own in found:
            raise row.fail(f"says {own!r} a second time")
        found[own] = build(row, own)
        row.done()
    return found


def _entry(row: Table, name: str, origins: Mapping[str, str]) -> Entry:
    versions = []
    for one in row.tables("versions"):
        releases = one.texts("releases", _WORD)
        unknown = [release for release in releases if release not in origins]
        if unknown:
            raise one.fail(f"names a release that is not described: {unknown[0]}")
        nbytes = one.number("size", LARGEST_FILE_BYTES)
        versions.append(Version(nbytes, one.text("sha256", _SHA256), releases))
        one.done()
    if not versions:
        raise row.fail("knows no version of its file")
    return Entry(name, row.text("block", _WORD), tuple(versions))


def _chip(row: Table, arch: str, entries: Mapping[str, Entry]) -> Chip:
    variants = []
    for one in row.tables("variant", optional=True):
        device = one.optional("device", _MAX_ID)
        revision = one.optional("revision", _MAX_REVISION)
        variants.append(Variant(device, revision, one.pairs("replace", _FILE)))
        one.done()
    names = row.texts("files", _FILE)
    others = {new for one in variants for new in one.replace.values()}
    unknown = sorted({*names, *others} - set(entries))
    if unknown:
        raise row.fail(f"needs a file that is not described: {unknown[0]}")
    return Chip(arch, row.text("blocks", _LINE), names, tuple(variants))
