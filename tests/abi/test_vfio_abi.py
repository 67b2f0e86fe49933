"""The declarations of VFIO and iommufd against the kernel's headers, as the C compiler sees them.

The headers that C compilers of this machine come with are compiled; what gcc made of Linux 6.12's
is kept as a table, for machines with older ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivers.pci import iommufd_abi, vfio_abi
from tests.abi.vfio_header import (
    CDEV_NUMBERS,
    CDEV_STRUCTS,
    CONFIG,
    GROWN,
    HEADERS,
    IOMMUFD_STRUCTS,
    VFIO_STRUCTS,
    everything,
    facts,
    layout,
    vfio_constants,
)
from tests.c_compiler import CCompiler
from tests.references import linux_source
from tests.support import check


def wrong_of(compiler: CCompiler, header: str, folder: Path, expected: dict[str, int]) -> list[str]:
    """What of `expected` the C compiler does not find in a header of its own.

    A struct that grew is no difference: the kernel reads as much as `argsz` says.
    """
    if not (compiler.include / header).exists():
        pytest.skip(f"<{header}> is older than Linux 6.2: install a newer linux-libc-dev")
    values = compiler.values([header], list(expected), folder)
    pairs = zip(expected.items(), values, strict=True)
    return [
        f"{name} is {value}, not {known}"
        for (name, known), value in pairs
        if value != known and not (name in GROWN and value > known)
    ]


def has_cdev(compiler: CCompiler) -> bool:
    """Whether the headers know VFIO's character devices: Linux 6.6 and later."""
    return "VFIO_DEVICE_BIND_IOMMUFD" in (compiler.include / "linux/vfio.h").read_text()


def test_vfio(c_compiler: CCompiler, tmp_path: Path) -> None:
    numbers = {n: v for n, v in vfio_abi.NUMBERS.items() if n not in CDEV_NUMBERS}
    check(len(numbers) == 14, str(sorted(numbers)))
    expected = numbers | layout(VFIO_STRUCTS) | vfio_constants()
    if not has_cdev(c_compiler):
        expected["sizeof(struct vfio_device_info)"] = 20  # src: Linux 6.1: without the padding
    wrong = wrong_of(c_compiler, "linux/vfio.h", tmp_path, expected)
    check(not wrong, "; ".join(wrong))


def test_vfio_character_devices(c_compiler: CCompiler, tmp_path: Path) -> None:
    if not has_cdev(c_compiler):
        pytest.skip("<linux/vfio.h> is older than Linux 6.6")
    expected = {n: vfio_abi.NUMBERS[n] for n in CDEV_NUMBERS} | layout(CDEV_STRUCTS)
    wrong = wrong_of(c_compiler, "linux/vfio.h", tmp_path, expected)
    check(not wrong, "; ".join(wrong))


def test_iommufd(c_compiler: CCompiler, tmp_path: Path) -> None:
    flags = {f"IOMMU_IOAS_MAP_{f.name}": int(f) for f in iommufd_abi.MapFlag}
    expected = iommufd_abi.NUMBERS | layout(IOMMUFD_STRUCTS) | flags
    wrong = wrong_of(c_compiler, "linux/iommufd.h", tmp_path, expected)
    check(not wrong, "; ".join(wrong))


def test_config_space(c_compiler: CCompiler, tmp_path: Path) -> None:
    wrong = wrong_of(c_compiler, "linux/pci_regs.h", tmp_path, CONFIG)
    check(not wrong, "; ".join(wrong))


def test_the_table_of_linux_6_12() -> None:
    expected = json.loads((Path(__file__).parent / "vfio_headers.json").read_text())["values"]
    found = everything()
    wrong = {name: value for name, value in found.items() if expected.get(name) != value}
    check(not wrong and set(found) == set(expected), str(wrong))
    check(len(expected) > 190, "a table with nothing in it proves nothing")


@pytest.mark.skipif(
    not (linux_source() / HEADERS[0]).exists(), reason="no kernel source: make references"
)
def test_the_table_is_what_its_program_prints() -> None:
    """Of the same headers, byte for byte; of another 6.12, the same numbers."""
    recorded = json.loads((Path(__file__).parent / "vfio_headers.json").read_text())
    found = facts(linux_source())
    if found["sha256"] == recorded["sha256"]:
        check(found == recorded, "python -m tests.abi.vfio_header LINUX")
    check(found["values"] == recorded["values"], "another release of Linux?")


def test_a_wrong_declaration_is_noticed(c_compiler: CCompiler, tmp_path: Path) -> None:
    wrong = wrong_of(c_compiler, "linux/vfio.h", tmp_path, {"VFIO_BASE": 99, "VFIO_API_VERSION": 0})
    check(wrong == ["VFIO_BASE is 100, not 99"], str(wrong))
