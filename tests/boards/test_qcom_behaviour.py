"""The tables of what KGSL and msm do: all that the driver sends is in them, in each release."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from boards.asked import check_options
from boards.qcom.hardware import KGSL, MSM, AdrenoOptions, behaviour
from boards.qcom.registration import KERNELS
from tests.qcom_devices import QcomMachine, opened
from tests.qcom_sent import Sent, life, recorded
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    ("a630", KGSL, "4.9", {"coherent": False}),
    ("a630", KGSL, "5.15", {"coherent": False}),
    ("a660", KGSL, "5.4", {}),
    ("a660", MSM, "6.1", {}),
    ("x1-85", MSM, "7.3", {}),
)
FEWEST = 25
"""Different fields and requests that such a life sends."""


def _missing(sent: Sent, iface: str, release: str) -> list[str]:
    table = behaviour(iface)
    return [
        f"{request}.{field} = {value:#x}"
        for (request, field), values in sorted(sent.items())
        for value in sorted(values)
        if not table.covers(request, field, value, release)
    ]


@pytest.mark.parametrize(("chip", "iface", "release", "options"), CASES)
def test_all_that_is_sent_is_in_the_table(
    chip: str, iface: str, release: str, options: dict[str, Any]
) -> None:
    with recorded() as sent, opened(
        QcomMachine(chip, iface, kernel=release, **options), iface
    ) as device:  # fmt: skip
        life(device)
    check(len(sent) >= FEWEST, f"{len(sent)} kinds of things were sent")
    missing = _missing(sent, iface, release)
    check(not missing, str(missing))


@pytest.mark.parametrize("iface", [KGSL, MSM])
def test_each_rule_is_asked_for(iface: str) -> None:
    """A board follows what its table says: no name of a rule is only in the table."""
    files = (ROOT / "boards" / "qcom").rglob("*.py")
    text = "\n".join(path.read_text() for path in files)
    asked = set(re.findall(r'"(\w+)"', text))
    rules = {entry.rule for entry in behaviour(iface).entries if entry.rule}
    check(rules <= asked, str(sorted(rules - asked)))


@pytest.mark.parametrize("iface", [KGSL, MSM])
def test_boards_offer_the_releases_of_the_table(iface: str) -> None:
    offered = KERNELS[iface]
    check(sorted(offered) == sorted(behaviour(iface).releases))
    check(offered[0] == AdrenoOptions(iface=iface).release)


@pytest.mark.parametrize(("iface", "kernel"), [(KGSL, "6.1"), (MSM, "4.9"), (MSM, "7.4")])
def test_a_release_of_another_interface_is_refused(iface: str, kernel: str) -> None:
    with pytest.raises(ValueError, match=rf"--kernel {kernel} is not for a630 over {iface}: use"):
        check_options("a630", iface=iface, kernel=kernel)


@pytest.mark.parametrize("iface", [KGSL, MSM])
def test_each_entry_names_its_place(iface: str) -> None:
    for entry in behaviour(iface).entries:
        check(re.fullmatch(r"[\w.-]+\.[ch] \w+", entry.place) is not None, entry.place)
        check(bool(entry.releases) and entry.text.endswith("."), entry.text)
