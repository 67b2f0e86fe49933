"""Rows beside another library on the same OpenCL device or WebGPU adapter: tinygrad, in a process
of its own.

It is optional: without it the rows are skipped by name. It comes from this environment, or from
where `make witness-tinygrad` keeps it.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from benchmarks.context import MIB, Builder, Context, expect_close
from benchmarks.device_rows import REPLAY_KERNELS, Tiny, record
from benchmarks.measure import Case, Skipped, Timer, timer
from drivers.webgpu import abi
from drivers.webgpu.adapters import About, listed
from drivers.webgpu.libraries import places
from drivers.world.linux import LinuxWorld

NAME: Final = "tinygrad"
KERNELS: Final = 100
KINDS: Final = ("CL", "WEBGPU")
OLDER_DAWN: Final = "/pydawn/"
"""The folder of the wheel dawn-python."""
Ours: TypeAlias = "Callable[[Context, int], tuple[Timer, float]]"
PATIENCE_S: Final = 300.0
"""For one answer: three warm calls, which compile, and the timed ones."""
PROGRAM: Final = """
import sys, time
import numpy as np
from tinygrad import Device, Tensor, TinyJit

device = Device[Device.DEFAULT]
rng = np.random.default_rng(1)

def arrays(count, *shape):
    return [Tensor(rng.random(shape, dtype=np.float32)).realize() for _ in range(count)]

def matmul(side):
    a, b = arrays(2, side, side)
    return lambda: (a @ b).realize()

def add(items):
    a, b = arrays(2, items)
    return lambda: (a + b).realize()

def total(items):
    (a,) = arrays(1, items)
    return lambda: a.sum().realize()

def replay(kernels):
    x, b = Tensor.ones(16).contiguous().realize(), Tensor.ones(16).contiguous().realize()
    def run():
        y = x
        for _ in range(kernels):
            y = (y + b).contiguous()
        return y.realize()
    return run

runs = {}
for line in sys.stdin:
    name, size, calls = line.split()
    if name not in runs:
        makers = {"matmul": matmul, "add": add, "sum": total, "replay": replay}
        runs[name] = TinyJit(makers[name](int(size)))
        for _ in range(3):
            runs[name]()
        device.synchronize()
    begin = time.perf_counter()
    for _ in range(int(calls)):
        runs[name]()
        device.synchronize()
    print((time.perf_counter() - begin) / int(calls), flush=True)
"""


def find_peer() -> Path | None:
    """The folder that holds the peer; None where it is not installed."""
    found = importlib.util.find_spec(NAME)
    if found is not None and found.origin:
        return Path(found.origin).parent.parent
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "unbound-witness"
    return max((path.parent for path in root.glob(f"{NAME}-*/lib/{NAME}")), default=None)


_TALKS: Final = "DEBUG"
"""With this variable of the peer's it prints lines of its own."""


def opencl(library: str, folder: Path) -> dict[str, str]:
    """What the peer's environment says for our device's OpenCL library."""
    found = {"DEV": "CL"}
    if os.path.isabs(library):  # a wheel's: the loader is pointed to it
        (folder / "only.icd").write_text(f"{library}\n")
        found["OCL_ICD_VENDORS"] = str(folder)
        own = Path(sys.prefix) / "lib" / "libOpenCL.so.1"
        if own.exists():
            found |= {"OPENCL_PATH": str(own), "LD_LIBRARY_PATH": str(own.parent)}
    return found


def webgpu(library: str, _: Path) -> dict[str, str]:
    """The same for Dawn of 2025, the one that the peer knows."""
    return {"DEV": "WEBGPU", "WEBGPU_PATH": library}


