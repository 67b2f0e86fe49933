"""`python -m tests.settings`: writes docs/environment.md, from the table of `drivers.settings`.

Variables that only tests read are described here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drivers.settings import SETTINGS, Group, Setting

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "environment.md"
COLUMNS: Final = 100
TESTS: Final = Group(
    "Tests, bench and make",
    (
        Setting("PYTHON", "a program", "The Python that `make` sets up. Not set: python3."),
        Setting("WORKERS", "a number", "Processes of `make test`. Not set: one for each core."),
        Setting("FULL", "1", "`make test-all` runs all cases of costly tests."),
        Setting("DEVICES", "names", "Devices of `make devices`: `pocl`, `pocl=0.125` for a share."),
        Setting("ARGS", "options", "Options that `make` hands to the program it runs."),
        Setting(
            "OPENBLAS_CORETYPE", "a name of OpenBLAS's",
            "Of numpy's BLAS. bench.py sets an inherited one aside and says so: --blas-core.",
        ),
        Setting("ISA_SEED", "a number", "Seed of the operands of instruction tests."),
        Setting("ISA_VECTORS", "a number", "Operands for each instruction: at least 20,000."),
        Setting("C_KERNELS", "a number", "Random C kernels of gfx1100. Not set: 200."),
        Setting("C_KERNELS_SEED", "a number", "Seed of those kernels."),
        Setting("UNBOUND_CYCLES", "a number", "Lives of a board whose memory may not grow: 12."),
        Setting("UNBOUND_CLAIM_ROUNDS", "a number", "Rounds of competing claims: 1,000."),
        Setting("UNBOUND_FORKS", "a number", "Forks beside busy threads: 20."),
        Setting("UNBOUND_INTERRUPTS", "a number", "Interrupts at random lines of a life: 40."),
        Setting("UNBOUND_SEED", "a number", "Seed of those interrupts, which a failure prints."),
        Setting(
            "UNBOUND_SWEEP_OFFSET", "a number",
            "Where the accesses that sweeps try begin, which a failure prints. Not set: the date.",
        ),
        Setting(
            "UNBOUND_LINUX_SOURCE", "a path",
            "A kernel source tree to compare with. Not set: what `make references` fetched.",
        ),
        Setting(
            "UNBOUND_TESTS_SHARE", "not for users",
            "How processes of a run learn of `--share`, which sets it.",
        ),
        Setting("WITNESS_CHIP", "not for users", "The board of `make witness-rocr`'s clients."),
        Setting("WITNESS_GPUS", "not for users", "How many GPUs that board has."),
        Setting("WITNESS_FILES", "not for users", "Where that board's sysfs files are written."),
        Setting("VM_FIRST_DRIVER", "not for users", "Which driver a guest's GPU has at first."),
        Setting("NVRTC_PATH", "a file", "libnvrtc for tinygrad. Not set: that of the wheel."),
        Setting("WITNESS_REPORT", "not for users", "Where what a client did is written."),
    ),
)  # fmt: skip
_HEAD: Final = """\
# Environment variables

Made by `python -m tests.settings` from the table in `drivers/settings.py`. A test compares the two,
and the table with what the code reads. `python -m drivers.settings` prints the values that are set
now.

The product reads its variables in `drivers/choice.py` alone, but for the system's search paths. An
empty variable counts as not set, but for the lists of visible GPUs. A wrong value is an error that
lists the right ones. Two variables that contradict each other are an error that names both. A name
that is given to `drivers.open` wins over the variables.
"""


def entry(setting: Setting) -> str:
    """One item of the page's lists."""
    text = f"* `{setting.name}`: {setting.values}. {setting.text}"
    return textwrap.fill(
        text, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def page() -> str:
    """The whole page."""
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield _HEAD
    for group in (*SETTINGS, TESTS):
        yield f"## {group.title}\n"
        yield from map(entry, group.settings)
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page().rstrip("\n") + "\n")
