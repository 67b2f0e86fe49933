"""The manifest: what ours says, and what a wrong one is told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from drivers.base.errors import MalformedInput, Unsupported
from drivers.firmware import read_manifest, shipped_manifest
from drivers.firmware.fields import LIMIT_BYTES
from drivers.firmware.manifest import chosen_manifest
from drivers.world.linux import LinuxWorld
from tests import firmware_maker as maker
from tests.support import check

ROOT = Path(__file__).parent.parent.parent
GOOD = maker.manifest_toml({"imu_x.bin": ("IMU", b"abc"), "rlc_x.bin": ("RLC", b"d")})
CHIPS = {"gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942"}


def test_ours_has_every_chip_with_its_blocks() -> None:
    manifest = shipped_manifest("amd")
    check(set(manifest.chips) == CHIPS, f"{set(manifest.chips)}")
    for arch in manifest.chips:
        blocks = [entry.block for entry in manifest.needs(arch)]
        expected = {"PSP", "SMU", "SDMA", "MEC", "RLC"}
        expected |= set() if arch == "gfx942" else {"IMU"}
        expected |= {"PFP", "ME"} if arch.startswith("gfx12") else set()
        check(sorted(blocks) == sorted(expected), f"{arch}: {blocks}")


SIZES = {  # src: `ls -l` of Debian's firmware-amd-graphics 20260916-1
    "gfx1100": (272400, 292452, 34560, 406528, 132352, 185376),
    "gfx1102": (248496, 287080, 34560, 406528, 132352, 178848),
    "gfx1201": (435632, 333236, 47104, 354912, 463424, 451552, 132352, 150848),
    "gfx942": (787040, 3748, 34304, 268736, 38708),
}


@pytest.mark.parametrize("arch", SIZES)
def test_sizes_of_the_latest_release(arch: str) -> None:
    versions = [entry.versions[0] for entry in shipped_manifest("amd").needs(arch)]
    check(tuple(one.nbytes for one in versions) == SIZES[arch], f"{versions}")
    check(all("20260916-1" in one.releases for one in versions), f"{versions}")


@pytest.mark.parametrize(
    ("arch", "device", "revision", "changed"),
    [
        ("gfx1100", 0x744C, 0xC8, set()),
        ("gfx1100", 0x744B, 0x00, {"PSP", "SMU", "IMU", "RLC"}),
        ("gfx1100", 0x744C, 0xCE, {"RLC"}),
        ("gfx1201", 0x7551, 0xC8, {"PSP", "SMU", "IMU", "RLC"}),
        ("gfx1201", 0x7550, 0xC8, set()),
    ],
)
def test_cards_that_want_other_files(
    arch: str, device: int, revision: int, changed: set[str]
) -> None:
    manifest = shipped_manifest("amd")
    usual = {entry.block: entry.name for entry in manifest.needs(arch)}
    found = {entry.block: entry.name for entry in manifest.needs(arch, device, revision)}
    check({block for block in usual if usual[block] != found[block]} == changed, f"{found}")


def test_unknown_chips_are_told_the_known_ones() -> None:
    with pytest.raises(Unsupported, match="gfx1201, gfx942"):
        shipped_manifest("amd").needs("gfx803")


def test_no_firmware_is_in_the_repository_and_the_manifest_is_packed() -> None:
    blobs = [path for path in (ROOT / "firmware_manifests").iterdir() if path.suffix == ".bin"]
    check(blobs == [], f"{blobs}")
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    check(packed["package-data"]["firmware_manifests"] == ["*.toml"], "not in wheels")


DIGEST = b"ba7816bf"  # src: FIPS 180-2, appendix B.1: SHA-256 of "abc"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (b'folder = "amdgpu"', b'folder = "../etc"', "'folder' is not like"),
        (b'name = "imu_x.bin"', b'name = "../../x.bin"', "'name' is not like"),
        (b'name = "imu_x.bin"', b'name = "rlc_x.bin"', "a second time"),
        (b'name = "imu_x.bin"', b'name = "sdma_x.bin"', "needs a file that is not described"),
        (b'"imu_x.bin", "rlc_x.bin"]', b'"imu_x.bin", "imu_x.bin"]', "names something twice"),
        (b"size = 3", b"size = -3", "'size' is not a number"),
        (b"size = 3", b"size = true", "'size' is not a number"),
        (b"size = 3", b"size = 16777217", "'size' is not a number in 0 ... 16777216"),
        (b"size = 3", b"extra = 1, size = 3", "unknown keys: ['extra']"),
        (b"size = 3, ", b"", "has no 'size'"),
        (DIGEST, b"xx7816bf", "'sha256' is not like"),
        (b'["r1"]', b'["r2"]', "a release that is not described: r2"),
        (b'["r1"]', b"[]", "is empty"),
        (b'["r1"]', b"[[[1]]]", "'releases' is not like"),
        (b"versions = [\n", b"versions = 7\nother = [\n", "'versions' is not a list"),
        (b"[[chip]]", b"[chip]", "'chip' is not a list"),
        (b"[packages]", b"[[packages]]", "is not a table"),
        (b"folder", b"\xfffolder", "is not TOML"),
        (b"folder", b"[" * 9000 + b"folder", "is not TOML"),
        (b"folder", b"x = " + b"[" * 9000 + b"\nfolder", "is not TOML"),
        (b"folder", b" " * 70_000 + b"folder", "is longer than 65536 bytes"),
    ],
)
def test_wrong_manifests_are_told_where(old: bytes, new: bytes, rule: str) -> None:
    check(GOOD.count(old) >= 1, f"{old!r} is not in the manifest")
    with pytest.raises(MalformedInput) as caught:
        read_manifest(GOOD.replace(old, new, 1), "made-up.toml")
    check(rule in str(caught.value) and "made-up.toml" in str(caught.value), str(caught.value))
    check(len(str(caught.value)) < 400, "an endless message")


def test_the_limit_is_one(tmp_path: Path) -> None:
    """A manifest that the user names: 64 KiB are read as ours is, one byte more is refused."""
    path, world = tmp_path / "own.toml", LinuxWorld()
    path.write_bytes(GOOD + b"#" * (LIMIT_BYTES - len(GOOD)))
    check(chosen_manifest(world, str(path), "amd") == read_manifest(GOOD, ""))
    path.write_bytes(GOOD + b"#" * (LIMIT_BYTES - len(GOOD) + 1))
    with pytest.raises(MalformedInput, match="is longer than 65536 bytes"):
        chosen_manifest(world, str(path), "amd")


def test_a_replacement_must_be_a_described_file() -> None:
    variant = b'\n[[chip.variant]]\nrevision = 1\nreplace = [["imu_x.bin", "imu_y.bin"]]\n[[file]]'
    with pytest.raises(MalformedInput, match=r"not described: imu_y\.bin"):
        read_manifest(GOOD.replace(b"\n[[file]]", variant, 1), "made-up.toml")
    read_manifest(GOOD.replace(b"\n[[file]]", variant.replace(b"imu_y", b"rlc_x"), 1), "good")