class Peer:
    """A process that times what it is asked for, with variables that name its device."""

    def __init__(self, packages: Path, device: Callable[[Path], dict[str, str]]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said"
        self._why = ""
        inherited = {name: value for name, value in os.environ.items() if name != _TALKS}
        environ = {**inherited, **device(Path(self._folder.name)), "PYTHONPATH": str(packages)}
        with self._said.open("w") as said:
            self._child = subprocess.Popen(
                [sys.executable, "-c", PROGRAM], env=environ, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            )  # fmt: skip

    def seconds(self, name: str, size: int, calls: int) -> float:
        """Of one call. Raises: Skipped with its last words when it does not run here, or not in
        PATIENCE_S; it is ended then."""
        stdin, stdout = self._child.stdin, self._child.stdout
        if self._why or stdin is None or stdout is None:
            raise Skipped(self._why)
        try:
            stdin.write(f"{name} {size} {calls}\n")
            stdin.flush()
            if not select.select([stdout], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"nothing in {PATIENCE_S} s")
            return float(stdout.readline())
        except (BrokenPipeError, ValueError, TimeoutError) as error:
            self._child.kill()
            self._child.wait()
            last = self._said.read_text().strip().splitlines()[-1:] or [str(error)]
            self._why = f"{NAME} does not run on this device: {last[0]:.200}"
            raise Skipped(self._why) from error

    def close(self) -> None:
        """End it."""
        self._child.kill()
        self._child.wait()
        self._folder.cleanup()

    def __del__(self) -> None:
        self.close()


def _same_adapter(theirs: list[About], ours: About) -> str:
    """What a row is beside. Raises: Skipped where the peer's library prefers another adapter."""
    names = [(one.name, one.backend) for one in theirs]
    if names != [(ours.name, ours.backend)]:
        raise Skipped(f"{NAME} would run on {names}: name one driver with VK_DRIVER_FILES")
    return f"{NAME}, {abi.OLDER_DAWN.name}, the same adapter"


def _started(context: Context) -> tuple[Peer, str]:
    """The peer's process, and what it runs on. Raises: Skipped."""
    packages = find_peer()
    if packages is None:
        raise Skipped(f"{NAME} is not installed")
    if context.device.name.startswith("CL"):
        library = context.device.api.name
        return Peer(packages, partial(opencl, library)), f"{NAME}, the same OpenCL library"
    world = LinuxWorld()
    library = next((path for path in places(world) if OLDER_DAWN in path), "")
    if not library:
        raise Skipped(f"{NAME} needs the wheel dawn-python: make webgpu")
    beside = _same_adapter(listed(world, library)[0], context.device.facts.about)
    return Peer(packages, partial(webgpu, library)), beside


def _peer(context: Context) -> tuple[Peer, str]:
    """The one of this run. Raises: Skipped."""
    made: tuple[Peer, str] = context.kept(f"peer {NAME}", lambda: _started(context))
    return made


def beside(
    name: str, unit: str, calls: int, size: int, ours: Ours, devices: Sequence[str] = KINDS
) -> Builder:
    """A row of ours, as (timer, work), and the peer's of the same name; on these devices."""

    def build(context: Context) -> Case | None:
        if context.device.name.partition(":")[0] not in devices:
            return None
        peer, what = _peer(context)
        run, work = ours(context, size)
        parts = size if name == "replay" else 1
        return Case(
            unit, what, run, lambda: peer.seconds(name, size, calls) / parts, work=work
        )  # fmt: skip

    return build


def _tensors(context: Context, op: str, shapes: list[tuple[int, ...]]) -> Timer:
    """A timer of a function that numpy has as well, whose result is checked beside numpy's."""
    arrays = [context.floats(f"peer {at}", *shape) for at, shape in enumerate(shapes)]
    tensors = [context.tensor(array) for array in arrays]
    ours, theirs = getattr(context.xp, op), getattr(np, op)
    wanted = theirs(*(array.astype(np.float64) for array in arrays))
    expect_close(np.asarray(ours(*tensors).numpy(), np.float64), wanted, 1e-5)
    synchronize = context.device.synchronize

    def run() -> None:
        ours(*tensors).realize()
        synchronize()

    return timer(run)


def _matmul(context: Context, side: int) -> tuple[Timer, float]:
    return _tensors(context, "matmul", [(side, side)] * 2), 2.0 * side**3


def _add(context: Context, items: int) -> tuple[Timer, float]:
    return _tensors(context, "add", [(items,)] * 2), 12.0 * items


def _sum(context: Context, items: int) -> tuple[Timer, float]:
    return _tensors(context, "sum", [(items,)]), 4.0 * items


def _replay(context: Context, kernels: int) -> tuple[Timer, float]:
    tiny: Tiny = context.kept("tiny kernel", lambda: Tiny(context))
    graph, synchronize = record(tiny, kernels), tiny.device.synchronize
    pair = [tiny.buffer(array) for array in (tiny.a, tiny.out)]

    def run() -> None:
        graph.replay(pair)
        synchronize()

    expected = tiny.a.copy()
    for _ in range(kernels):
        expected = expected + tiny.b
    tiny.prove(run, pair[1], expected)
    ours = timer(run, REPLAY_KERNELS // kernels)
    return (lambda: ours() / kernels), 1.0


PEER_ROWS: dict[str, Builder] = {
    "peer_matmul_1024": beside("matmul", "GFLOP/s", 1, 1024, _matmul, ["CL"]),
    "peer_matmul_512": beside("matmul", "GFLOP/s", 1, 512, _matmul, ["WEBGPU"]),
    "peer_add_256MiB": beside("add", "GB/s", 1, 64 * MIB, _add, ["CL"]),
    "peer_add_64MiB": beside("add", "GB/s", 1, 16 * MIB, _add, ["WEBGPU"]),
    "peer_sum_256MiB": beside("sum", "GB/s", 1, 64 * MIB, _sum, ["CL"]),
    "peer_sum_64MiB": beside("sum", "GB/s", 1, 16 * MIB, _sum, ["WEBGPU"]),
    "peer_replay_100": beside("replay", "us", REPLAY_KERNELS // KERNELS, KERNELS, _replay),
}
"""A buffer of WebGPU may have no more than 128 MiB."""
