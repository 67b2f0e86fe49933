"""Where firmware is searched, and how a file is judged.

A file is taken when its bytes are ones that the manifest knows, from the first place that has such
a file; the bytes that were hashed are the ones handed on. Only a file that the user names one by
one is taken as it is. Nothing here reaches for a network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from posixpath import basename

from drivers.base.contracts import World
from drivers.base.errors import (
    BadChoice,
    Denied,
    DeviceError,
    FirmwareRejected,
    MalformedInput,
    NotFound,
    Unsupported,
)
from drivers.firmware.manifest import LARGEST_FILE_BYTES, Entry, Manifest, Version
from drivers.firmware.packages import package
from drivers.firmware.unpack import SUFFIXES, unpack

SYSTEM_FOLDER = "/lib/firmware"
"""src: Linux, drivers/base/firmware_loader/main.c (fw_path), its last place."""
_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Image:
    """A firmware file that was accepted: its bytes, where they are from, and why they may be used.

    `version` is None for a file that the user named and the manifest does not know.
    """

    entry: Entry
    path: str
    data: bytes
    version: Version | None


def load(
    world: World,
    manifest: Manifest,
    arch: str,
    *,
    device: int | None = None,
    revision: int | None = None,
    folder: str | None = None,
    named: Iterable[str] = (),
) -> dict[str, Image]:
    """Everything that one GPU needs, by block: nothing is sent before all of it is here and known.

    `device` and `revision` are the card's PCI numbers; `folder` is UNBOUND_FIRMWARE; `named` are
    paths of files that the user vouches for.

    Raises: FirmwareRejected or NotFound, naming each file that is wrong and what to install;
    Unsupported for an unknown chip; BadChoice for a named file that no chip of the manifest has.
    """
    trusted = by_name(manifest, named)
    images: dict[str, Image] = {}
    wrong: list[DeviceError] = []
    for entry in manifest.needs(arch, device, revision):
        try:
            images[entry.block] = find(world, manifest, entry, folder=folder, named=trusted)
        except (FirmwareRejected, NotFound, MalformedInput, Denied, Unsupported) as error:
            wrong.append(error)
    if wrong:
        raise _together(arch, wrong)
    return images


def _together(arch: str, wrong: list[DeviceError]) -> DeviceError:
    """One error of several; what is wrong weighs more than what is missing."""
    if len(wrong) == 1:
        return wrong[0].named(f"firmware of {arch}")
    missing = all(isinstance(error, NotFound) for error in wrong)
    text = "; ".join(error.message for error in wrong)
    hints = dict.fromkeys(error.hint for error in wrong)
    kind = NotFound if missing else FirmwareRejected
    return kind(f"firmware of {arch}: {text}", hint=". ".join(hints))


def by_name(manifest: Manifest, named: Iterable[str]) -> dict[str, str]:
    """Paths by the name of the firmware file each one is. Raises: BadChoice."""
    found: dict[str, str] = {}
    for path in named:
        name = basename(path)
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        if name not in manifest.files or found.setdefault(name, path) != path:
            raise BadChoice(
                f"{path} is not a firmware file that a known GPU takes, or names one a second time",
                hint="`python -m drivers.firmware` lists the names",
            )
    return found


def folders(manifest: Manifest, folder: str | None) -> list[str]:
    """Where files are searched, in order; `folder` is UNBOUND_FIRMWARE."""
    system = f"{SYSTEM_FOLDER}/{manifest.folder}"
    return [system] if folder is None else [system, f"{folder}/{manifest.folder}", folder]


def places(manifest: Manifest, entry: Entry, folder: str | None) -> list[str]:
    """Every path at which a file may be, in the order in which they are tried."""
    return [
        f"{one}/{entry.name}{suffix}" for one in folders(manifest, folder) for suffix in SUFFIXES
    ]


def find(
    world: World,
    manifest: Manifest,
    entry: Entry,
    *,
    folder: str | None = None,
    named: Mapping[str, str] | None = None,
) -> Image:
    """One file, from the first place that has bytes the manifest knows.

    Raises: NotFound when no place has it; the reason when the only one there is wrong, and
    FirmwareRejected with every reason when several are.
    """
    chosen = (named or {}).get(entry.name)
    if chosen is not None:
        data = _read(world, chosen)
        return Image(entry, chosen, data, _known(entry, data))
    wrong: list[DeviceError] = []
    for path in places(manifest, entry, folder):
        try:
            return _accepted(entry, path, _read(world, path))
        except NotFound:
            continue
        except (FirmwareRejected, MalformedInput, Denied, Unsupported) as error:
            wrong.append(error)
    if not wrong:
        raise NotFound(
            f"{entry.name} is not there (it is in {entry.releases})",
            hint=package(world, manifest),
        )
    if len(wrong) == 1:
        raise wrong[0]
    text = "; ".join(error.message for error in wrong)
    raise FirmwareRejected(text, hint=wrong[0].hint) from wrong[0]


def _read(world: World, path: str) -> bytes:
    return unpack(world.read(path, LARGEST_FILE_BYTES), path, LARGEST_FILE_BYTES)


def _known(entry: Entry, data: bytes) -> Version | None:
    """Which known version these bytes are."""
    digest = hashlib.sha256(data).hexdigest()
    for version in entry.versions:
        if version.nbytes == len(data) and version.sha256 == digest:
            return version
    return None


def _accepted(entry: Entry, path: str, data: bytes) -> Image:
    version = _known(entry, data)
    if version is None:
        digest = hashlib.sha256(data).hexdigest()[:_SHOWN_DIGITS]
        raise FirmwareRejected(
            f"{path} ({len(data)} bytes, sha256 {digest}...) is none of the known "
            f"{entry.name}: {entry.releases}",
            hint="Put a known one into the directory that UNBOUND_FIRMWARE names, or name this "
            "file in UNBOUND_FIRMWARE_FILES to use it all the same",
        )
    return Image(entry, path, data, version)
