"""Adreno devices on boards: for `pytest --device qcom-a630`, tests/contract and driver tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from boards.front import WholeMachine
from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from drivers.base.contracts import World
from drivers.choice import choose
from drivers.qcom.device import QcomDevice
from drivers.qcom.opening import open_qcom
from tests.support import check

CHIPS: Final = ("a630", "a660", "a740", "x1-85")
DRAM_BYTES: Final = 1 << 30


class QcomMachine(WholeMachine):
    """A machine with one GPU whose submissions run late, as silicon's do."""

    def __init__(self, chip: str, iface: str = "KGSL", **options: Any) -> None:
        made = AdrenoOptions(iface=iface, dram_bytes=DRAM_BYTES, late=True, **options)
        board: Any = open_qcom_board(chip, options=made)
        super().__init__(board)
        self.board, self.hardware = board, board.hardware

    def found(self) -> list[str]:
        """Violations since this was last asked."""
        made = [str(violation) for violation in self.hardware.violations]
        self.hardware.forget_violations()
        return made


def opened(
    machine: World, iface: str = "KGSL", settings: Mapping[str, str] | None = None
) -> QcomDevice:
    """The device of a machine."""
    return open_qcom(machine, choose({"QCOM": "1", "QCOM_IFACE": iface, **(settings or {})}))


@contextmanager
def qcom_device(chip: str, iface: str = "KGSL", **options: object) -> Iterator[QcomDevice]:
    """A device on a board; at its end nothing of it is left, and nothing was found."""
    machine = QcomMachine(chip, iface, **options)
    with opened(machine, iface) as device:
        yield device
    check(not (found := machine.found()), f"violations: {found[:9]}")
