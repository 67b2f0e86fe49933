"""Which file is taken, which is refused, and that nothing else is touched."""

from __future__ import annotations

import lzma
import socket
import tracemalloc
from typing import NoReturn

import pytest

from drivers.base.errors import BadChoice, Denied, FirmwareRejected, MalformedInput, NotFound
from drivers.base.errors import Unsupported as Cannot
from drivers.firmware import Manifest, find, load, read_manifest, unpack
from tests import firmware_maker as maker
from tests.fake_machine import FakeMachine
from tests.support import check

SYSTEM, OWN = "/lib/firmware/amdgpu", "/home/me/fw"
FILES = maker.gpu_files("gfx1100")
NAME = "imu_gfx1100.bin"
GOOD = FILES[NAME][1]
OTHER = maker.imu(12).data


@pytest.fixture
def manifest() -> Manifest:
    return read_manifest(maker.manifest_toml(FILES), "made-up.toml")


def zstd(data: bytes) -> bytes:
    """A frame with its contents as they are; src: RFC 8878, 3.1.1."""
    frame = (
        (0xFD2FB528).to_bytes(4, "little") + bytes([0b1010_0000]) + len(data).to_bytes(4, "little")
    )
    return frame + (len(data) << 3 | 1).to_bytes(3, "little") + data


def machine(files: dict[str, bytes], **more: bytes) -> FakeMachine:
    return FakeMachine({"/etc/os-release": b"ID=debian\n", **files, **more})


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (f"{SYSTEM}/{NAME}", GOOD),
        (f"{SYSTEM}/{NAME}.xz", lzma.compress(GOOD, check=lzma.CHECK_CRC32)),
        (f"{SYSTEM}/{NAME}.zst", zstd(GOOD)),
        (f"{OWN}/{NAME}", GOOD),
        (f"{OWN}/amdgpu/{NAME}.xz", lzma.compress(GOOD)),
    ],
)
def test_every_place_and_packing(manifest: Manifest, path: str, data: bytes) -> None:
    image = find(machine({path: data}), manifest, manifest.files[NAME], folder=OWN)
    check(image.data == GOOD and image.path == path, f"{image.path}")
    check(image.version is not None and image.version.releases == ("r1",), "its release")


def test_the_own_folder_needs_to_be_named(manifest: Manifest) -> None:
    with pytest.raises(NotFound, match=r"r1\).*made-up \(debian\)"):
        find(machine({f"{OWN}/{NAME}": GOOD}), manifest, manifest.files[NAME])


def test_system_before_own_and_known_before_unknown(manifest: Manifest) -> None:
    entry = manifest.files[NAME]
    both = machine({f"{SYSTEM}/{NAME}": GOOD, f"{OWN}/{NAME}": GOOD})
    check(find(both, manifest, entry, folder=OWN).path == f"{SYSTEM}/{NAME}", "order")
    newer = machine({f"{SYSTEM}/{NAME}": OTHER, f"{OWN}/{NAME}": GOOD})
    check(find(newer, manifest, entry, folder=OWN).path == f"{OWN}/{NAME}", "the known one")


def test_an_unknown_file_is_refused_unless_it_is_named(manifest: Manifest) -> None:
    entry, path = manifest.files[NAME], f"{SYSTEM}/{NAME}"
    world = machine({path: OTHER})
    with pytest.raises(FirmwareRejected, match=r"none of the known.*UNBOUND_FIRMWARE_FILES"):
        find(world, manifest, entry)
    image = find(world, manifest, entry, named={NAME: path})
    check(image.data == OTHER and image.version is None, "taken as it is")
    two = machine({path: OTHER, f"{OWN}/{NAME}": OTHER[:-1]})
    with pytest.raises(FirmwareRejected) as caught:
        find(two, manifest, entry, folder=OWN)
    check(path in str(caught.value) and f"{OWN}/{NAME} (" in str(caught.value), "both are named")


