"""A board's synthetic firmware: the real files' names, pieces that a board believes, a manifest."""

from __future__ import annotations

import hashlib

import pytest

from boards.amd.pci import firmware_set, payload
from drivers.amd.firmware.assemble import parse
from drivers.firmware import read_manifest, shipped_manifest
from tests.boards.bare_function import NAMES
from tests.support import check


@pytest.mark.parametrize("name", NAMES)
def test_names_and_blocks_are_the_real_manifests(name: str) -> None:
    real = {entry.name: entry.block for entry in shipped_manifest("amd").needs(name)}
    made = {file: block for file, (block, _) in firmware_set.named(name).items()}
    check(made == real, f"{made}")


def test_the_synthetic_manifest_is_a_manifest() -> None:
    files = firmware_set.world_files(NAMES)
    manifest = read_manifest(files[firmware_set.MANIFEST], "board")
    for name in NAMES:
        for entry in manifest.needs(name):
            data = files[f"{firmware_set.FOLDER}/{entry.name}"]
            version = entry.versions[0]
            check(version.nbytes == len(data), f"{entry.name}: size")
            digest = version.sha256
            wanted = digest if isinstance(digest, str) else digest.hex()
            check(wanted == hashlib.sha256(data).hexdigest(), f"{entry.name}: digest")


@pytest.mark.parametrize("name", NAMES)
def test_the_drivers_parser_finds_pieces_that_the_board_believes(name: str) -> None:
    for file, (block, data) in firmware_set.named(name).items():
        for part in parse(block, data, file).parts:
            why = payload.wrong(bytes(part.data), part.kind.name)
            check(why == "", f"{file}: {part.kind.name}: {why}")


def test_files_are_the_same_each_time_and_differ_by_chip() -> None:
    check(firmware_set.named("gfx1100") == firmware_set.named("gfx1100"), "it changes")
    digests = {
        hashlib.sha256(data).hexdigest()
        for name in ("gfx1100", "gfx1201", "gfx942")
        for _, data in firmware_set.named(name).values()
    }
    check(len(digests) == 6 + 8 + 5, f"{len(digests)} different files")
