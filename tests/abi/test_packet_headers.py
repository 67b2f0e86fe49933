"""Packets against the vendor's C headers, as the C compiler sees them.

The headers are looked for in a kernel source tree (UNBOUND_LINUX_SOURCE, or Debian's, which
`make references` fetches) and in the ROCm runtime's include folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import references
from tests.c_compiler import any_compiler
from tests.packet_golden import Golden
from tests.packet_golden_aql import AQL
from tests.packet_golden_pm4 import PM4
from tests.packet_golden_sdma import SDMA
from tests.references import linux_source
from tests.support import check

FOLDERS = (
    linux_source() / "drivers/gpu/drm/amd/amdgpu", references.find(references.HSA),
    Path("/usr/include/hsa"),
)  # fmt: skip


def unit(golden: Golden, header: Path) -> str:
    """A translation unit whose constant `p` is the packet."""
    kind, value = (golden.struct, golden.c) if golden.struct else ("uint32_t", f"{{{golden.c}}}")
    of_words = "" if golden.struct else "[]"
    return f'#include <stdint.h>\n#include "{header.name}"\nconst {kind} p{of_words} = {value};\n'


def compiled(golden: Golden, tmp_path: Path) -> str:
    """What a C compiler makes of the vendor's macros; skips, saying why, when that cannot be."""
    paths = [folder / golden.header for folder in FOLDERS if folder is not None]
    found = [path for path in paths if path.exists()]
    if not found:
        pytest.skip(f"no {golden.header}: make references")
    options = ["-w", "-D_GNU_SOURCE", "-DLITTLEENDIAN_CPU", "-I", str(found[0].parent)]
    packet = any_compiler().constant(unit(golden, found[0]), "p", tmp_path, *options)
    return " ".join(f"{word:08x}" for word in memoryview(packet).cast("I"))


@pytest.mark.parametrize("golden", [*PM4, *SDMA, *AQL], ids=lambda golden: golden.name)
def test_recorded_words_are_what_the_headers_say(golden: Golden, tmp_path: Path) -> None:
    words = compiled(golden, tmp_path)
    check(words == golden.words, f"the compiler says {words}, recorded are {golden.words}")
