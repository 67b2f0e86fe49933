"""Data files are what their generators make of the kernel's headers, byte for byte.

UNBOUND_LINUX_SOURCE names a kernel source; `make references` fetches Debian's.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from generators.registry import GENERATORS, differs
from generators.source import Source, Unreadable
from tests.references import linux_source
from tests.support import check

ROOT = Path(__file__).parents[2]
LINUX = linux_source()
OUTPUTS = {output: one for one in GENERATORS for output in one.outputs}
FOLDERS = (
    "drivers/amd/pci/registers/", "boards/amd/pci/registers/", "boards/amd/pci/smu_data/",
    "boards/amd/pci/register_names/",
)  # fmt: skip
NEEDS_LINUX = pytest.mark.skipif(
    not (LINUX / "drivers/gpu/drm/amd").is_dir(), reason="no kernel source: make references"
)
DIGEST = re.compile(r"[0-9a-f]{64}")


def test_every_data_file_has_one_generator() -> None:
    found = {
        str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).iterdir()
    }
    made = {output for output in OUTPUTS if output.startswith(FOLDERS)}
    check(found == made, f"{found ^ made}")
    check(len(OUTPUTS) == sum(len(one.outputs) for one in GENERATORS), "two make one file")


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_head_names_generator_and_inputs(output: str) -> None:
    head = (ROOT / output).read_text("ascii")[:2000]
    check(OUTPUTS[output].command(output) in head, output)
    check(len(DIGEST.findall(head)) >= 1 and "Linux 6.12, drivers/gpu" in head, output)


@NEEDS_LINUX
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_file_is_what_its_generator_makes(output: str) -> None:
    made = OUTPUTS[output].make(Source(LINUX), output)
    check(not differs((ROOT / output).read_text("ascii"), made), OUTPUTS[output].command(output))


@NEEDS_LINUX
def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    """Of another release, too, whose digests differ: what was taken from it decides."""
    output = "drivers/amd/pci/registers/hdp_6_0_0.txt"
    recorded, reading = (ROOT / output).read_text("ascii"), Source(LINUX)
    OUTPUTS[output].make(reading, output)
    for path in reading.digests:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(LINUX / path, tmp_path / path)
    offsets = tmp_path / next(iter(reading.digests))
    text = offsets.read_text()
    offsets.write_text(text + "\n")
    made = OUTPUTS[output].make(Source(tmp_path), output)
    check(made != recorded and not differs(recorded, made), "a line more changes no register")
    changed = re.sub(r"(#define regHDP_NONSURFACE_BASE\s+0x)0040", r"\g<1>0048", text)
    check(changed != text, "HDP_NONSURFACE_BASE is spelled in another way")
    offsets.write_text(changed)
    check(differs(recorded, OUTPUTS[output].make(Source(tmp_path), output)), "it moved")
    offsets.unlink()
    with pytest.raises(Unreadable):
        OUTPUTS[output].make(Source(tmp_path), output)