def test_damaged_and_endless_packings(manifest: Manifest) -> None:
    entry = manifest.files[NAME]
    packed = lzma.compress(GOOD)
    for data in (packed[:-9], packed + b"!", b"\0" * 40):
        with pytest.raises(MalformedInput, match="cannot be unpacked"):
            find(machine({f"{SYSTEM}/{NAME}.xz": data}), manifest, entry)
    huge = zstd(b"")[:5] + (1 << 30).to_bytes(4, "little")
    huge += (500 << 3 | 2 | 1).to_bytes(3, "little") + b"\0"
    for data in (zstd(GOOD)[:-1], zstd(GOOD) + b"!", b"\0" * 40, huge):
        with pytest.raises(MalformedInput, match="cannot be unpacked"):
            find(machine({f"{SYSTEM}/{NAME}.zst": data}), manifest, entry)


def test_a_bomb_is_given_up_early(manifest: Manifest) -> None:
    bomb = lzma.compress(bytes(96 << 20), preset=0)
    world = machine({f"{SYSTEM}/{NAME}.xz": bomb})
    tracemalloc.start()
    try:
        with pytest.raises(MalformedInput, match="longer than 16777216 bytes"):
            find(world, manifest, manifest.files[NAME])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check(peak < 64 << 20, f"{peak} bytes at once")


def test_without_zstd_it_says_what_to_do(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "_ZSTD_LIBRARY", "libno-such-thing.so.9")
    with pytest.raises(Cannot, match=r"libzstd1.*zstd -d.*UNBOUND_FIRMWARE"):
        find(machine({f"{SYSTEM}/{NAME}.zst": zstd(GOOD)}), manifest, manifest.files[NAME])


def test_a_file_that_may_not_be_read(manifest: Manifest) -> None:
    path = f"{SYSTEM}/{NAME}"
    with pytest.raises(Denied):
        find(FakeMachine({path: GOOD}, (path,)), manifest, manifest.files[NAME])


def whole(folder: str = SYSTEM) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, (_, data) in FILES.items()}


def test_a_gpu_is_loaded_whole_or_not_at_all(manifest: Manifest) -> None:
    found = load(machine(whole()), manifest, "gfx1100")
    check({block: image.data for block, image in found.items()} == dict(FILES.values()), "bytes")
    files = whole()
    del files[f"{SYSTEM}/{NAME}"]
    with pytest.raises(NotFound, match=f"firmware of gfx1100: {NAME} is not there"):
        load(machine(files), manifest, "gfx1100")
    files[f"{SYSTEM}/sdma_gfx1100.bin"] = OTHER
    with pytest.raises(FirmwareRejected, match=r"sdma_gfx1100.*imu_gfx1100\.bin is not there"):
        load(machine(files), manifest, "gfx1100")
    with pytest.raises(Cannot, match="Known are gfx1100"):
        load(machine(files), manifest, "gfx9000")


def test_named_files_must_be_somebodys(manifest: Manifest) -> None:
    path = f"{OWN}/{NAME}.xz"
    world = machine({**whole(), path: lzma.compress(OTHER)})
    found = load(world, manifest, "gfx1100", named=[path])
    check(found["IMU"].data == OTHER and found["IMU"].path == path, "the named one comes first")
    for wrong in ([f"{OWN}/toast.bin"], [path, f"/tmp/{NAME}"]):
        with pytest.raises(BadChoice, match=r"python -m drivers\.firmware"):
            load(world, manifest, "gfx1100", named=wrong)


def test_nothing_but_reading_and_no_network(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **more: object) -> NoReturn:
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", never)
    monkeypatch.setattr(socket, "create_connection", never)
    world = machine({})  # raises AssertionError for everything that changes something
    with pytest.raises(NotFound):
        load(world, manifest, "gfx1100", folder=OWN)
    world = machine(whole())
    load(world, manifest, "gfx1100")
    check(world.touched == [], f"{world.touched}")
