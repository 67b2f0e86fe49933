"""Runs in tinygrad's environment, never in ours: stock tinygrad on the board, compared with numpy.

python tests/witness/tinygrad_client.py FIRMWARE PROGRAM [PROGRAM ...]

One patch: `tinygrad.helpers.fetch_fw`, which would download AMD's firmware, gives the board's own
synthetic files out of a folder. Everything else is the wheel's. A program `file.py` is a test file
of tinygrad's, run by unittest. Each result is a line of JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import signal
import sys
import time
import unittest

import numpy as np
import tinygrad.helpers
from tinygrad.runtime.support.system import RemoteCmd

KILL = "kill"
"""In place of a program: end at once, with the device open."""
FIRMWARE = pathlib.Path(sys.argv[1])


def fetch_fw(path: str, name: str, sha256: str) -> bytes:
    """What the board's security processor takes."""
    return (FIRMWARE / name).read_bytes()


tinygrad.helpers.fetch_fw = fetch_fw
PROGRAMS = runpy.run_path(str(pathlib.Path(__file__).with_name("tinygrad_programs.py")))["PROGRAMS"]


def _compare(result: tuple[np.ndarray, np.ndarray, float]) -> str:
    """ "" when a result is right, else what is wrong with it."""
    found, want, tolerance = result
    if found.shape != want.shape:
        return f"shape {found.shape} where {want.shape} is right"
    error = np.abs(found.astype(np.float64) - want.astype(np.float64))
    allowed = tolerance * np.maximum(1.0, np.abs(want.astype(np.float64)))
    wrong = ~(error <= allowed)
    if not wrong.any():
        return ""
    return f"{int(wrong.sum())} of {wrong.size} wrong, by up to {error.max()}"


def _test_file(path: str) -> tuple[int, int, str]:
    """(tests run, tests skipped, "" or what failed) of a unittest file."""
    found = runpy.run_path(path)
    cases = [one for one in found.values()
             if isinstance(one, type) and issubclass(one, unittest.TestCase)]  # fmt: skip
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(suite)
    bad = [str(test) for test, _ in (*result.failures, *result.errors)]
    return result.testsRun, len(result.skipped), ", ".join(bad)


def say(**facts: object) -> None:
    """One line for the command that started us."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Boot, then each program."""
    began = time.monotonic()
    device = tinygrad.Device["AMD"]
    pci = device.iface.pci_dev
    pci._rpc(pci.sock, pci.dev_id, RemoteCmd.PING)  # marks the end of the boot in the trace
    say(boot=device.arch, interface=type(device.iface).__name__, partial=device.iface.dev_impl
        .partial_boot, aql=bool(device.is_aql), seconds=time.monotonic() - began)  # fmt: skip
    for name in sys.argv[2:]:
        began = time.monotonic()
        facts: dict[str, object] = {"program": pathlib.Path(name).name}
        if name == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if name.endswith(".py"):
            facts["tests"], facts["skipped"], facts["wrong"] = _test_file(name)
        else:
            facts["wrong"] = _compare(PROGRAMS[name]())
        say(**facts, seconds=time.monotonic() - began)


main()
