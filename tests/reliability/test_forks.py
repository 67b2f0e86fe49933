"""fork() beside threads that open, compile, record and compute: every child computes.

`UNBOUND_FORKS=200` forks that often beside the storm; the default run has a share of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import run_limited

FORKS = int(os.environ.get("UNBOUND_FORKS", "20"))
"""Children of each storm."""
FORK_WARNING = "ignore:This process:DeprecationWarning"
"""Python 3.12 and later warn of what is tested here."""
CHILD_S = 15

# Every scene runs in a process of its own: what a device opens first happens once in a process.
HEAD = f"""
import os, signal, sys, threading, time
import numpy as np
import tensor as xp

numbers = np.arange(1000, dtype=np.float32)

def computes(n):
    x = xp.asarray(numbers)
    twice = xp.jit(lambda a: a * float(n) + 1)
    for _ in range(2):
        if not np.array_equal(twice(x).numpy(), numbers * n + 1):
            return False
    return len(twice._captures) == 1 and float(xp.sum(x).numpy()) == 499500.0

def child(n):
    signal.alarm({CHILD_S})
    done = []
    other = threading.Thread(target=lambda: done.append(computes(n)))
    other.start()  # in the child this thread may have the number of one of the parent's
    other.join()
    os._exit(0 if done == [True] and computes(n + 1) else 1)

def forked(n):
    pid = os.fork()
    if pid == 0:
        try:
            child(n)
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

OPENING = """
from tensor.executable import Runtime
inside, real = threading.Event(), Runtime.open

def slow(*where):
    inside.set()
    time.sleep(0.3)
    return real(*where)

Runtime.open = slow
other = threading.Thread(target=computes, args=(3,))
other.start()
inside.wait()
print([forked(5)])
other.join()
"""

COMPILING = """
computes(2)
import llvmlite.binding as llvm
inside, real = threading.Event(), llvm.parse_assembly

def slow(text, context):
    with llvm.ffi.lib._lock:
        inside.set()
        time.sleep(0.3)
        return real(text, context)

llvm.parse_assembly = slow
other = threading.Thread(target=lambda: (xp.asarray(numbers) * 3.5).numpy())
other.start()
inside.wait()
print([forked(5)])
other.join()
"""

RECORDING = """
computes(2)
inside, go = threading.Event(), threading.Event()

def body(a):
    inside.set()
    go.wait()
    return a + 7

other = threading.Thread(target=lambda: xp.jit(body)(xp.asarray(numbers)))
other.start()
inside.wait()
print([forked(5)])
go.set()
other.join()
"""

INSIDE = """
kids = []

def body(a):
    if not kids:
        kids.append(os.fork())
    return a + 7

x = xp.asarray(numbers)
jitted = xp.jit(body)
right = all([np.array_equal(jitted(x).numpy(), numbers + 7) for _ in range(2)])
if not kids[0]:
    os._exit(0 if right else 1)
print([os.waitstatus_to_exitcode(os.waitpid(kids[0], 0)[1])] if right else "wrong")
"""

STORM = f"""
stop, wrong = threading.Event(), []

def compile_new(k):
    n = 0
    while not stop.is_set():
        n += 1
        value = float(k * 100_000 + n)
        if not np.array_equal((xp.asarray(numbers) * value + 1).numpy(),
                              numbers * np.float32(value) + 1):
            wrong.append(value)

def record():
    n = 0
    while not stop.is_set():
        n += 1
        f = xp.jit(lambda a, n=n: a * 2 + float(n % 5))
        for _ in range(2):
            if not np.array_equal(f(xp.asarray(numbers)).numpy(), numbers * 2 + n % 5):
                wrong.append(n)

threads = [threading.Thread(target=compile_new, args=(k,)) for k in (1, 2)]
threads += [threading.Thread(target=record) for _ in range(2)]
for thread in threads:
    thread.start()
computes(2)
codes = []
for n in range({FORKS}):
    time.sleep(n % 7 / 1000)
    codes.append(forked(2 * n + 3))
stop.set()
for thread in threads:
    thread.join()
print(codes if not wrong else wrong)
"""

# Hooks run in the order of their registration, and C functions do not handle signals: the handler
# raises at the start of our hook, and Python ignores that.
INTERRUPTED = """
import os, signal, threading
from functools import partial

ignored = []
sys.unraisablehook = lambda what: ignored.append(what.exc_type.__name__)
for step in (partial(signal.setitimer, signal.ITIMER_REAL, 0.001), partial(sum, range(3000000))):
    os.register_at_fork(**{WHERE: step})
from drivers.base import forks

def late(number, frame):
    raise TimeoutError

class Heir:
    called = False
    def after_fork(self):
        self.called = True

def free():
    taken = []
    other = threading.Thread(target=lambda: taken.append(forks._lock.acquire(timeout=5)))
    other.start()
    other.join()
    return taken == [True] and ignored == (["TimeoutError"] if HERE else [])

heir = Heir()
forks.inherit(heir)
signal.signal(signal.SIGALRM, late)
pid = os.fork()
HERE = (WHERE == "after_in_child") == (pid == 0)
if pid == 0:
    os._exit(0 if heir.called and free() else 1)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), free()])
"""


def ran(scene: str, cache: Path, head: str = HEAD) -> str:
    """What a process printed that ran the scene."""
    done = run_limited(
        [sys.executable, "-W", FORK_WARNING, "-c", head + scene],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DEV": "CPU", "CPU_THREADS": "2", "UNBOUND_CACHE": str(cache)},
        capture_output=True,
        text=True,
        cpu_s=CHILD_S * max(2, FORKS),
        check=False,
    )
    return done.stdout.strip() + done.stderr


@pytest.mark.parametrize(
    ("scene", "children"),
    [
        pytest.param(OPENING, 1, id="opening"),
        pytest.param(COMPILING, 1, id="compiling"),
        pytest.param(RECORDING, 1, id="recording"),
        pytest.param(INSIDE, 1, id="inside-a-recorded-function"),
        pytest.param(STORM, FORKS, id="storm"),
    ],
)
def test_a_child_computes(scene: str, children: int, tmp_path: Path) -> None:
    np.testing.assert_equal(ran(scene, tmp_path), str([0] * children))


@pytest.mark.parametrize("where", ["after_in_parent", "after_in_child"])
def test_a_handler_that_raises_while_python_forks(where: str, tmp_path: Path) -> None:
    """The lock is free in both processes, and the child is in order."""
    np.testing.assert_equal(
        ran(INTERRUPTED, tmp_path, f"import sys\nWHERE = {where!r}\n"), "[0, True]"
    )
