"""The power controller: answers by generation, limits that stay, metrics that change."""

from __future__ import annotations

import struct

import pytest

from tests.boards.bare_function import MIB, NAMES, Bare, started
from tests.support import check

OK, FAILED, UNKNOWN, NOT_ALLOWED = 1, 0xFF, 0xFE, 0xFD
"""src: smu_v13_0_0_ppsmc.h PPSMC_Result_*"""
TABLE = 24 * MIB
# src: notes section 3.2; smu_v13_0_0_ppsmc.h, smu_v14_0_2_ppsmc.h, smu_v13_0_6_ppsmc.h
NAVI = {"enable": 0x6, "high": 0xE, "low": 0xF, "table": 0x12, "min": 0x19, "max": 0x1A,
        "levels": 0x1F, "ppt": 0x32, "get_ppt": 0x33, "features": 0xC, "version": 3}  # fmt: skip
MI300 = {"enable": 0x5, "high": 0xD, "low": 0xE, "table": 0x9, "min": 0x13, "max": 0x14,
         "levels": 0x17, "ppt": 0x18, "get_ppt": 0x19, "features": 0xB, "version": 4}  # fmt: skip


def numbers(name: str) -> dict[str, int]:
    return MI300 if name == "gfx942" else NAVI


@pytest.mark.parametrize("name", NAMES)
def test_it_answers_once_it_has_firmware(name: str) -> None:
    bare = Bare(name)
    alive = name == "gfx942"
    check(bare.smu(1, 41)[0] == (OK if alive else 0), "before its firmware")
    bare = started(name)
    check(bare.smu(1, 41) == (OK, 42), "TestMessage")
    # src: smu13_driver_if_v13_0_0.h, _7.h, _6.h; smu_v14_0.h *_DRIVER_IF_VERSION
    versions = {"gfx1100": 0x3D, "gfx1101": 0x3D, "gfx1102": 0x35, "gfx1200": 0x2E,
                "gfx1201": 0x2E, "gfx942": 0x08042024}  # fmt: skip
    check(bare.smu(numbers(name)["version"]) == (OK, versions[name]), "driver interface")
    check(bare.smu(0x7777)[0] == UNKNOWN, "no such message")
    check(bare.found() == ["SMU message that is not known"], "violation")


@pytest.mark.parametrize("name", NAMES)
def test_clocks_have_levels_and_limits(name: str) -> None:
    bare, n = started(name), numbers(name)
    memory = 3 if name == "gfx942" else 2
    check(bare.smu(n["max"], memory << 16 | 1000)[0] == NOT_ALLOWED, "before features are on")
    check(bare.smu(n["enable"])[0] == OK and bare.smu(n["features"])[1] != 0, "features")
    response, count = bare.smu(n["levels"], memory << 16 | 0xFF)
    check(response == OK and 2 <= count <= 16, f"{count} levels")
    levels = [bare.smu(n["levels"], memory << 16 | at)[1] & 0x7FFFFFFF for at in range(count)]
    check(levels == sorted(set(levels)), f"{levels}")
    check(bare.smu(n["levels"], memory << 16 | count)[0] == FAILED, "one more")
    check(bare.smu(n["levels"], 77 << 16)[0] == FAILED, "no such clock")
    check(bare.smu(n["min"], memory << 16 | levels[1])[0] == OK, "least")
    check(bare.smu(n["max"], memory << 16 | levels[1])[0] == OK, "most")
    check(bare.gpu.smu.limits_mhz[memory] == (levels[1], levels[1]), "not remembered")
    check(bare.smu(n["max"], memory << 16 | levels[-1] + 1)[0] == FAILED, "too fast")
    check(bare.smu(n["max"], memory << 16 | 0xFFFF)[0] == OK, "src: smu_v13_0.c: no limit")
    check(bare.gpu.smu.limits_mhz[memory] == (levels[1], levels[-1]), "not lifted")
    check(bare.found() == ["SMU clock limit out of range"], "violations")


@pytest.mark.parametrize("name", NAMES)
def test_power_limits_stay_until_a_reset(name: str) -> None:
    bare, n = started(name), numbers(name)
    default = bare.smu(n["get_ppt"])[1]
    check(bare.smu(n["ppt"], default - 10)[0] == OK, "a lower one")
    check(bare.smu(n["get_ppt"]) == (OK, default - 10), "forgotten")
    check(bare.smu(n["ppt"], default * 2)[0] == FAILED, "twice the default")
    check(bare.smu(n["ppt"], 1)[0] == FAILED, "one watt")
    bare.gpu.mode1_reset()
    check(bare.gpu.smu.power_limit_w == default, "a reset keeps it")


# (offset, bytes, divisor) src: gcc over smu13_driver_if_v13_0_0.h, smu14_driver_if_v14_0.h,
# smu_v13_0_6_pmfw.h
POWER = {"gfx1100": (0x7C, 2, 1), "gfx1102": (0x7C, 2, 1), "gfx1201": (0x88, 2, 1),
         "gfx942": (0x30, 4, 1024)}  # fmt: skip
COUNTER = {"gfx1100": 0x50, "gfx1102": 0x50, "gfx1201": 0x68, "gfx942": 0}
NBYTES = {"gfx1100": 392, "gfx1102": 392, "gfx1201": 412, "gfx942": 2008}


