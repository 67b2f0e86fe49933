"""Claims the GPU, maps what there is, says so, and waits to be killed."""

from __future__ import annotations

import os
import time

from drivers.amd.claim_chips import known
from drivers.claim.claim import claim
from drivers.claim.place import open_state
from drivers.pci.functions import gpus
from drivers.pci.session import default_grade, open_session
from drivers.world.linux import LinuxWorld


def main() -> None:
    """Hold it for a minute at most."""
    world = LinuxWorld()
    address = next(function.address for function in gpus(world) if known(function))
    claimed = claim(world, open_state(os.environ), address, known)
    session = open_session(world, claimed, default_grade(claimed), address_bits=44)
    session.bar(0).write32(0, 1)
    print("held", flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main()
