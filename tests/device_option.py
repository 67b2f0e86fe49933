"""`pytest --device pocl`: the tensor suite on a device that is no board, and what it refuses.

    make devices       # the tensor suite on each device of DEVICES, in turn

The library's device becomes the default one of the whole run. A case that ends in `Unsupported`, or
that needs memory which the device does not share, is refused: it counts neither as passed nor as
failed, and `tests/refusals/NAME.txt` has to list it (the format of `tests/skips.py`). A refusal or
a skip that is not listed fails the run, and so does a line that no case meets.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from drivers.base.contracts import World
from drivers.base.errors import Unsupported
from drivers.world.linux import LinuxWorld
from tensor import engine
from tests import nv_boards, opencl, webgpu
from tests.cuda.made_up import CudaWorld
from tests.metal.made_up import MadeUpMac, runtime
from tests.nv_boards import NvMachine
from tests.qcom_devices import CHIPS as QCOM_CHIPS
from tests.qcom_devices import QcomMachine
from tests.skips import Line, Skips, read

LISTS: Final = Path(__file__).parent / "refusals"
NOT_SHARED: Final = "memory of this device is not shared with numpy or DLPack"
_KEPT: Final = "the made-up Metal keeps dead objects, so that it knows them"
_SKIPPED: Final = "Skipped: "
"""How pytest begins the reason of a skip."""


@dataclass(frozen=True)
class Named:
    """One device of the suite."""

    title: str
    kind: str
    environ: Callable[[], Mapping[str, str]]
    """What names it among those of its kind; skips where its library is missing."""
    world: Callable[[], World] = LinuxWorld
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Markers of tests beside `host_memory`, and why they are not for it."""
    refusals: str = ""
    """Of the file in `tests/refusals`, where several devices share one; else its name."""
    found: Callable[[World], list[str]] = lambda world: []
    """What the device reports after a test, which has then failed."""

    def skips(self) -> dict[str, pytest.MarkDecorator]:
        """What its tests with these markers get."""
        reasons = {"host_memory": NOT_SHARED, **self.cannot}
        return {marker: pytest.mark.skip(reason=reason) for marker, reason in reasons.items()}


def _cl(platform: str) -> Named:
    return Named(opencl.PLATFORMS[platform][1], "CL", lambda: {"CL_DEVICE": opencl.need(platform)})


def _webgpu(library: str) -> Named:
    def environ() -> dict[str, str]:
        manifest = webgpu.vulkan(library)
        only = {webgpu.DRIVERS: manifest} if manifest else {}
        return {"WEBGPU_DEVICE": webgpu.LIBRARIES[library].title, **only}

    return Named(webgpu.LIBRARIES[library].title.rstrip(")"), "WEBGPU", environ)


def _nv_here() -> Named:
    def environ() -> dict[str, str]:
        if not os.path.exists("/dev/nvidiactl"):
            pytest.skip("no /dev/nvidiactl")
        return {}

    return Named("this machine's NVIDIA GPU", "NV", environ, refusals="nv")


def _nv(chip: str, *, ptx: bool) -> Named:
    def environ() -> dict[str, str]:
        nv_boards.need(ptx=ptx)
        return {"NV_PTX": "1"} if ptx else {}

    title = f"board {chip} of NVIDIA's, {'PTX' if ptx else 'nvrtc'}"
    machine = partial(NvMachine, chip)
    return Named(title, "NV", environ, machine, refusals="nv", found=_violations)


def _qcom(chip: str, iface: str) -> Named:
    title = f"board {chip} of Qualcomm's over {iface}"
    machine = partial(QcomMachine, chip, iface)
    return Named(
        title, "QCOM", lambda: {"QCOM_IFACE": iface}, machine, refusals="qcom", found=_violations
    )


def _cuda(*, ptx: bool) -> Named:
    def environ() -> dict[str, str]:
        nv_boards.need(ptx=ptx)
        return {"CUDA_PTX": "1"} if ptx else {}

    title = f"a made-up libcuda, {'PTX' if ptx else 'nvrtc'}"
    return Named(title, "CUDA", environ, CudaWorld, refusals="cuda", found=_violations)


def _violations(world: World) -> list[str]:
    """What the board found; none is ever expected."""
    return world.found() if isinstance(world, NvMachine | CudaWorld | QcomMachine) else []


