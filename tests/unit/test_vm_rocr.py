"""What counts as a right run of ROCr in the guest."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.debian import CannotRun
from tests.support import check
from tests.vm import rocr
from tests.vm.lab import LabError
from tests.witness.rocr import CHECKS
from tests.witness.roots import Root

AGENT = "\n*******\nAgent 2\n*******\n  Name:        gfx1100\n  Compute Unit:      {}\n"


def test_every_result_has_to_be_there_and_right() -> None:
    right = ["ok: something"] * CHECKS
    check(rocr.client("gfx1100", lambda line: "\n".join(right)) == f"{CHECKS} results right")
    for lines in (right[1:], [*right, "WRONG: fill: 3 wrong"]):
        with pytest.raises(LabError):
            rocr.client("gfx1100", lambda line, lines=lines: "\n".join(lines))


def test_rocminfo_has_to_list_the_chip_with_its_compute_units() -> None:
    """src: AMD's data sheet of the RX 7900 XTX: 96 compute units"""
    check(rocr.rocminfo("gfx1100", lambda line: AGENT.format(96)) == "agent gfx1100")
    for said in (AGENT.format(48), "ROCk module is NOT loaded"):
        with pytest.raises(LabError):
            rocr.rocminfo("gfx1100", lambda line, said=said: said)


def test_a_root_that_lacks_a_library_is_refused(tmp_path: Path) -> None:
    found = find_spec("_cffi_backend")  # an ELF file, which sys.executable need not be
    if found is None or found.origin is None:
        raise AssertionError("cffi has no library")
    program = Path(found.origin)
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    with pytest.raises(CannotRun, match="libdrm_amdgpu"):
        list(rocr.libraries(Root("none", tmp_path, ()), [program]))
