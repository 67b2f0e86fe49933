"""The metrics table: sane values that change from one reading to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boards.amd.pci.smu_tables import GFX_942_MHZ, Field, Smu, metrics

_EDGE_C, _HOTSPOT_C, _MEMORY_C, _FAN_RPM = 52, 64, 58, 1180
_Q10 = 1024
"""gfx942 counts power, clocks and temperatures in 1/1024. src: smu_v13_0_6_ppt.c SMUQ10_ROUND"""
Values = Mapping[str, int | Sequence[int]]


def _pack(fields: Mapping[str, Field], values: Values, nbytes: int) -> bytes:
    table = bytearray(nbytes)
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            continue
        items = [value] * field.count if isinstance(value, int) else list(value)[: field.count]
        for number, item in enumerate(items):
            at = field.offset + number * field.nbytes
            table[at : at + field.nbytes] = item.to_bytes(field.nbytes, "little")
    return bytes(table)


def consumer(smu: Smu, count: int, clocks_mhz: Mapping[int, int], limit_w: int) -> bytes:
    """gfx11's and gfx12's; members of the one that the other lacks are left out."""
    swing = count % 7
    gfx, memory, fabric = (clocks_mhz.get(number, 0) for number in (0, 2, 3))
    busy = 17 + 3 * swing
    power = min(limit_w, 60 + 5 * swing)
    temperatures = [_EDGE_C, _HOTSPOT_C, _HOTSPOT_C, _MEMORY_C, _MEMORY_C, *[49] * 8]
    values: dict[str, int | Sequence[int]] = {
        "CurrClock": [clocks_mhz.get(number, 0) for number in range(13)],
        "AverageGfxclkFrequencyTarget": gfx, "AverageGfxclkFrequencyPreDs": gfx - swing,
        "AverageGfxclkFrequencyPostDs": gfx - 2 * swing, "AverageFclkFrequencyPreDs": fabric,
        "AverageFclkFrequencyPostDs": fabric, "AverageMemclkFrequencyPreDs": memory,
        "AverageMemclkFrequencyPostDs": memory, "dGPU_W_MAX": limit_w, "MetricsCounter": count,
        "AvgVoltage": 780 + swing, "AvgCurrent": 22, "AverageGfxActivity": busy,
        "AverageUclkActivity": busy // 2, "EnergyAccumulator": count * power,
        "AverageSocketPower": power, "AverageTotalBoardPower": power + 15,
        "AvgTemperature": [value + swing for value in temperatures],
        "AvgTemperatureFanIntake": 31, "PcieRate": 4, "PcieWidth": 6, "AvgFanPwm": 30,
        "AvgFanRpm": _FAN_RPM + swing,
    }  # fmt: skip
    for name in ("GfxclkFrequencyTarget", "GfxclkFrequencyPostDs", "GfxActivity", "SocketPower"):
        values[f"MovingAverage{name}"] = values[f"Average{name}"]
    return _pack(metrics(smu.data), values, smu.metrics_bytes)


def accelerator(smu: Smu, count: int, clocks_mhz: Mapping[int, int], limit_w: int) -> bytes:
    """gfx942's."""
    swing = count % 7
    power, (slow, fast) = min(limit_w, 140 + 6 * swing), GFX_942_MHZ
    tables = {name: [mhz * _Q10 for mhz in levels] for name, levels in smu.clocks.values()}
    values: Values = {
        "AccumulationCounter": count, "MaxSocketTemperature": (44 + swing) * _Q10,
        "MaxVrTemperature": 47 * _Q10, "MaxHbmTemperature": (39 + swing) * _Q10,
        "SocketPowerLimit": limit_w * _Q10, "MaxSocketPowerLimit": smu.power_w * _Q10,
        "SocketPower": power * _Q10, "Timestamp": count * 100_000,
        "SocketEnergyAcc": count * power * _Q10, "GfxclkFrequencyLimit": fast * _Q10,
        "FclkFrequency": clocks_mhz[4] * _Q10, "UclkFrequency": clocks_mhz[3] * _Q10,
        "SocclkFrequency": clocks_mhz[2] * _Q10, "GfxclkFrequency": (fast - swing) * _Q10,
        "MaxGfxclkFrequency": fast * _Q10, "MinGfxclkFrequency": slow * _Q10,
        "FclkFrequencyTable": tables["FCLK"], "UclkFrequencyTable": tables["UCLK"],
        "SocclkFrequencyTable": tables["SOC"], "SocketGfxBusy": (17 + 3 * swing) * _Q10,
        "DramBandwidthUtilization": 9 * _Q10, "MaxDramBandwidth": 5300 * _Q10,
        "PCIeLinkSpeed": 5, "PCIeLinkWidth": 16, "GfxBusy": (17 + 3 * swing) * _Q10,
    }  # fmt: skip
    return _pack(metrics(smu.data), values, smu.metrics_bytes)
