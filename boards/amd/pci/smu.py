"""The power controller: messages, clock and power limits, metrics, the mode-1 reset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from boards.amd.pci import smu_driver_tables, smu_i2c, smu_metrics
from boards.amd.pci.board import Board
from boards.amd.pci.mc_memory import McMemory
from boards.amd.pci.register_file import Block
from boards.amd.pci.register_table import Register
from boards.amd.pci.smu_mailbox import FAILED, NOT_ALLOWED, OK, UNKNOWN, Mailbox
from boards.amd.pci.smu_tables import GFX_942_MHZ, messages, smu_of

MAILBOX, DEBUG_MAILBOX = (66, 82, 90), (75, 53, 54)
"""Message, parameter, response. src: smu_v13_0_0_ppt.c, smu_v14_0_2_ppt.c"""
_DEBUG_MODE1, _DRIVER_MODE1 = 2, 1
"""src: tinygrad, ip.py; smu_v13_0_6_ppsmc.h PPSMC_RESET_TYPE_DRIVER_MODE_1_RESET"""
_METRICS_TABLE = 5
"""src: smu13_driver_if_v13_0_0.h and the others, TABLE_SMU_METRICS"""
_COUNT, _FINE_GRAINED = 0xFF, 1 << 31
_ALL_FEATURES = 0x3FFF_FFFF_FFFF
_WORD = 0xFFFF_FFFF
_NO_LIMIT = 0xFFFF
_LEAST_POWER, _MOST_POWER = 0.5, 1.15
RESET_S = 0.01
"""From the answer to a reset's message until everything is gone: the answer can be read."""
_LISTENED = (
    "SetAllowedFeaturesMaskLow", "SetAllowedFeaturesMaskHigh", "AllowGfxOff", "DisallowGfxOff",
    "SetWorkloadMask", "RunDcBtc", "PrepareMp1ForUnload", "PrepareForDriverUnload",
    "SetSystemVirtualDramAddrHigh", "SetSystemVirtualDramAddrLow", "SetToolsDramAddrHigh",
    "SetToolsDramAddrLow", "NotifyPowerSource", "AllowGfxDcs", "DisallowGfxDcs", "DALNotPresent",
    "SetFwDstatesMask", "SetThrottlerMask", "OverridePcieParameters", "AllowIHHostInterrupt",
    "SelectPLPDMode", "SelectPstatePolicy", "DFCstateControl", "UseDefaultPPTable",
    "SetExternalClientDfCstateAllow", "PowerUpVcn", "PowerDownVcn", "PowerUpJpeg",
    "PowerDownJpeg", "EnableShadowDpm",
    "EnableUCLKShadow", "SetNumBadHbmPagesRetired",
)  # fmt: skip
"""Taken, remembered and without effect here."""
Answer = tuple[int, int]
_FLAGS, _FLAGS_DW, _FLAGS_13_0_7_DW = "MP1_FIRMWARE_FLAGS", 0x3B1_0024 // 4, 0x3B1_0028 // 4
"""In the controller's own space, reached by index. src: smu_v13_0.c, smu_v14_0.c and
smu_v13_0_7_ppt.c, check_fw_status(): MP1_Public | smnMP1_FIRMWARE_FLAGS, where INTERRUPTS_ENABLED
is bit 0"""
# src: smu_v13_0_6_ppsmc.h PPSMC_AID_THM_TYPE, _CCD_, _XCD_, _HBM_, PPSMC_THROTTLING_LIMIT_TYPE_*
CTF_LIMITS_C: Mapping[int, int] = {1: 110, 3: 110, 4: 105}
THROTTLING_LIMITS_C: Mapping[int, int] = {1: 100, 2: 95}
"""Degrees at which gfx942 shuts down, and from which it is slow. Made up."""
_UNLOADS, _UNLOAD = (13, 0, 10), 0x55
"""Version that ends its firmware for a kernel driver which leaves, and the message's argument.
src: amdgpu_smu.c smu_reset_mp1_state(), smu_v13_0_0_ppt.c smu_v13_0_0_set_mp1_state()"""
_AT_28 = ((13, 0, 6), (13, 0, 7))


