"""Packets against the vendor's C headers, as the C compiler sees them.

The headers are looked for in the folders of $AMD_PACKET_HEADERS, in an unpacked Debian
linux-source package and in the ROCm runtime's include folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packet_golden import Golden
from tests.packet_golden_aql import AQL
from tests.packet_golden_pm4 import PM4
from tests.packet_golden_sdma import SDMA
from tests.support import check

KERNEL_FOLDERS = "linux-source-*/drivers/gpu/drm/amd/amdgpu"


def folders() -> list[Path]:
    named = [Path(name) for name in os.environ.get("AMD_PACKET_HEADERS", "").split(":") if name]
    return [*named, *sorted(Path("/usr/src").glob(KERNEL_FOLDERS)), Path("/usr/include/hsa")]


def program(golden: Golden, header: Path) -> str:
    lines = ["#include <stdint.h>", "#include <stdio.h>", "#include <string.h>"]
    lines += [f'#include "{header.name}"', "int main(void) {"]
    if golden.struct:
        lines += [f"{golden.struct} p = {golden.c};", "uint32_t w[sizeof p / 4];"]
        lines += ["memcpy(w, &p, sizeof p);"]
    else:
        lines += [f"uint32_t w[] = {{{golden.c}}};"]
    lines += ['for (unsigned i = 0; i < sizeof w / 4; i++) printf("%08x ", w[i]); }']
    return "\n".join(lines)


def compiled(golden: Golden, tmp_path: Path) -> str:
    """What a C compiler makes of the vendor's macros; skips, saying why, when that cannot be."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("neither gcc nor clang is on PATH")
    found = [folder / golden.header for folder in folders() if (folder / golden.header).exists()]
    if not found:
        pytest.skip(f"{golden.header} is in no folder of AMD_PACKET_HEADERS or linux-source")
    (tmp_path / "packet.c").write_text(program(golden, found[0]))
    options = ["-w", "-D_GNU_SOURCE", "-DLITTLEENDIAN_CPU", "-I", str(found[0].parent)]
    command = [compiler, *options, "-o", str(tmp_path / "packet"), str(tmp_path / "packet.c")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    result = subprocess.run([tmp_path / "packet"], capture_output=True, timeout=60, check=True)
    return result.stdout.decode().strip()


@pytest.mark.parametrize("golden", [*PM4, *SDMA, *AQL], ids=lambda golden: golden.name)
def test_recorded_words_are_what_the_headers_say(golden: Golden, tmp_path: Path) -> None:
    words = compiled(golden, tmp_path)
    check(words == golden.words, f"the compiler says {words}, recorded are {golden.words}")