@pytest.mark.parametrize("name", POWER)
def test_metrics_are_sane_and_change(name: str) -> None:
    bare, n = started(name), numbers(name)
    argument = 0 if name == "gfx942" else 5
    check(bare.smu(n["table"], argument)[0] == NOT_ALLOWED, "no address, no features")
    bare.smu(n["enable"])
    bare.smu(n["high"], (bare.mc + TABLE) >> 32)
    bare.smu(n["low"], (bare.mc + TABLE) & 0xFFFF_FFFF)
    bare.put(TABLE, b"\xee" * 4096)
    looks = []
    for _ in range(2):
        check(bare.smu(n["table"], argument)[0] == OK, f"{bare.gpu.violations}")
        looks.append(bare.get(TABLE, 4096))
    check(looks[0] != looks[1], "nothing moves")
    check(looks[0][NBYTES[name] :] == b"\xee" * (4096 - NBYTES[name]), "it writes too much")
    off, size, divisor = POWER[name]
    watts = int.from_bytes(looks[0][off : off + size], "little") / divisor
    check(10 < watts < bare.gpu.smu.power_limit_w, f"{watts} W")
    first, second = (struct.unpack_from("<I", look, COUNTER[name])[0] for look in looks)
    check(second == first + 1, f"{first}, {second}")
    bare.smu(n["high"], 0)
    check(bare.smu(n["table"], argument)[0] == FAILED, "into nowhere")
    check(bare.found() == ["SMU table outside VRAM"], "violation")


def test_messages_on_top_of_each_other() -> None:
    bare = started("gfx1100", smu_s=0.25)
    check(bare.smu(1, 5) == (0, 5), "at once")
    bare.write("MP1", "MP1_SMN_C2PMSG_66", 1)
    check(bare.found() == ["SMU message before the last one was answered"], "a second one")
    bare.gpu.clock.skip(0.3)
    check(bare.read("MP1", "MP1_SMN_C2PMSG_90") == OK, "never")
    bare.write("MP1", "MP1_SMN_C2PMSG_66", 1)
    check(bare.found() == ["SMU message with the old response in place"], "not cleared")


def test_gfx942_says_at_which_temperatures_it_stops() -> None:
    """src: smu_v13_0_6_ppsmc.h PPSMC_MSG_GetCTFLimit 0x38, PPSMC_MSG_ReadThrottlerLimit 0x35 and
    their types; smu_v13_0_6_ppt.c smu_v13_0_6_get_thermal_temperature_range()"""
    bare = started("gfx942")
    dies, xccs, memory = (bare.smu(0x38, kind) for kind in (1, 3, 4))
    for answer, limit in ((bare.smu(0x35, 1), max(dies, xccs)),
                          (bare.smu(0x35, 2), memory)):  # fmt: skip
        check(answer[0] == OK and 80 < answer[1] < limit[1] < 125, f"{answer} {limit}")
    check(bare.smu(0x38, 2)[0] == FAILED, "there is no CPU die")


def eeprom(bare: Bare, device: int, offset: int, count: int) -> tuple[int, bytes]:
    """A read as amdgpu makes it: an offset, a restart, bytes, a stop.

    src: amdgpu_eeprom.c __amdgpu_eeprom_xfer(); smu_v13_0_6_ppt.c smu_v13_0_6_i2c_xfer()
    """
    commands = [(offset >> 8, 4), (offset & 0xFF, 4), (0, 2), *[(0, 0)] * (count - 2), (0, 1)]
    data = bytes((0, 1, device << 1, len(commands))) + bytes(sum(commands, ()))
    bare.smu(numbers("gfx942")["high"], (bare.mc + TABLE) >> 32)
    bare.smu(numbers("gfx942")["low"], (bare.mc + TABLE) & 0xFFFF_FFFF)
    bare.put(TABLE, data.ljust(52, b"\0"))
    status = bare.smu(7, 0)[0]
    return status, bare.get(TABLE, 52)[8 : 8 + 2 * count : 2]


def test_gfx942_has_an_fru_without_areas() -> None:
    """src: amdgpu_fru_eeprom.c amdgpu_fru_get_product_info(): FRU_EEPROM_MADDR_8; IPMI FRU 1.0:
    a common header of version 1, its bytes adding up to 0"""
    bare = started("gfx942")
    status, header = eeprom(bare, 0x58, 0, 8)
    check(status == OK and header[0] == 1 and sum(header) % 256 == 0, header.hex())
    check(header[4] == 0, "no product area")
    check(eeprom(bare, 0x58, 6, 4)[1] == header[6:] + b"\xff\xff", "erased behind it")
    check(eeprom(bare, 0x50, 0, 8)[0] == FAILED, "nobody is there")


# src: gcc over smu_v13_0_0_pptable.h, smu_v13_0_7_pptable.h, smu_v14_0_2_pptable.h and the driver
# interfaces: size, SocketPowerLimitAc[PPT0], MsgLimits.Power[PPT0][AC]
PPTABLES = {"gfx1100": (4804, 848, 3640), "gfx1102": (4804, 848, 3640),
            "gfx1201": (5812, 4924, 3976)}  # fmt: skip


@pytest.mark.parametrize("name", PPTABLES)
def test_the_power_limit_is_within_the_power_play_tables(name: str) -> None:
    """src: amdgpu_smu.c smu_set_power_limit(), which smu_resume() calls after a reset"""
    bare, n = started(name), numbers(name)
    bare.smu(n["high"], (bare.mc + TABLE) >> 32)
    bare.smu(n["low"], (bare.mc + TABLE) & 0xFFFF_FFFF)
    bare.put(TABLE, b"\xee" * 8192)
    check(bare.smu(n["table"], 1)[0] == OK, f"{bare.gpu.violations}")
    size, socket, message = PPTABLES[name]
    data = bare.get(TABLE, 8192)
    check(data[size:] == b"\xee" * (8192 - size), "another size")
    limits = [struct.unpack_from("<H", data, at)[0] for at in (socket, message)]
    check(min(limits) <= bare.smu(n["get_ppt"])[1] <= max(limits), f"{limits} W")
