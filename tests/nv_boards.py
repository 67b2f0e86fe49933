"""NVIDIA's boards with compiled kernels: for `pytest --device nv-ga102` and tests/contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from boards.front import WholeMachine
from boards.nv.hardware import NvOptions
from boards.nv.layouts import DEFAULT, NEWEST
from boards.nv.machine import open_nv_board
from compilers.nv import libraries, nvjitlink, nvrtc
from drivers.base.errors import NotFound
from drivers.choice import choose
from drivers.nv.device import NvDevice
from drivers.nv.opening import open_nv
from tests.support import check

CHIPS: Final = ("ga102", "ad102", "gh100", "gb202", "tu102")
"""Whose code boards execute."""
KERNELS: Final = (535, 550, NEWEST)
"""Branches of the kernel driver besides the default: Debian 12's, Debian 13's, the newest."""
VRAM_BYTES: Final = 1 << 30


class NvMachine(WholeMachine):
    """A machine with one GPU whose queues run late, as silicon's do."""

    def __init__(self, chip: str, kernel: int = DEFAULT) -> None:
        options = NvOptions(vram_bytes=VRAM_BYTES, late=True, driver=kernel)
        board: Any = open_nv_board(chip, options=options)
        super().__init__(board)
        self.hardware = board.hardware

    def found(self) -> list[str]:
        """Violations since this was last asked."""
        made = [str(violation) for violation in self.hardware.violations]
        self.hardware.forget_violations()
        return made


def need(ptx: bool) -> None:
    """Skip where NVIDIA's compiler is missing."""
    names, title = (nvjitlink.NAMES, "nvJitLink") if ptx else (nvrtc.NAMES, "nvrtc")
    try:
        libraries.find(names)
    except NotFound:
        pytest.skip(f"no {title}: make nv")


@contextmanager
def nv_board(chip: str, compiler: str, kernel: int = DEFAULT) -> Iterator[NvDevice]:
    """A device on a board; at its end nothing of it is left, and nothing was found."""
    need(ptx=compiler == "PTX")
    machine = NvMachine(chip, kernel)
    environ = {"NV": "1", "NV_PTX": "1"} if compiler == "PTX" else {"NV": "1"}
    with open_nv(machine, choose(environ)) as device:
        yield device
    check(not (found := machine.found()), f"violations: {found[:9]}")
    check(not machine.hardware.clients, "clients of RM are left")
