"""Tables that amdgpu exchanges with the power controller besides metrics.

Modelled from the driver's side: the controller has made its power-play table from fuses and
firmware; here it is zeros of the right size, which amdgpu reads as "nothing beyond the defaults",
but for the power limits: it sets the present one again after a reset, and refuses 0 to 0 W for it.
"""

from __future__ import annotations

from boards.amd.cp.engine_types import Version

# src: smu13_driver_if_v13_0_0.h, smu13_driver_if_v13_0_7.h, smu14_driver_if_v14_0.h
PPTABLE, COMBO_PPTABLE, METRICS, DRIVER_SMU_CONFIG, ACTIVITY, OVERDRIVE = 0, 1, 5, 6, 7, 8
_BYTES: dict[int, tuple[int, int, int]] = {
    COMBO_PPTABLE: (4804, 4804, 5812), OVERDRIVE: (140, 140, 156), ACTIVITY: (124, 124, 140),
}  # fmt: skip
"""For SMU 13.0.0, 13.0.7 and 14.0.2, as gcc lays out smu_*_powerplay_table,
OverDriveTableExternal_t and DpmActivityMonitorCoeffIntExternal_t."""
_SENT_BYTES: dict[int, tuple[int, int, int]] = {
    PPTABLE: (3972, 3972, 4468), DRIVER_SMU_CONFIG: (80, 80, 84), ACTIVITY: (124, 124, 140),
    OVERDRIVE: (140, 140, 156),
}  # fmt: skip
"""The same for tables that a driver sends: PPTable_t, DriverSmuConfigExternal_t and those two."""
_POWER_LIMITS_AT: tuple[tuple[int, int], ...] = ((848, 3640), (848, 3640), (4924, 3976))
"""The same for SocketPowerLimitAc[PPT_THROTTLER_PPT0] and MsgLimits.Power[...][POWER_SOURCE_AC],
between which a limit may be. src: smu_v13_0_0_ppt.c, smu_v14_0_2_ppt.c *_get_power_limit()"""
_COLUMNS: dict[Version, int] = {
    (13, 0, 0): 0, (13, 0, 10): 0, (13, 0, 7): 1, (14, 0, 2): 2, (14, 0, 3): 2,
}  # fmt: skip


def to_driver(version: Version, table: int, power_w: int) -> bytes | None:
    """What the controller writes for a table other than the metrics; None: it has no such table.

    `power_w`: the default power limit, in watts.
    """
    if table not in _BYTES or version not in _COLUMNS:
        return None
    column = _COLUMNS[version]
    data = bytearray(_BYTES[table][column])
    for at in _POWER_LIMITS_AT[column] if table == COMBO_PPTABLE else ():
        data[at : at + 2] = power_w.to_bytes(2, "little")
    return bytes(data)


def from_driver_bytes(version: Version, table: int) -> int:
    """How long a table is that a driver sends; 0: the controller takes no such table."""
    if table not in _SENT_BYTES or version not in _COLUMNS:
        return 0
    return _SENT_BYTES[table][_COLUMNS[version]]
