"""Which register file serves which version of a block, against the kernel's own choice of code.

The kernel picks a source file by a block's IP version, and the source file includes one header. So
all versions that it hands to one source file have to have that header's register file here.
"""

from __future__ import annotations

import re

import pytest

from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.registers import FILES
from tests.references import linux_source
from tests.support import check

AMDGPU = linux_source() / "drivers/gpu/drm/amd/amdgpu"
CASE = re.compile(r"\s*case IP_VERSION\((\d+), (\d+), (\d+)\):")
CHOICES = [
    (HwId.OSSSYS, "amdgpu_discovery.c", "&ih_v6_0_ip_block", "ih_v6_0.c", "osssys_6_0_0"),
    (HwId.OSSSYS, "amdgpu_discovery.c", "&ih_v7_0_ip_block", "ih_v7_0.c", "osssys_7_0_0"),
    (HwId.HDP, "amdgpu_discovery.c", "&hdp_v6_0_funcs", "hdp_v6_0.c", "hdp_6_0_0"),
    (HwId.HDP, "amdgpu_discovery.c", "&hdp_v7_0_funcs", "hdp_v7_0.c", "hdp_7_0_0"),
    (HwId.NBIF, "amdgpu_discovery.c", "&nbio_v4_3_funcs", "nbio_v4_3.c", "nbio_4_3_0"),
    (HwId.NBIF, "amdgpu_discovery.c", "&nbio_v7_9_funcs", "nbio_v7_9.c", "nbio_7_9_0"),
    (HwId.NBIF, "amdgpu_discovery.c", "&nbif_v6_3_1_funcs", "nbif_v6_3_1.c", "nbif_6_3_1"),
    (HwId.MMHUB, "gmc_v9_0.c", "&mmhub_v1_8_funcs", "mmhub_v1_8.c", "mmhub_1_8_0"),
    (HwId.MMHUB, "gmc_v11_0.c", "&mmhub_v3_0_2_funcs", "mmhub_v3_0_2.c", "mmhub_3_0_2"),
    (HwId.MMHUB, "gmc_v12_0.c", "&mmhub_v4_1_0_funcs", "mmhub_v4_1_0.c", "mmhub_4_1_0"),
]


def handed_to(text: str, name: str) -> set[tuple[int, ...]]:
    """The versions of the cases right above the line that names some code."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if name in line)
    found: set[tuple[int, ...]] = set()
    for line in reversed(lines[:at]):
        case = CASE.match(line)
        if case:
            found.add(tuple(map(int, case.groups())))
        elif found or "break;" in line:
            break
    return found


@pytest.mark.skipif(not AMDGPU.is_dir(), reason="no kernel source: make references")
@pytest.mark.parametrize(("hw", "switch", "code", "source", "file"), CHOICES)
def test_versions_of_a_file(hw: HwId, switch: str, code: str, source: str, file: str) -> None:
    wanted = handed_to((AMDGPU / switch).read_text(), code)
    ours = {version for version, name in FILES[hw].items() if name == file}
    check(wanted and ours == wanted, f"{hw.name}: ours {ours}, the kernel's {wanted}")
    check(f"/{file}_offset.h" in (AMDGPU / source).read_text(), f"{source} has another header")


def test_every_case_above_a_line_counts() -> None:
    text = (
        "case IP_VERSION(1, 2, 3):\nbreak;\ncase IP_VERSION(4, 5, 6):\n case IP_VERSION(7, 8, 9):\n"
    )
    check(handed_to(f"{text}\tx = &code;\n", "&code") == {(4, 5, 6), (7, 8, 9)})
