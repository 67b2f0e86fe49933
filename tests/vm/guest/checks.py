"""Runs in the guest, as root and alone: one line for each check, PASS or FAIL, with its time.

python3 checks.py bars             # the list of a boot
python3 checks.py vfio NAME ...    # some of a list
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import cabled
import hardware
import whole

LIMIT_S = 240
CHECKS: dict[str, Sequence[Callable[[], str]]] = {
    "bars": [
        hardware.seen,
        hardware.config_space,
        hardware.held_at_first,
        whole.dry_run,
        whole.doctor,
        hardware.bars_claimed_and_given_back,
        hardware.dma_by_physical_address,
        hardware.killed_and_restored,
        whole.firmware_listed,
        whole.tensor_program,
        whole.tensor_program_with_physical_dma,
        whole.smoke,
        whole.killed_at_work_then_restored,
        whole.killed_at_work_then_opened,
        hardware.kernel_without_complaints,
    ],
    "usb": [
        cabled.enclosure,
        whole.doctor,
        cabled.usb_tensor_program,
        cabled.two_openers,
        cabled.unplugged_at_boot,
        cabled.unplugged_at_work,
        hardware.kernel_without_complaints,
    ],
    "vfio": [
        hardware.seen,
        hardware.held_at_first,
        whole.dry_run,
        hardware.dma_through_vfio,
        hardware.killed_and_restored,
        whole.tensor_program_over_vfio,
        whole.smoke,
        whole.killed_at_work_then_given_back,
    ],
}


def too_long(number: int, frame: object) -> None:
    """SIGALRM: the check under way has had its time."""
    raise TimeoutError(f"no end after {LIMIT_S} s")


def run(check: Callable[[], str]) -> bool:
    """One check; what it returns is worth knowing."""
    name = check.__name__.replace("_", " ")
    began = time.monotonic()
    signal.alarm(LIMIT_S)
    try:
        said = check()
    except Exception as error:
        traceback.print_exc()
        said = " ".join(str(error).split())
        print(f"FAIL  {name}: {type(error).__name__}: {said}", flush=True)
        return False
    finally:
        signal.alarm(0)
    print(f"PASS  {name} ({time.monotonic() - began:.1f} s): {said}", flush=True)
    return True


def main() -> int:
    """How many checks failed."""
    signal.signal(signal.SIGALRM, too_long)
    name, *some = sys.argv[1:]
    return sum(not run(check) for check in CHECKS[name] if not some or check.__name__ in some)


if __name__ == "__main__":
    sys.exit(main())
