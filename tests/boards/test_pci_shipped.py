"""Firmware files by their headers alone: what a board takes when it was given a folder of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.amd.chip_data import NUMBERS
from boards.amd.pci import firmware_linux, firmware_set, shipped
from boards.amd.pci.firmware_file import Made
from boards.amd.pci.images import Shipped
from tests.boards.bare_function import Bare
from tests.support import check

CHIPS = ("gfx1100", "gfx1101", "gfx1102", "gfx1201")
KDB = 0x80000
"""src: amdgpu_psp.h PSP_BL__LOAD_KEY_DATABASE"""
READY, RESULT = 0x8000_0000, 0xFF


def written(folder: Path, arch: str) -> list[tuple[str, bytes]]:
    """Files of a chip in a folder; the pieces that their maker has put into them."""
    n = NUMBERS[arch]
    made: dict[str, Made] = {
        firmware_set.file_name(n, block): one for block, one in firmware_set.gpu(arch).items()
    }
    made |= firmware_linux._files(n)
    for name, one in made.items():
        (folder / name).write_bytes(one.data)
    return [part for one in made.values() for part in [*one.parts, *one.aux]]


@pytest.mark.parametrize("arch", CHIPS)
def test_every_piece_of_a_chips_files_is_found_by_its_header(tmp_path: Path, arch: str) -> None:
    pieces = written(tmp_path, arch)
    images = shipped.load(tmp_path, arch)
    for kind, piece in pieces:
        check(images.wrong(piece, kind) == "", f"{kind}: {images.wrong(piece, kind)}")
        check(images.leading(piece + bytes(64), kind) == piece, f"{kind} begins a buffer")
        changed = bytes([piece[0] ^ 1]) + piece[1:]
        check(bool(images.wrong(changed, kind)), f"{kind}: a bit was changed")
        check(bool(images.wrong(piece[:-4], kind)), f"{kind}: not whole")
    codes = {kind: piece for kind, piece in pieces if kind in ("SMU", "RS64_MEC", "SOS")}
    check(bool(images.wrong(codes["SMU"], "RS64_MEC")), "one kind is not another")
    check(images.start("RS64_MEC") == firmware_set.gpu(arch)["MEC"].start, "where it begins")


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "gfx1100")
    path = tmp_path / "gc_11_0_0_mec.bin"
    path.write_bytes(path.read_bytes()[:-16])
    with pytest.raises(shipped.BadFile, match="gc_11_0_0_mec"):
        shipped.load(tmp_path, "gfx1100")


def test_a_folder_without_the_chips_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(shipped.BadFile, match="security processor"):
        shipped.load(tmp_path, "gfx1100")


def test_the_bootloader_takes_a_shipped_piece_and_no_made_up_one() -> None:
    piece = bytes(range(256)) * 8
    bare = Bare("gfx1100")
    bare.gpu.options.images = Shipped({"KDB": [piece]}, {})
    made_up = bare.pieces("PSP")["KDB"]
    check(bool(bare.stage(KDB, made_up) & RESULT), "made up")
    check(bare.stage(KDB, piece) == READY, "shipped")
