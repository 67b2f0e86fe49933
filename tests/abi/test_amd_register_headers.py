"""Register files against the kernel's own headers, where a kernel source tree is there.

UNBOUND_LINUX_SOURCE names one; `make references` fetches Debian's.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.references import linux_source
from tests.support import check

HEADERS = linux_source() / "drivers/gpu/drm/amd/include/asic_reg"
FILES = Path(__file__).parents[2] / "drivers/amd/pci/registers"
DEFINE = re.compile(r"#define (?:reg|mm)?(\w+?)(__\w+_MASK|_BASE_IDX)?\s+(0x[0-9a-fA-F]+|\d+)L?$")


def defines(path: Path) -> dict[str, int]:
    """Everything that a header defines as a number, without reg or mm."""
    found = (DEFINE.match(line.rstrip()) for line in path.read_text("latin-1").splitlines())
    return {m[1] + (m[2] or ""): int(m[3], 0) for m in found if m}


@pytest.mark.skipif(not HEADERS.is_dir(), reason="no kernel source: make references")
@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.txt")))
def test_offsets_segments_and_fields(name: str) -> None:
    text = (FILES / f"{name}.txt").read_text("ascii")
    lines = text.splitlines()
    offsets_path = re.search(r"^# src: .*asic_reg/(\S+)_offset\.h", text, re.MULTILINE)
    check(offsets_path is not None, name)
    offsets = defines(HEADERS / f"{offsets_path[1]}_offset.h")
    masks = defines(HEADERS / f"{offsets_path[1]}_sh_mask.h")
    seen: dict[str, list[str]] = {}
    wrong, compared = [], 0
    for line in lines:
        register, *rest = line.split()
        if register in ("#", "role"):
            continue
        segment, offset, *fields = rest
        if (offsets.get(register), offsets.get(f"{register}_BASE_IDX")) != (
            int(offset, 16), int(segment),
        ):  # fmt: skip
            wrong.append(f"{register}: {line}")
        seen[register] = seen[fields[0][1:]] if fields and fields[0][0] == "=" else fields
        for field in seen[register]:
            label, _, bits = field.partition(":")
            low, _, high = bits.partition("-")
            mask = (1 << int(high or low) + 1) - (1 << int(low))
            names = spellings(register, label)
            values = {masks[one] for one in names if one in masks}
            compared += len(values)
            if values and mask not in values:
                wrong.append(f"{register}.{field}: {values}")
    check(not wrong, "\n".join(wrong[:20]))
    check(compared or "mp" in name, "no field was compared")


def spellings(register: str, field: str) -> list[str]:
    """How the headers may spell a field of a register, whose copies share one definition."""
    number = re.search(r"_ENTRY_(\d+)", register)
    at = number[1] if number else ""
    owners = {register, re.sub("^BIF_BX_PF0_", "BIF_BX_PF_", register),
              register.replace("SDMA1", "SDMA0").replace("QUEUE1", "QUEUE0")}  # fmt: skip
    names = {field, f"s2a_doorbell_port{at}_{field}", f"bif_doorbell{at}_{field}_entry",
             f"doorbell{at}_{field}_entry"}  # fmt: skip
    return [f"{owner}__{name.upper()}_MASK" for owner in owners for name in names]
