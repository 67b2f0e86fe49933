"""Runs in the guest: one line for each check, PASS or FAIL, with the time it took."""

import sys


def main() -> int:
    print("hello from", sys.version)
    import numpy as np

    print(np.ones((3, 3)) @ np.ones((3, 3)))
    return 0


sys.exit(main())
