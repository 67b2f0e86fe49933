"""Add two arrays on an AMD GPU, and write what lies in its compute ring to a file.

`python -m boards run gfx1100 examples/ring.py ring.bin`, then
`python -m queues.decode ring.bin --pm4 --chip gfx1100`: docs/tour.md goes through the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbound import terminal

if __name__ == "__main__":  # also while the rest is imported
    terminal.end_interrupts_in_one_line()

import numpy as np

import tensor as xp
from drivers.amd.device import AmdDevice
from drivers.base.errors import DeviceError
from tensor import engine


def main(arguments: Sequence[str]) -> int:
    """`examples/ring.py FILE`."""
    if len(arguments) != 1:
        print("usage: examples/ring.py FILE")
        return 2
    a = xp.asarray(np.arange(8, dtype=np.float32))
    b = xp.asarray(np.full(8, 1, np.float32))
    print((a + b).numpy())
    device = engine.device()
    if not isinstance(device, AmdDevice):
        print(f"{a.device} has no ring of AMD's: run it on a board, as the docstring says")
        return 1
    ring = device.pair.compute
    Path(arguments[0]).write_bytes(ring.bytes[: ring.put * ring.unit_bytes])
    print(f"{ring.put} words, {ring.done} done")
    return 0


if __name__ == "__main__":
    terminal.run(main, DeviceError)