def _flags_block(board: Board) -> Block:
    flags = Register(_FLAGS, 0, 0, {"INTERRUPTS_ENABLED": (0, 0)})
    base = _FLAGS_13_0_7_DW if board.chip.ip["MP1"] in _AT_28 else _FLAGS_DW
    return Block("MP1_PUBLIC", 0, (base,), {_FLAGS: flags}, board.find)


class SmuController:
    """MP1's mailboxes."""

    def __init__(self, board: Board, block: Block, mode1: Callable[[], None]) -> None:
        self._board, self._mode1 = board, mode1
        self.memory = McMemory(board, "SMU")
        self._data = smu_of(board.chip)
        self._names = messages(self._data.data)
        self._by_rom = board.chip.family == "gfx9"
        self.flags = board.registers.add(_flags_block(board))
        self.flags.on_read(_FLAGS, lambda: int(self.alive))
        Mailbox(board, block, MAILBOX, lambda: self.alive, self._message)
        Mailbox(board, block, DEBUG_MAILBOX, lambda: self.alive, self._debug)
        self._handlers = self._all_handlers()
        board.on_reset(self._reset)

    @property
    def alive(self) -> bool:
        """gfx942's is started by its boot ROM, the others by firmware through the PSP."""
        return self._by_rom or "SMU" in self._board.loaded

    def _reset(self) -> None:
        self.features, self.power_limit_w = 0, self._data.power_w
        self.limits_mhz = {
            number: (levels[0], levels[-1]) for number, (_, levels) in self._data.clocks.items()
        }
        self.gfx_limits_mhz = GFX_942_MHZ
        self.heard: dict[str, int] = {}
        """The last parameter of each message that has no other effect."""
        self._dram, self._looks = [0, 0], 0

    def _all_handlers(self) -> dict[str, Callable[[int], Answer]]:
        data = self._data
        return {
            "TestMessage": lambda argument: (OK, argument + 1),
            "GetSmuVersion": lambda argument: (OK, data.version),
            "GetDriverIfVersion": lambda argument: (OK, data.driver_interface),
            "GetMetricsVersion": lambda argument: (OK, 0xC),
            "EnableAllSmuFeatures": lambda argument: self._enable(_ALL_FEATURES),
            "DisableAllSmuFeatures": lambda argument: self._enable(0),
            "EnableSmuFeaturesLow": lambda argument: self._enable(self.features | argument),
            "EnableSmuFeaturesHigh": lambda argument: self._enable(self.features | argument << 32),
            "DisableSmuFeaturesLow": lambda argument: self._enable(self.features & ~argument),
            "DisableSmuFeaturesHigh": lambda argument: self._enable(
                self.features & ~(argument << 32)
            ),
            "GetRunningSmuFeaturesLow": lambda argument: (OK, self.features & _WORD),
            "GetRunningSmuFeaturesHigh": lambda argument: (OK, self.features >> 32),
            "GetEnabledSmuFeaturesLow": lambda argument: (OK, self.features & _WORD),
            "GetEnabledSmuFeaturesHigh": lambda argument: (OK, self.features >> 32),
            "SetDriverDramAddrHigh": lambda argument: self._set_dram(1, argument),
            "SetDriverDramAddrLow": lambda argument: self._set_dram(0, argument),
            "TransferTableSmu2Dram": self._transfer,
            "TransferTableDram2Smu": self._receive,
            "GetMetricsTable": lambda argument: self._transfer(_METRICS_TABLE),
            "GetDpmFreqByIndex": self._frequency,
            "GetMinDpmFreq": lambda argument: self._end_of_range(argument, 0),
            "GetMaxDpmFreq": lambda argument: self._end_of_range(argument, -1),
            "SetSoftMinByFreq": lambda argument: self._limit(argument, 0),
            "SetSoftMaxByFreq": lambda argument: self._limit(argument, 1),
            "SetHardMinByFreq": lambda argument: self._limit(argument, 0),
            "SetHardMaxByFreq": lambda argument: self._limit(argument, 1),
            "SetSoftMinGfxClk": lambda argument: self._gfx_limit(argument, 0),
            "SetSoftMaxGfxClk": lambda argument: self._gfx_limit(argument, 1),
            "GetMinGfxDpmFreq": lambda argument: (OK, GFX_942_MHZ[0]),
            "GetMaxGfxDpmFreq": lambda argument: (OK, GFX_942_MHZ[1]),
            "SetPptLimit": self._set_power,
            "GetPptLimit": lambda argument: (OK, self.power_limit_w),
            "RequestI2cTransaction": lambda argument: self._i2c(),
            "GetCTFLimit": partial(_temperature, CTF_LIMITS_C),
            "ReadThrottlerLimit": partial(_temperature, THROTTLING_LIMITS_C),
            "QueryValidMcaCount": lambda argument: (OK, 0),
            "QueryValidMcaCeCount": lambda argument: (OK, 0),
            "Mode1Reset": lambda argument: self._reset_soon(),
            "GfxDriverReset": self._driver_reset,
        }

    def _message(self, message: int, argument: int) -> Answer:
        name = self._names.get(message)
        if name is None:
            self._board.find("SMU message that is not known", f"{message:#x}")
            return UNKNOWN, 0
        self._board.hardware.event("smu", message=name, argument=argument)
        if name == "PrepareMp1ForUnload" and self._board.chip.ip["MP1"] == _UNLOADS:
            return self._unload(argument)
        if name in _LISTENED:
            self.heard[name] = argument
            return OK, 0
        handler = self._handlers.get(name)
        if handler is None:
            self._board.find("SMU message that is not modelled", name)
            return FAILED, 0
        return handler(argument)

    def _debug(self, message: int, argument: int) -> Answer:
        if message == _DEBUG_MODE1 and self._data.debug_mailbox:
            return self._reset_soon()
        self._board.find("SMU debug message that is not known", f"{message:#x}")
        return UNKNOWN, 0

    # Handlers

    def enable_all(self) -> None:
        """What a driver's message does."""
        self.features = _ALL_FEATURES

    def _enable(self, features: int) -> Answer:
        self.features = features
        return OK, 0

    def _set_dram(self, half: int, argument: int) -> Answer:
        self._dram[half] = argument
        return OK, 0

    def _transfer(self, table: int) -> Answer:
        address = self._dram[0] | self._dram[1] << 32
        if table & 0xFFFF != _METRICS_TABLE:
            data = smu_driver_tables.to_driver(
                self._board.chip.ip["MP1"], table & 0xFFFF, self._data.power_w
            )
            if data is None:
                self._board.find("SMU table that is not modelled", f"{table:#x}")
                return FAILED, 0
            return self._place(address, data)
        if not address or not self.features:
            return NOT_ALLOWED, 0
        self._looks += 1
        build = smu_metrics.accelerator if self._by_rom else smu_metrics.consumer
        clocks = {number: limits[1] for number, limits in self.limits_mhz.items()}
        return self._place(address, build(self._data, self._looks, clocks, self.power_limit_w))

    def _place(self, address: int, data: bytes) -> Answer:
        """Write a table where the driver wants it."""
        if self._is_guarded(address, len(data)) or not self.memory.write(address, data):
            self._board.find("SMU table outside VRAM", f"{address:#x}")
            return FAILED, 0
        return OK, 0

    def _i2c(self) -> Answer:
        """The request is where tables go; what was read is put into it."""
        address = self._dram[0] | self._dram[1] << 32
        data = None
        if not self._is_guarded(address, smu_i2c.REQUEST_BYTES):
            data = self.memory.read(address, smu_i2c.REQUEST_BYTES)
        answer = smu_i2c.transaction(data) if data is not None else None
        return self._place(address, answer) if answer is not None else (FAILED, 0)

    def _is_guarded(self, address: int, nbytes: int) -> bool:
        off = self._board.vram_offset(address, nbytes)
        return off is not None and self._board.vram.is_guarded(off, nbytes)

    def _receive(self, table: int) -> Answer:
        """A table of the driver's, which changes nothing here."""
        address = self._dram[0] | self._dram[1] << 32
        version = self._board.chip.ip["MP1"]
        nbytes = smu_driver_tables.from_driver_bytes(version, table & 0xFFFF)
        if not nbytes:
            self._board.find("SMU table that is not modelled", f"{table:#x} from {address:#x}")
            return FAILED, 0
        if self._is_guarded(address, nbytes) or self.memory.read(address, nbytes) is None:
            self._board.find("SMU table outside VRAM", f"{address:#x}")
            return FAILED, 0
        return OK, 0

    def _levels(self, argument: int) -> tuple[int, ...]:
        return self._data.clocks.get(argument >> 16, ("", ()))[1]

    def _frequency(self, argument: int) -> Answer:
        levels, index = self._levels(argument), argument & 0xFFFF
        if index == _COUNT:
            return OK, len(levels)
        if index >= len(levels):
            return FAILED, 0
        # src: smu_v13_0.c smu_v13_0_get_fine_grained_status(): bit 31 of a level
        fine = not self._by_rom and argument >> 16 == 0
        return OK, levels[index] | (_FINE_GRAINED if fine else 0)

    def _end_of_range(self, argument: int, end: int) -> Answer:
        levels = self._levels(argument)
        return (OK, levels[end]) if levels else (FAILED, 0)

    def _limit(self, argument: int, side: int) -> Answer:
        levels, mhz = self._levels(argument), argument & 0xFFFF
        if not self.features:
            return NOT_ALLOWED, 0
        if not levels:
            return FAILED, 0
        if mhz in (0, _NO_LIMIT):
            mhz = levels[-side]
        elif not levels[0] <= mhz <= levels[-1]:
            self._board.find("SMU clock limit out of range", f"{mhz} MHz")
            return FAILED, 0
        low, high = self.limits_mhz[argument >> 16]
        self.limits_mhz[argument >> 16] = (low, mhz) if side else (mhz, max(mhz, high))
        return OK, 0

    def _gfx_limit(self, argument: int, side: int) -> Answer:
        low, high = self.gfx_limits_mhz
        if not GFX_942_MHZ[0] <= argument <= GFX_942_MHZ[1]:
            return FAILED, 0
        self.gfx_limits_mhz = (low, argument) if side else (argument, high)
        return OK, 0

    def _set_power(self, argument: int) -> Answer:
        watts = argument & 0xFFFF
        default = self._data.power_w
        if not _LEAST_POWER * default <= watts <= _MOST_POWER * default:
            self._board.find("SMU power limit out of range", f"{watts} W")
            return FAILED, 0
        self.power_limit_w = watts
        return OK, 0

    # Resets

    def _unload(self, argument: int) -> Answer:
        """A driver that leaves ends the firmware, and sOS stays. Modelled from the driver's side.

        src: amdgpu_device.c amdgpu_device_init() does not reset such a chip without a display when
        it finds sOS alive (psp_gpu_reset() has no function for PSP 13), and loads everything anew:
        so nothing of the graphics core runs then. The PSP's commands that end a driver come later.
        """
        if argument != _UNLOAD:
            self._board.find("SMU unload that is not modelled", f"{argument:#x}")
            return FAILED, 0
        self._reset()
        self._board.power_off_core()
        return OK, 0

    def _driver_reset(self, kind: int) -> Answer:
        if kind & 0xFFFF != _DRIVER_MODE1:
            self._board.find("reset that is not modelled", f"GfxDriverReset({kind:#x})")
            return FAILED, 0
        return self._reset_soon()

    def _reset_soon(self) -> Answer:
        self._board.delays.after(RESET_S, self._mode1)
        return OK, 0


def _temperature(limits_c: Mapping[int, int], argument: int) -> Answer:
    """src: smu_v13_0_6_ppt.c smu_v13_0_6_get_thermal_temperature_range()"""
    return (OK, limits_c[argument]) if argument in limits_c else (FAILED, 0)
