"""Synthetic firmware for tests of drivers: the boards' maker, and files of every header version."""

from __future__ import annotations

import hashlib
import json

from boards.amd.pci.firmware_file import ENUMS, HEADERS, Made
from boards.amd.pci.firmware_maker import (
    P2S_3,
    P2S_X,
    PSP_KINDS,
    imu,
    old_cp,
    p2s,
    psp,
    psp_v1,
    rlc,
    rs64,
    sdma,
    smu,
)
from boards.amd.pci.firmware_set import gpu
from boards.amd.pci.payload import RS64_START as START

__all__ = [
    "ENUMS", "HEADERS", "P2S_3", "P2S_X", "PSP_KINDS", "START", "Made", "every_file", "gpu",
    "gpu_files", "imu", "manifest_toml", "p2s", "psp", "rlc",
]  # fmt: skip


def every_file() -> dict[str, tuple[str, Made]]:
    """One file of every version: its name here, the block that takes it, what it is."""
    made: dict[str, tuple[str, Made]] = {
        "psp_2_0": ("PSP", psp()),
        "psp_2_1": ("PSP", psp(aux=("KDB", "SOS"))),
        "smu_1_0": ("SMU", smu(-1)),
        "smu_2_0": ("SMU", smu(0)),
        "smu_2_1": ("SMU", smu(1)),
        "p2s": ("SMU", p2s()),
        "sdma_1_0": ("SDMA", sdma(1)),
        "sdma_1_1": ("SDMA", sdma(1, 1)),
        "sdma_2_0": ("SDMA", sdma(2)),
        "sdma_3_0": ("SDMA", sdma(3)),
        "imu": ("IMU", imu()),
    }
    made |= {f"psp_1_{minor}": ("PSP", psp_v1(minor)) for minor in range(4)}
    made |= {f"rlc_2_{minor}": ("RLC", rlc(minor)) for minor in range(5)}
    for block in ("PFP", "ME", "MEC"):
        made[f"{block}_1"] = (block, old_cp(block))
        made |= {f"{block}_gfx{gfx}": (block, rs64(block, gfx)) for gfx in (11, 12)}
    return made


def manifest_toml(files: dict[str, tuple[str, bytes]], arch: str = "gfx1100") -> bytes:
    """The manifest of these files (name to block and contents) and one chip that needs them all."""
    lines = ['folder = "amdgpu"', 'licence = "made up"', "[packages]", 'debian = "made-up"']
    lines += ["[[release]]", 'name = "r1"', 'origin = "tests/firmware_maker.py"', "[[chip]]"]
    lines += [f'arch = "{arch}"', 'blocks = "made up"', f"files = {json.dumps(list(files))}"]
    for name, (block, data) in files.items():
        digest = hashlib.sha256(data).hexdigest()
        lines += ["[[file]]", f'name = "{name}"', f'block = "{block}"', "versions = ["]
        lines += [f'{{ size = {len(data)}, sha256 = "{digest}", releases = ["r1"] }},', "]"]
    return ("\n".join(lines) + "\n").encode()


def gpu_files(arch: str) -> dict[str, tuple[str, bytes]]:
    """Names, blocks and contents of a made-up GPU's firmware, as `manifest_toml` takes them."""
    return {f"{block.lower()}_{arch}.bin": (block, made.data) for block, made in gpu(arch).items()}
