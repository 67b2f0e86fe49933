"""README's table counts chips: no more than there are boards, and than tests run tensors on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from boards.vendors import VENDORS
from tests.boards import test_chips_compute as some
from tests.boards import test_nv_tensors_chips as nv
from tests.boards import test_tensor_on_boards as many
from tests.qcom_devices import CHIPS as ADRENOS
from tests.support import check

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
BOARDS = {vendor.device: vendor for vendor in VENDORS}


def chips_on(iface: str) -> set[str]:
    """AMD's chips on whose boards tests run tensors, over an interface."""
    every: list[Any] = [many.FULL, *many.OTHERS]
    tuples = [getattr(each, "values", (each,))[0] for each in every]
    found = {each[0] for each in tuples if (each[3:4] or ("KFD",))[0] == iface}
    return found | {chip for chip, over in some.CHIPS if over == iface}


def cell(start: str) -> str:
    """What the row that begins so says of software boards."""
    row = next(line for line in README.splitlines() if line.startswith(f"| {start}"))
    return row.split("|")[3]


@pytest.mark.parametrize(
    ("row", "names", "computing"),
    [
        ("AMD gfx9 to gfx12", BOARDS["AMD"].names, chips_on("KFD")),
        ("AMD gfx942, gfx11, gfx12", BOARDS["AMD"].pci_names, chips_on("PCI")),
        ("NVIDIA, Turing", BOARDS["NV"].names, {"ga102", *nv.CHIPS}),
        ("Qualcomm", BOARDS["QCOM"].names, set(ADRENOS)),
    ],
)
def test_a_row_counts_boards_and_tests(
    row: str, names: tuple[str, ...], computing: set[str]
) -> None:
    text = cell(row)
    counted = re.search(r"(\d+) chips", text)
    check(counted and int(counted[1]) == len(names), f"{text}: there are {len(names)} boards")
    tensors = re.search(r"tensors on (\d+|all)", text)
    claimed = tensors[1].replace("all", str(len(names))) if tensors else ""
    check(claimed == str(len(computing)), f"{text}: tests run tensors on {sorted(computing)}")
    check(computing <= set(names), f"{computing} are not all boards")


def test_a_usb_bridge_takes_the_cards_among_the_boards() -> None:
    cards = [name for name in BOARDS["AMD"].pci_names if name != "gfx942"]  # that is a module
    wanted = f"{len(cards)} chips; tensors on {len(chips_on('USB'))} "
    check(wanted in cell("AMD cards, gfx11 and gfx12"), wanted)
