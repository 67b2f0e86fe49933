"""The oldest kernel of each way to an Adreno: what older ones lack, this driver needs.

# src: msm-4.9 (SDM845), the first with chips of generation 6; Linux 5.15, msm_drv.c: version 1.8.0,
# MSM_BO_CACHED_COHERENT; 6.1.192 and later were read, too (docs/qcom.md has the list)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import Denied, NotFound, Unsupported
from drivers.machine.text import read_text

PATH: Final = "/proc/sys/kernel/osrelease"
OLDEST: Final[Mapping[str, tuple[int, int]]] = {"KGSL": (4, 9), "MSM": (5, 15)}
"""Interface -> release."""
_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


def refusal(world: World, way: str) -> Unsupported | None:
    """Why this kernel is too old for an interface; None where it is not, or does not say."""
    try:
        text = read_text(world, PATH)
    except (NotFound, Denied):
        return None
    found = _RELEASE.match(text)
    oldest = OLDEST[way]
    if found is None or (int(found[1]), int(found[2])) >= oldest:
        return None
    wanted = ".".join(map(str, oldest))
    return Unsupported(
        f"{way} of Linux {text.strip()[:40]}: this driver was written for {wanted} and later",
        hint=f"boot a kernel of {wanted} or later",
    )


def check(world: World, way: str) -> None:
    """Raises: Unsupported for a kernel that is too old."""
    error = refusal(world, way)
    if error is not None:
        raise error
