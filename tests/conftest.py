"""Tests keep their compiled kernels beside pytest's own cache; `--board` chooses where they run."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

os.environ["UNBOUND_CACHE"] = str(Path(__file__).parent.parent / ".pytest_cache" / "unbound")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("boards", "software GPUs")
    group.addoption("--board", default="", help="run tensor tests on this chip, such as gfx1100")
    group.addoption("--iface", default="KFD", choices=("KFD", "PCI"), help="how it is met")
    group.addoption("--dma", default="", choices=("iommu", "vram"), help="AMD_DMA with PCI")
    group.addoption("--aql", action="store_const", const="AQL", dest="queue", default="")
    group.addoption("--pm4", action="store_const", const="PM4", dest="queue")
    group.addoption("--hip", action="store_const", const="HIP", dest="compiler", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "host_memory: needs a device that works on host memory; skipped with --board"
    )
    chip = config.getoption("board")
    if chip:
        from tests.board_option import BoardRun

        names = ("queue", "compiler", "iface", "dma")
        run = BoardRun(chip, *(config.getoption(name) for name in names))
        config.pluginmanager.register(run, "board-run")


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_rest() -> None:
    """What earlier modules left alive is not looked at again when a test collects garbage."""
    gc.collect()
    gc.freeze()
