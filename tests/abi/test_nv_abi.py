"""The declarations of NVIDIA's escapes, controls and UVM ioctls against NVIDIA's own headers.

Six releases of the open kernel modules are kept as tables (`tests/abi/nv_header.py` makes them);
the headers of Debian's package are compiled where they were fetched: they have UVM's part.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from drivers.base.errors import MalformedInput, Unsupported
from drivers.nv.nvk.abi import TABLES, Abi, abi_of, parse_version
from tests.abi.nv_header import KERNEL_HEADERS, evaluate, expectations, kernel_part
from tests.c_compiler import CCompiler
from tests.references import NVIDIA, find
from tests.support import check

RELEASES: dict[str, dict[str, int]] = json.loads(
    (Path(__file__).parent / "nv_headers.json").read_text()
)
SIZES_610 = {"channel": 376, "va_space": 56, "uvm_free": 16, "unregister_channel": 12}
"""# src: google/gvisor pkg/abi/nvgpu/frontend.go, NV_CHANNEL_ALLOC_PARAMS_V610"""


def differences(expected: dict[str, int], values: dict[str, int]) -> list[str]:
    return [
        f"{name} is {values.get(name, 'missing')}, not {value}"
        for name, value in expected.items()
        if values.get(name) != value
    ]


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_table_of_a_release(release: str) -> None:
    values, expected = RELEASES[release], expectations(release)
    wrong = differences(expected, values)
    check(not wrong, f"{release}: " + "; ".join(wrong))
    check(len(expected) > 500, "a table with nothing in it proves nothing")


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_another_table_would_not_do(release: str) -> None:
    """The releases differ, and the choice follows: the neighbour's structs have other sizes."""
    chosen = abi_of(release)
    for other in TABLES:
        if other.since != chosen.since:
            version = f"{other.since}.288.01"
            check(bool(differences(expectations(version), RELEASES[release])), version)


def test_the_newest_release() -> None:
    table: Abi = abi_of("610.43.02")
    sizes = {
        "channel": table.channel.SIZE, "va_space": table.va_space.SIZE,
        "uvm_free": table.uvm_free.args.SIZE,
        "unregister_channel": table.unregister_channel.args.SIZE,
    }  # fmt: skip
    check(sizes == SIZES_610, str(sizes))


def test_versions_are_chosen_by_number() -> None:
    expected = {
        "535.86.05": 535, "535.288.01": 535, "550.54.14": 550, "565.57.01": 550,
        "570.86.15": 570, "575.64": 570, "580.65.06": 580,
        "590.44.01": 590, "595.45.04": 590, "610.43.02": 610,
    }  # fmt: skip
    check({version: abi_of(version).since for version in expected} == expected)


def test_a_newer_driver_warns_and_an_older_one_is_refused() -> None:
    with pytest.warns(RuntimeWarning, match=re.escape("999.10 is newer")):
        check(abi_of("999.10").since == 610)
    for old in ("525.147.05", "535.54.03", "390.157"):
        with pytest.raises(Unsupported, match=re.escape("older than 535.86.05")):
            abi_of(old)
    for old in ("545.29.06", "550.40.07", "550.54.13"):
        with pytest.raises(Unsupported, match=re.escape("535 and 550.54.14")):
            abi_of(old)


@pytest.mark.parametrize("text", ["", "580", "580.a", "5.8.0.1", "580.-1", "\u0665.1", "9" * 99])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(MalformedInput):
        parse_version(text)


@pytest.mark.skipif(find(NVIDIA) is None, reason="no NVIDIA headers: make references")
def test_the_headers_of_debian(c_compiler: CCompiler, tmp_path: Path) -> None:
    tree = find(NVIDIA)
    check(tree is not None)
    if tree is None:
        return
    release = re.search(r"NV_VERSION_STRING=\D*([\d.]+)", (tree / "Kbuild").read_text())
    check(release is not None, "Kbuild names no version")
    if release is None:
        return
    expected = kernel_part(expectations(release[1]))
    check(len(expected) > 100, f"{len(expected)} expectations")
    found = evaluate(c_compiler, tree, list(expected), tmp_path, KERNEL_HEADERS)
    wrong = differences(expected, found)
    check(not wrong, f"{release[1]}: " + "; ".join(wrong))
