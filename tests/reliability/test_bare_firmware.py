"""Firmware of a bare GPU: no changed bit comes near it, and what was hashed is what arrives."""

from __future__ import annotations

import random
import socket
from typing import Any

import pytest

from boards.amd.pci import payload
from boards.amd.pci.firmware_set import FOLDER, MANIFEST, NAMES, world_files
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.amd.opening import open_amd
from drivers.base.errors import FirmwareRejected, MalformedInput, NotFound
from drivers.choice import choose
from drivers.firmware import find, load, read_manifest
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests.boards.driver_harness import open_over_pci
from tests.fake_machine import FakeMachine
from tests.support import check

FLIPS = 10_000
"""Of a whole set at least; every file has fewer bits, and all of them are tried."""
OPENS = 60
"""Whole openings with one bit changed, for each chip."""
VRAM_BYTES = 1 << 30
CHIPS = ("gfx1100", "gfx1201", "gfx942")


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def machine(chip: str, **more: Any) -> PciWorld:
    """A machine whose own driver has the GPU."""
    options = MachineOptions(vram_bytes=VRAM_BYTES, amdgpu=True, **more)
    return open_pci_board(chip, options=options)


@pytest.mark.parametrize("chip", NAMES)
def test_every_bit_of_every_file_of_a_chip(chip: str) -> None:
    files = world_files([chip])
    manifest = read_manifest(files.pop(MANIFEST), "synthetic")
    world = FakeMachine(files)
    check(len(load(world, manifest, chip)) == len(files), "as they are, they are taken")
    tried = 0
    for entry in manifest.needs(chip):
        path = f"{FOLDER}/{entry.name}"
        data = files[path]
        for bit in range(8 * len(data)):
            world.files[path] = flipped(data, bit)
            with pytest.raises(FirmwareRejected, match=path):
                find(world, manifest, entry)
            tried += 1
        with pytest.raises(FirmwareRejected, match=path):
            load(world, manifest, chip)
        world.files[path] = data
    check(tried == sum(8 * len(data) for data in files.values()) >= FLIPS, f"{tried} bits")
    check(world.touched == [], "something was written")


@pytest.mark.parametrize("iommu", [True, False])
@pytest.mark.parametrize("chip", CHIPS)
def test_a_changed_bit_ends_the_opening_before_it_touches_anything(chip: str, iommu: bool) -> None:
    """No access to the function, no write to a file, no lock, no record."""
    board, rng = machine(chip, iommu=iommu), random.Random(chip)
    folder = f"/sys/bus/pci/devices/{board.machine.slot(0).address}"
    files, before = world_files([chip]), (board.panel.count, board.readlink(f"{folder}/driver"))
    paths = [path for path in files if path.startswith(FOLDER)]
    for number in range(OPENS):
        path = paths[number % len(paths)]
        board.machine.tree.put(path, flipped(files[path], rng.randrange(8 * len(files[path]))))
        with pytest.raises(FirmwareRejected, match="none of the known"):
            open_over_pci(board)
        board.machine.tree.put(path, files[path])
        check((board.panel.count, board.readlink(f"{folder}/driver")) == before, path)
        check(not board.machine.writes and not board.state.names(), path)
    open_over_pci(board).close()
    check(board.panel.count > before[0] and board.machine.writes != [], "it opens now, and is seen")


class TwoFaced:
    """A world whose firmware files hold other bytes when they are read a second time."""

    def __init__(self, inner: ForeignWorld) -> None:
        self._inner = inner
        self.reads: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        data = self._inner.read(path, limit_bytes)
        if not path.startswith(FOLDER):
            return data
        self.reads[path] = self.reads.get(path, 0) + 1
        return data if self.reads[path] == 1 else flipped(data, 8 * len(data) - 1)


@pytest.mark.parametrize("chip", NAMES)
def test_the_bytes_that_were_hashed_are_the_bytes_that_arrive(
    chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the security processor is given lies in the files as they were read once."""
    board, arrived = machine(chip), list[bytes]()
    judge = payload.wrong

    def judged(data: bytes, *kinds: str) -> str:
        arrived.append(data)
        return judge(data, *kinds)

    monkeypatch.setattr(payload, "wrong", judged)
    environ = {"DEV": "AMD", "AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": board.firmware}
    world: Any = TwoFaced(ForeignWorld(board))
    open_amd(world, choose(environ), state=ForeignState(board.state)).close()
    files = {p: data for p, data in world_files([chip]).items() if p.startswith(FOLDER)}
    check(world.reads == dict.fromkeys(files, 1), f"each file is read once: {world.reads}")
    for data in arrived:
        check(any(data in whole for whole in files.values()), f"{len(data)} bytes of no file")
    for path, whole in files.items():
        check(any(data in whole for data in arrived), f"nothing of {path} arrived")
    check(len(set(arrived)) > len(files), f"{len(arrived)} images")


def test_a_file_named_one_by_one_is_taken_and_still_parsed() -> None:
    board = open_pci_board("gfx1100", options=MachineOptions(vram_bytes=VRAM_BYTES))
    files = world_files(["gfx1100"])
    path = next(path for path in files if path.endswith("_mec.bin"))
    own = "/home/me/" + path.rpartition("/")[2]
    whole = files[path]
    version_at = 16  # src: Linux 6.12, amdgpu_ucode.h, struct common_firmware_header ucode_version
    board.machine.tree.put(own, flipped(whole, 8 * version_at))
    open_over_pci(board, UNBOUND_FIRMWARE_FILES=own).close()
    board.machine.tree.put(path, flipped(whole, 0))
    open_over_pci(board, UNBOUND_FIRMWARE_FILES=own).close()
    with pytest.raises(FirmwareRejected, match="none of the known"):
        open_over_pci(board)
    before = board.panel.count
    for broken in (whole[:40], b"", whole[:4] + b"\xff\xff\xff\x7f" + whole[8:]):
        board.machine.tree.put(own, broken)
        with pytest.raises(MalformedInput):
            open_over_pci(board, UNBOUND_FIRMWARE_FILES=own)
    check(board.panel.count == before, "broken headers reached the GPU")


def test_an_opening_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocked(*args: object, **options: object) -> None:
        pytest.fail("a socket was opened")

    for name in ("socket", "create_connection", "socketpair", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, blocked)
    board = machine("gfx1100")
    open_over_pci(board).close()
    path = next(path for path in world_files(["gfx1100"]) if path.startswith(FOLDER))
    board.machine.tree.remove(path)
    with pytest.raises(NotFound, match="is not there"):
        open_over_pci(board)