DEVICES: Final[Mapping[str, Named]] = {
    "pocl": _cl("pocl"),
    "intel": _cl("intel"),
    "wgpu": _webgpu("wgpu"),
    "dawn": _webgpu("dawn"),
    "standard": _webgpu("standard"),
    "metal": Named(
        "a made-up Metal", "METAL", dict, MadeUpMac, {"resident_memory": _KEPT},
        found=lambda world: list(map(str, runtime().report())),
    ),
    "cuda": _cuda(ptx=False),
    "cuda-ptx": _cuda(ptx=True),
    "nv": _nv_here(),
    **{f"nv-{chip}": _nv(chip, ptx=False) for chip in nv_boards.CHIPS},
    **{f"nv-{chip}-ptx": _nv(chip, ptx=True) for chip in nv_boards.CHIPS},
    **{f"qcom-{chip}": _qcom(chip, "KGSL") for chip in QCOM_CHIPS},
    **{f"qcom-{chip}-msm": _qcom(chip, "MSM") for chip in QCOM_CHIPS},
}  # fmt: skip


@dataclass(eq=False)  # pytest keeps plugins in sets
class DeviceRun:
    """The plugin of a process that runs tests: it has the device, and marks what is refused."""

    name: str
    _open: ExitStack = field(default_factory=ExitStack)
    _world: World | None = None

    def pytest_sessionstart(self) -> None:
        named = DEVICES[self.name]
        try:
            os.environ.update(named.environ(), DEV=named.kind)
        except pytest.skip.Exception as error:
            raise pytest.UsageError(f"--device {self.name}: {error}") from None
        self._world = named.world()
        self._open.enter_context(engine.on_machine(self._world))
        device = engine.device()
        if device.name.partition(":")[0] != named.kind:
            raise AssertionError(f"{device} is not {named.title}")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for marker, skip in DEVICES[self.name].skips().items():
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(skip)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        reason = ""
        if call.excinfo is not None and call.excinfo.errisinstance(Unsupported):
            reason = call.excinfo.value.message
            skip = pytest.skip.Exception(reason)  # a failure's text would cost milliseconds
            call.excinfo = pytest.ExceptionInfo.from_exc_info((type(skip), skip, call.excinfo.tb))
        report = yield
        if reason:
            path, line, _ = item.location
            report.longrepr = (path, (line or 0) + 1, f"{_SKIPPED}{reason}")
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        named = DEVICES[self.name]
        if self._world is not None and (found := named.found(self._world)):
            pytest.fail(f"{item.name}: {named.title} found {found}", pytrace=False)
        return result

    def pytest_sessionfinish(self) -> None:
        self._open.close()


class Refusals(Skips):
    """The plugin of the process that reports: what was refused, counted by reason."""

    def __init__(self, name: str, *, part: bool) -> None:
        super().__init__(read(LISTS / f"{DEVICES[name].refusals or name}.txt"), part=part)
        self.name = name
        self.outcomes: Counter[str] = Counter()
        self.files: set[str] = set()
        """Those whose tests ran: lines of others may meet no case."""

    def idle(self) -> list[Line]:
        return [line for line in super().idle() if line.name.partition("::")[0] in self.files]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        super().pytest_runtest_logreport(report)
        self.files.add(report.nodeid.partition("::")[0])
        if report.when == "call" or not report.passed:
            self.outcomes[report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed, refused, failed = (self.outcomes[key] for key in ("passed", "skipped", "failed"))
        terminalreporter.section(f"tensor suite on {DEVICES[self.name].title}")
        terminalreporter.write_line(f"{passed} passed, {refused} refused, {failed} failed")
        for reason, count in Counter(reason for _, reason in self.seen).most_common():
            terminalreporter.write_line(f"{count:6} refused: {reason}")


def register(config: pytest.Config) -> None:
    """Read the option, and load what this process needs of it."""
    name = config.getoption("device")
    if not name:
        return
    if name not in DEVICES:
        raise pytest.UsageError(f"--device {name}: one of {', '.join(DEVICES)}")
    worker = hasattr(config, "workerinput")
    if not worker:
        part = config.getoption("share") < 1 or bool(config.getoption("keyword"))
        config.pluginmanager.register(Refusals(name, part=part), "refusals")
    if worker or not config.getoption("numprocesses", 0):
        config.pluginmanager.register(DeviceRun(name), "device-run")
