"""Stock tinygrad and this driver in front of the same board of a USB bridge: transfers, counted.

python -m tests.witness.tinygrad_usb                      # gfx1100
python -m tests.witness.tinygrad_usb --chip gfx1201

Each phase: how often the host waits, transfers, and milliseconds by the cable's clock, which
charges neither the GPU nor the host's processor. docs/usb.md says what is patched in tinygrad.
Fails where a result is wrong, or where we wait more often than tinygrad: a launch and the wait for
it count as one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from boards.amd.pci.firmware_set import named
from boards.machine.chassis import Violation
from tests.boards.driver_harness import add, get, put
from tests.boards.usb_rig import UsbRig
from tests.debian import CannotRun
from tests.support import check
from tests.witness import known_violations
from tests.witness.tinygrad_wheel import VERSION, Wheel, wheel
from unbound import terminal

VIOLATIONS = ("tinygrad_violations.toml", "tinygrad_usb_violations.toml")
ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("tinygrad_usb_client.py")
PHASES = ("open", "launch", "wait", "copy in", "copy out")
JUDGED = (("open",), ("launch", "wait"), ("copy in",), ("copy out",))
PLACE = "board:2-7"
"""Not "usb:2-7": see docs/usb.md."""
MIB16, N, LIMIT_S, WARM = 16 << 20, 64, 600, 4
DONE, FAILED, NOT_HERE = 0, 1, 77


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one phase."""

    trips: int
    transfers: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.trips:>7}{self.transfers:>11}{self.seconds * 1e3:>9.1f} ms"


def theirs(chip: str, where: Wheel) -> dict[str, Cost]:
    """What tinygrad does. Raises: AssertionError with what it said where it failed."""
    with TemporaryDirectory() as folder:
        for name, (_, data) in named(chip).items():
            (Path(folder) / name).write_bytes(data)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environ = {
            **kept, "PYTHONPATH": f"{where.packages}{os.pathsep}{ROOT}", "DEV": "USB+AMD:LLVM",
            "PYTHONDONTWRITEBYTECODE": "1", "LLVM_PATH": str(where.llvm), "HOME": folder,
            "TMPDIR": folder, "XDG_CACHE_HOME": f"{folder}/cache",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-P", str(CLIENT), folder, chip, PLACE], env=environ,
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    check(done.returncode == 0, done.stdout[-600:] + done.stderr[-1200:])
    said = [json.loads(line) for line in done.stdout.splitlines()]
    found = new = [Violation(*facts["violation"]) for facts in said if "violation" in facts]
    for name in VIOLATIONS:
        new = known_violations.load(CLIENT.with_name(name)).new(new, chip)
    check(not new, f"new violations: {', '.join(map(str, new))}")
    print(f"tinygrad {VERSION}: violations: {len(found)} known, 0 new", flush=True)
    return {
        facts["phase"]: Cost(facts["trips"], facts["transfers"], facts["seconds"])
        for facts in said
        if "phase" in facts
    }


def ours(chip: str) -> dict[str, Cost]:
    """What this driver does. Raises: AssertionError for a wrong result or a violation."""
    rig = UsbRig(chip)
    cable, costs = rig.cable, {}

    def phase(name: str, run: Callable[[], object]) -> None:
        before = cable.trips, cable.transfers, cable.now_s
        run()
        costs[name] = Cost(
            cable.trips - before[0], cable.transfers - before[1], cable.now_s - before[2]
        )

    begun_s = cable.now_s
    with rig.opened() as device:
        costs["open"] = Cost(cable.trips, cable.transfers, cable.now_s - begun_s)
        buffers = [put(device, np.ones(N, np.float32)) for _ in range(3)]
        program = device.load(add(chip))
        for _ in range(WARM):
            device.launch(program, [*buffers, N], 1)
            device.synchronize()
        phase("launch", lambda: device.launch(program, [*buffers, N], 1))
        phase("wait", device.synchronize)
        check(bool((get(device, buffers[2]) == 2).all()), "the sum is wrong")
        data = np.random.default_rng(1).integers(0, 256, MIB16, np.uint8)
        buffer, back = device.alloc(MIB16), np.zeros_like(data)
        device.copy_in(buffer, memoryview(data))
        phase("copy in", lambda: device.copy_in(buffer, memoryview(data)))
        phase("copy out", lambda: device.copy_out(memoryview(back), buffer))
        check(bool((back == data).all()), "what came back is wrong")
    check(not rig.violations(), str(rig.violations()))
    return costs


def main() -> int:
    """0: all right, and we wait no more than tinygrad; 1: not; 77: no wheel, and why."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.witness.tinygrad_usb", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--chip", choices=("gfx1100", "gfx1201"), default="gfx1100")
    chip = parser.parse_args().chip
    try:
        found = wheel()
    except CannotRun as error:
        print(f"witness-tinygrad: not run here: {error}", file=sys.stderr)
        return NOT_HERE
    peer, own = theirs(chip, found), ours(chip)
    head = f"{'waits':>7}{'transfers':>11}{'cable':>12}"
    print(f"{chip:<10}{'this driver':^30}   {f'tinygrad {VERSION}':^30}\n{'':<10}{head}   {head}")
    for name in PHASES:
        print(f"{name:<10}{own[name]}   {peer[name]}")
    more = [
        " and ".join(names)
        for names in JUDGED
        if sum(own[name].trips for name in names) > sum(peer[name].trips for name in names)
    ]
    print(f"witness-tinygrad: USB {'FAILED: more waits: ' + ', '.join(more) if more else 'passed'}")
    return FAILED if more else DONE


if __name__ == "__main__":
    terminal.run(lambda _: main())
