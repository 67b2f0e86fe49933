"""Which release of KFD a board follows: the rules of `behaviour.txt`, and the chips that it has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from boards.amd.cp.engine_types import Version
from boards.machine.behaviour import Behaviour, Rules, load

KERNELS: Final = ("6.12", "5.15", "6.1", "7.3")
"""The default first."""
_CHIPS: Final = {
    (9, 4, 3): "gc_9_4_3", (9, 5, 0): "gc_9_5_0", (11, 0): "gc_11_0", (11, 5): "gc_11_5",
    (12, 0): "gc_12_0",
}  # fmt: skip
"""By the version of GC, or how it begins: the rule that names it."""


@cache
def behaviour() -> Behaviour:
    """KFD's table."""
    return load(Path(__file__).with_name("behaviour.txt"))


def rules_of(release: str) -> Rules:
    """Those of a release, "" for the default. Raises: ValueError."""
    return behaviour().rules(release or KERNELS[0])


def check_chip(name: str, gc: Version, release: str) -> None:
    """Raises: ValueError for a chip that the kernel has no driver for."""
    wanted = _CHIPS.get(gc) or _CHIPS.get(gc[:2])
    if not release or wanted is None or wanted in rules_of(release):
        return
    table = behaviour()
    have = [one for one in table.releases if wanted in table.rules(one)]
    raise ValueError(f"Linux {release} has no driver for {name}: use --kernel {' or '.join(have)}")
