"""Tests keep their compiled kernels beside pytest's own cache; options choose which tests run, and
on which device: the CPU, where neither `--board` nor the environment names another.
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from drivers.base.errors import Denied
from drivers.choice import choose
from drivers.world import owned
from tests.budgets import Budgets
from tests.costs import Meter, Recorder
from tests.resting import Resting, collect
from tests.share import COSTS, Selection
from tests.skips import Reasons, Skips, read
from tests.sweep.offset import reproduced


def kernel_cache() -> str:
    """Beside pytest's own cache; in a checkout that other users may change, as in a container's
    mount of one, a place that is private."""
    root = Path(__file__).parent.parent
    chosen = root / ".pytest_cache"
    try:
        os.close(owned.open_directory(str(chosen if chosen.is_dir() else root)))
    except (OSError, Denied):
        chosen = Path(tempfile.gettempdir(), f"unbound-tests-{os.geteuid()}")
    return str(chosen / "unbound")


os.environ["UNBOUND_CACHE"] = kernel_cache()
os.environ.update(COLUMNS="100")  # of commands' reports: xdist gives its workers 80
os.environ.update({"LOKY_MAX_CPU_COUNT": "1"})  # joblib's workers: lscpu, which it asks, may lack
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job has it so
    signal.signal(signal.SIGINT, signal.default_int_handler)
ANY_SPEED = [HealthCheck.too_slow]
settings.register_profile("any machine", deadline=None, suppress_health_check=ANY_SPEED)
settings.load_profile("any machine")  # whose clock says nothing about a test
SAMPLE = reproduced()
"""Before the workers start, so that all use the same one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("boards", "software GPUs")
    group.addoption("--board", default="", help="run tensor tests on this chip, such as gfx1100")
    group.addoption("--iface", default="KFD", choices=("KFD", "PCI"), help="the interface")
    group.addoption("--dma", default="", choices=("iommu", "vram"), help="AMD_DMA with PCI")
    group.addoption("--aql", action="store_const", const="AQL", dest="queue", default="")
    group.addoption("--pm4", action="store_const", const="PM4", dest="queue")
    group.addoption("--hip", action="store_const", const="HIP", dest="compiler", default="")
    group.addoption("--device", default="", help="or on this one: tests/device_option.py")
    group = parser.getgroup("selection", "how much runs, and what may be skipped")
    group.addoption("--share", type=float, default=1.0, help="part by cost: 0.2 is a fifth")
    group.addoption("--turns", type=float, default=1.0, help="part of each costly function's cases")
    group.addoption("--share-seed", type=int, help="which cases: the seed of an earlier run")
    group.addoption("--costs", type=Path, default=COSTS, metavar="FILE", help="tests/costs.py")
    group.addoption(
        "--expected-skips", type=Path, action="append", default=[], metavar="FILE",
        help="fail for every other skip, by name",
    )  # fmt: skip
    group.addoption("--record-costs", type=Path, metavar="FILE", help="measure them again")
    group.addoption("--budgets", action="store_true", help="what each family of tests costs")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"which accesses fail in sweeps: {SAMPLE}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "host_memory: needs a device that works on host memory; skipped with --board"
    )
    config.addinivalue_line("markers", "resident_memory: measures what the process has in memory")
    Selection.register(config)
    config.pluginmanager.register(Meter(), "meter")
    config.pluginmanager.register(Resting(), "resting")
    if not hasattr(config, "workerinput"):
        _register_reports(config)
    chip = config.getoption("board")
    if chip:
        from tests.board_option import BoardRun

        names = ("queue", "compiler", "iface", "dma")
        run = BoardRun(chip, *(config.getoption(name) for name in names))
        config.pluginmanager.register(run, "board-run")
    elif config.getoption("device"):
        from tests import device_option

        device_option.register(config)
    elif choose(os.environ).kind is None:
        os.environ["DEV"] = "CPU"


def _register_reports(config: pytest.Config) -> None:
    """Reports on a whole run, by the process that started it."""
    config.pluginmanager.register(Reasons(), "skip-reasons")
    lines = [line for path in config.getoption("expected_skips") for line in read(path)]
    if config.getoption("expected_skips"):
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        skips = Skips(lines, part=named or config.getoption("share") < 1)
        config.pluginmanager.register(skips, "expected-skips")
    if config.getoption("record_costs"):
        short = config.getoption("share") < 1 or bool(os.environ.get("UNBOUND_TESTS_SHARE"))
        recorder = Recorder(config.getoption("record_costs"), short)
        config.pluginmanager.register(recorder, "record-costs")
    if config.getoption("budgets"):
        config.pluginmanager.register(Budgets(), "budgets")


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_rest() -> None:
    """A test's garbage collection skips objects that earlier modules left alive.

    So it gives back no GPU that they lost on a board, where they may have killed its process.
    """
    collect()
