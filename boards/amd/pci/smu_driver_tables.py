"""Tables that amdgpu exchanges with the power controller besides metrics.

Modelled from the driver's side: the controller has made its power-play table from fuses and
firmware; here it is zeros of the right size, which amdgpu reads as "nothing beyond the defaults".
"""

from __future__ import annotations

from boards.amd.cp.engine_types import Version

# src: smu13_driver_if_v13_0_0.h, smu13_driver_if_v13_0_7.h, smu14_driver_if_v14_0.h
PPTABLE, COMBO_PPTABLE, METRICS, DRIVER_SMU_CONFIG, ACTIVITY, OVERDRIVE = 0, 1, 5, 6, 7, 8
TO_CONTROLLER = (PPTABLE, DRIVER_SMU_CONFIG, ACTIVITY, OVERDRIVE)
"""Tables that a driver may send."""
_COMBO_BYTES: dict[Version, int] = {
    (13, 0, 0): 4804, (13, 0, 10): 4804, (13, 0, 7): 4804, (14, 0, 2): 5812, (14, 0, 3): 5812,
}  # fmt: skip
"""Of smu_{13_0_0,13_0_7,14_0_2}_powerplay_table, as gcc lays them out."""


def to_driver(version: Version, table: int) -> bytes | None:
    """What the controller writes for a table other than the metrics; None: it has no such table."""
    if table != COMBO_PPTABLE or version not in _COMBO_BYTES:
        return None
    return bytes(_COMBO_BYTES[version])
