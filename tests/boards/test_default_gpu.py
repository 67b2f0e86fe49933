"""A machine with a KFD GPU and an environment in which nothing is set: what runs where, and why.

The machine is a board's, handed in as a World; nothing below names a device.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import runpy
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import drivers
import tensor as xp
from benchmarks import command as bench
from benchmarks import device_rows, tensor_rows
from benchmarks.context import Context
from boards.amd.kfd.world import BoardWorld
from boards.front import Front, Setup, power_on
from boards.run import set_environ
from drivers.base.errors import DeviceError, UseAfterFree
from drivers.probe.__main__ import main as probe
from examples import digits, image_blur
from tensor import engine
from tests.boards.tensor_programs import PROGRAMS, whole
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
ROWS = ("add_256MiB", "sum_256MiB", "softmax_4096", "copy_*", "launch*", "replay_1", "eager_tiny")
RENDER = "/dev/dri/renderD128"
LONG_S = 60
SHARE = 12
LOOKING = """
import sys

seen, EVENTS = [], ("open", "os.listdir", "os.scandir", "fcntl.ioctl")
sys.addaudithook(lambda event, args: seen.extend(map(str, args[:1])) if event in EVENTS else None)
import tensor

print(len(seen) > 9, [path for path in seen if path.startswith(("/dev", "/sys", "/proc"))])
"""


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = dict(os.environ)
    set_environ(Setup("gfx1100"), environ)
    for name in [*(set(os.environ) - set(environ)), "DEV", "AMD_LLVM"]:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def machine(gpus: int = 1, denied: tuple[str, ...] = ()) -> Iterator[Front]:
    """This process on a machine with these GPUs; the board has found nothing in the end."""
    front = power_on(Setup("gfx1100", gpus=gpus, late=True))
    board_of(front).denied |= set(denied)
    with engine.on_machine(front.world):
        yield front
        gc.collect()
    check(not front.board.violations, str(front.board.violations))


def board_of(front: Front) -> BoardWorld:
    if not isinstance(front.board, BoardWorld):
        raise AssertionError("a board over KFD")
    return front.board


def added() -> str:
    """Compute something where nothing is named; the device that did."""
    a = np.arange(100, dtype=np.float32)
    x = xp.asarray(a)
    np.testing.assert_array_equal((x + x * 2).numpy(), a * 3)
    np.testing.assert_equal(float(xp.sum(x)), a.sum())
    return x.device


def test_programs_run_on_the_gpu() -> None:
    """A share: `pytest --board gfx1100` runs all tests of the tensor layer in the same way."""
    with machine():
        for number, program in enumerate(PROGRAMS.values()):
            for case in list(program(xp.asarray))[number % SHARE :: SHARE]:
                check(case.got.device == "AMD", str(case.got.device))
                case.judge()
        info = xp.__array_namespace_info__()
        check((info.default_device(), info.devices()) == ("AMD", ["AMD", "CPU"]))


def test_what_programs_do_with_numbers_jit_and_other_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = whole(1, "float32", 20, 33), whole(2, "float32", 33, 8)
    with machine():
        step = xp.jit(lambda x, w: xp.nn.relu(x @ w) + 1)
        for scale in range(1, 4):
            found = step(xp.asarray(a * scale), xp.asarray(b)).numpy()
            np.testing.assert_array_equal(found, np.maximum(a @ b * scale, 0) + 1)
        scalar = xp.asarray(3)
        check((int(scalar), bool(scalar == 3), float(xp.ones(()) / 2)) == (3, True, 0.5))
        check([int(xp.arange(5)[i]) for i in range(5)] == list(range(5)))
        bits = xp.random.bits(xp.random.key(5), (50,)).numpy()
        on_cpu = xp.random.bits(xp.random.key(5, device="CPU"), (50,)).numpy()
        np.testing.assert_array_equal(bits, on_cpu)
        moved = xp.asarray(a).to_device("CPU")
        check(moved.device == "CPU")
        np.testing.assert_array_equal(np.from_dlpack(moved + 1), a + 1)
        del scalar, moved, step
    monkeypatch.setenv("DEV", "CPU")
    check(added() == "CPU", "this machine's default is back")


def test_the_examples_run_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The other two on less data; `pytest tests/unit/test_examples.py --board gfx1100` is whole."""
    rng = np.random.default_rng(7)
    known, unknown = (rng.integers(0, 17, (n, 64)).astype(np.float32) for n in (40, 20))
    labels, picture = rng.integers(0, 10, 40), rng.random((12, 9, 3), dtype=np.float32)
    with machine():
        runpy.run_path(str(ROOT / "examples" / "add.py"), run_name="__main__")
        found = digits.classify(*map(xp.asarray, (known, labels, unknown)), 3)
        check(found.device == "AMD")
        by_numpy = digits.classify_numpy(known, labels, unknown, 3)
        np.testing.assert_array_equal(found.numpy(), by_numpy)
        del found
        pictures = image_blur.filtered(picture, 1.0, 1.5)
    for ours, theirs in zip(pictures, image_blur.filtered_numpy(picture, 1.0, 1.5), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    check(capsys.readouterr().out == "on AMD: [1. 2. 3. 4. 5. 6. 7. 8.]\n")


def test_the_readmes_program_runs_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with machine():
        exec(code, {})
        gc.collect()
    shown = capsys.readouterr().out.splitlines()
    check(shown[0].endswith("float32 AMD") and len(shown) == 6, str(shown))
    sums = [float(word) for word in shown[-1].strip("[]").split()]
    np.testing.assert_allclose(sums, np.ones(4), 1e-6)


def test_bench_measures_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kind of row, over fewer and smaller arrays than a GPU would be given."""
    for variable in (*bench.THREAD_VARIABLES, "OPENBLAS_CORETYPE"):
        monkeypatch.setenv(variable, "")
    for module in (device_rows, tensor_rows):
        monkeypatch.setattr(module, "TINY_CALLS", 2)
    monkeypatch.setattr(device_rows, "REPLAY_KERNELS", 2)
    monkeypatch.setattr(device_rows, "COPY_ITEMS", 1 << 12)
    monkeypatch.setattr(tensor_rows, "STREAM_ITEMS", 1 << 12)
    monkeypatch.setattr(tensor_rows, "ROWS_SIDE", 16)
    monkeypatch.setattr(bench, "QUICK_BUDGET_S", 0.0)
    only = [part for row in ROWS for part in ("--only", row)]
    with machine():
        status = bench.main(["--quick", *only])
        check(
            Context("amd:0").runtime is engine.runtime("AMD"), "one device, however it is spelled"
        )
        gc.collect()
    shown = capsys.readouterr().out.splitlines()
    check(status == 0, str(shown))
    check(shown[0].startswith("AMD:0, gfx1100, 1 thread(s) of numpy beside the whole GPU"))
    check(shown[1].startswith("the default device: gfx1100 Radeon RX 7900"), shown[1])
    check(shown[1].endswith("through KFD; --device NAME measures another"), shown[1])
    check(shown[-1].startswith("10 rows measured") and "ERROR" not in str(shown), str(shown))


@pytest.mark.parametrize("node", ["/dev/kfd", RENDER])
def test_with_a_node_denied_it_is_the_cpu_and_the_probe_says_why(node: str) -> None:
    with machine(denied=(node,)) as front, warnings.catch_warnings():
        warnings.simplefilter("error")
        check(added() == "CPU")
        found = json.loads(probe(["--json"], front.world, {}))
        check(not board_of(front).panel.seen, "an ioctl of a GPU that may not be opened")
    check(found["default"]["name"] == "CPU", str(found["default"]))
    (passed,) = found["default"]["passed"]
    check(passed["reason"] == f"{node} may not be opened by this user" and passed["advice"])
    row = next(row for row in found["devices"] if (row["kind"], row["iface"]) == ("AMD", "KFD"))
    check(not row["usable"] and node in row["reason"], str(row))


def test_the_second_gpu_where_the_first_is_denied() -> None:
    with machine(gpus=2, denied=(RENDER,)):
        check(added() == "AMD", "the one that may be opened is the first")
        check(
            engine.default().passed[0].name.startswith("the AMD GPU at "), "the other has no name"
        )


@pytest.mark.parametrize("call", ["create_queue", "get_version", "acquire_vm"])
def test_a_gpu_that_cannot_be_opened_is_told_once_and_the_cpu_computes(call: str) -> None:
    """All the same in several threads: it is opened once, and there is one warning."""
    with machine() as front:
        panel, names = board_of(front).panel, list[str]()
        panel.fail_ioctl(call, errno.EIO)
        threads = [threading.Thread(target=lambda: names.append(added())) for _ in range(4)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
            check(added() == "CPU")
        check(names == ["CPU"] * 4, str(names))
        (text,) = [str(one.message) for one in caught]
        check("AMD: cannot be opened: " in text and "; CPU is used instead" in text, text)
        check("DEV=AMD makes this an error" in text and "\n" not in text, text)
        check(xp.ones(3, device="AMD").device == "AMD", "it is still there for who names it")


def test_a_warning_that_is_an_error_comes_once() -> None:
    with machine() as front, warnings.catch_warnings():
        warnings.simplefilter("error")
        board_of(front).panel.fail_ioctl("create_queue", errno.EIO)
        with pytest.raises(RuntimeWarning, match="CPU is used instead"):
            added()
        check(added() == "CPU")


def test_a_named_gpu_that_cannot_be_opened_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMD", "1")
    with machine() as front:
        board_of(front).panel.fail_ioctl("create_queue", errno.EIO)
        with pytest.raises(DeviceError):
            added()


def test_drivers_open_chooses_alike() -> None:
    front = power_on(Setup("gfx1100"))
    with drivers.open(world=front.world, environ={}) as device:
        check(device.name == "AMD:0" and device.arch == "gfx1100")
    board_of(front).panel.fail_ioctl("create_queue", errno.EIO)
    with (
        pytest.warns(RuntimeWarning, match="CPU is used instead"),
        drivers.open(world=front.world, environ={"CPU_THREADS": "1"}) as device,
    ):
        check(device.name == "CPU:0")


def test_a_gpu_that_was_named_before_is_the_default_too() -> None:
    with machine() as front:
        first = engine.device("AMD")
        calls = len(board_of(front).panel.seen)
        check(engine.default_device() == "AMD" and engine.device() is first)
        check(len(board_of(front).panel.seen) == calls, "it is not opened twice")


@pytest.mark.parametrize("opened", [False, True])
def test_a_child_after_fork_computes_on_a_device_of_its_own(opened: bool) -> None:
    """Whether its parent had chosen and opened the GPU or not; the parent goes on with its own."""
    with machine():
        kept = xp.ones(5).realize() if opened else None
        child = os.fork()
        if child == 0:
            signal.alarm(LONG_S)
            fine = added() == "AMD"
            if kept is not None:
                with pytest.raises(UseAfterFree):
                    (kept + 1).numpy()
            os._exit(0 if fine else 1)
        _, status = os.waitpid(child, 0)
        np.testing.assert_equal(os.waitstatus_to_exitcode(status), 0)
        check(added() == "AMD")
        del kept


def test_importing_the_tensor_layer_looks_at_no_device() -> None:
    done = run_limited(
        [sys.executable, "-c", LOOKING], cwd=ROOT, capture_output=True, text=True, cpu_s=60
    )
    check(done.stdout.strip() == "True []", done.stdout + done.stderr)
