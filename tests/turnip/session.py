"""One process of the witness: runs kernels over the Vulkan driver that it was started with.

`python -m tests.turnip.session FOLDER CHIP IFACE SHIM [KERNEL ...]`, in front of a board; with
the chip `lavapipe` on the processor, for the results to expect. Leaves results.npz and report.json.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import zipfile
from pathlib import Path

import numpy as np

from tests.turnip.bridge import Bridge
from tests.turnip.client import Client, Missing
from tests.turnip.kernel import Words
from tests.turnip.kernels import KERNELS
from tests.turnip.report import LAVAPIPE, REPORT, RESULTS, Report
from unbound import terminal


def _run(names: list[str], report: Report, bridge: Bridge | None) -> dict[str, Words]:
    client = Client()
    report.device = client.name
    results: dict[str, Words] = {}
    for name in names:
        before = 0 if bridge is None else len(bridge.world.violations)
        try:
            results[name] = client.run(KERNELS[name])
        except Missing as missing:
            report.missing[name] = str(missing)
        if bridge is not None:
            found = [str(one) for one in bridge.world.violations[before:]]
            if found:
                report.violations[name] = found
    return results


def main() -> int:
    """Runs, writes, and leaves at once: destructors of a lost device would abort."""
    folder, chip, iface, shim, *names = sys.argv[1:]
    bridge = None if chip == LAVAPIPE else Bridge(chip, iface, shim)
    report = Report()
    results: dict[str, Words] = {}
    try:
        results = _run(names or list(KERNELS), report, bridge)
    except Exception:  # whatever the client library raises is the run's result
        report.error = traceback.format_exc()
    if bridge is not None:
        report.asked, report.refused = dict(bridge.asked), dict(bridge.refused)
        report.log = list(bridge.world.hardware.log)
    with zipfile.ZipFile(Path(folder) / RESULTS, "w") as archive:
        for name, words in results.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, words)
    (Path(folder) / REPORT).write_text(json.dumps(vars(report)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    terminal.run(lambda _: main())
