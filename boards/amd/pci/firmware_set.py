"""All firmware files of a chip under their real names, and a manifest that knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from boards.amd.chip_data import NUMBERS, Numbers
from boards.amd.cp.engine_types import Version
from boards.amd.pci.firmware_file import Made
from boards.amd.pci.firmware_maker import imu, old_cp, p2s, psp, rlc, rs64, sdma, smu
from boards.amd.pci.psp_names import PARTS

NAMES = tuple(name for name, n in NUMBERS.items() if n.mp in PARTS)
"""Chips that a bare machine can have: those whose security processor is known here."""
FOLDER = "/lib/firmware/amdgpu"
"""Where a machine has its firmware. src: docs of linux-firmware"""
MANIFEST = "/usr/share/unbound-board/amd.toml"
"""Where a board's world has the manifest of its synthetic files."""
_RELEASE = "synthetic"


def gpu(arch: str) -> dict[str, Made]:
    """By block, everything that one GPU needs; the headers are of the versions it ships with."""
    n = NUMBERS[arch]
    major = n.mp[0]
    if n.family == "gfx9":
        boot = psp(PARTS[n.mp], aux=PARTS[n.mp])
        rest = {"SMU": p2s(), "SDMA": sdma(1), "MEC": old_cp("MEC"), "RLC": rlc(1, gfx=9)}
        return {"PSP": boot, **rest}
    small = ("save_restore_list_cntl",)
    boot = psp(PARTS[n.mp], ip=(major, 0))
    if n.family == "gfx12":
        cores = {block: rs64(block, 12) for block in ("PFP", "ME", "MEC")}
        files = {"PSP": boot, "SMU": smu(0, (14, 0)), "SDMA": sdma(3), **cores}
        return {**files, "IMU": imu(12), "RLC": rlc(2, 12, small)}
    files = {"PSP": boot, "SMU": smu(1), "SDMA": sdma(2), "MEC": rs64("MEC", 11)}
    return {**files, "IMU": imu(), "RLC": rlc(3, 11, small)}


def _dotted(version: Version) -> str:
    return "_".join(str(part) for part in version)


def file_name(n: Numbers, block: str) -> str:
    """src: amdgpu_ucode.c amdgpu_ucode_ip_version_decode(), and who calls it"""
    names = {"PSP": f"psp_{_dotted(n.mp)}_sos", "SMU": f"smu_{_dotted(n.mp)}"}
    names["SDMA"] = f"sdma_{_dotted(n.sdma)}"
    return names.get(block, f"gc_{_dotted(n.gc)}_{block.lower()}") + ".bin"


def named(arch: str) -> dict[str, tuple[str, bytes]]:
    """File name to (block, contents)."""
    n = NUMBERS[arch]
    return {file_name(n, block): (block, made.data) for block, made in gpu(arch).items()}


def manifest(chips: Mapping[str, Mapping[str, tuple[str, bytes]]]) -> bytes:
    """A manifest of these chips' files, in the format of firmware_manifests/amd.toml."""
    lines = ['folder = "amdgpu"', 'licence = "made up"', "", "[packages]", 'debian = "made-up"', ""]
    lines += ["[[release]]", f'name = "{_RELEASE}"', 'origin = "the board itself"', ""]
    files: dict[str, tuple[str, bytes]] = {}
    for arch, needed in chips.items():
        lines += ["[[chip]]", f'arch = "{arch}"', 'blocks = "made up"']
        lines += [f"files = {json.dumps(list(needed))}", ""]
        files |= needed
    for name, (block, data) in files.items():
        digest = hashlib.sha256(data).hexdigest()
        version = f'{{ size = {len(data)}, sha256 = "{digest}", releases = ["{_RELEASE}"] }}'
        lines += ["[[file]]", f'name = "{name}"', f'block = "{block}"']
        lines += ["versions = [", f"    {version},", "]", ""]
    return "\n".join(lines).encode()


def world_files(archs: Iterable[str]) -> dict[str, bytes]:
    """Path to contents: what a machine with these GPUs has on its disk, the manifest included."""
    chips = {arch: named(arch) for arch in dict.fromkeys(archs)}
    files = {f"{FOLDER}/{name}": data for one in chips.values() for name, (_, data) in one.items()}
    return {**files, MANIFEST: manifest(chips)}
