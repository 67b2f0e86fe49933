"""Temperatures and utilisation, as RM reports them to whoever asks.

Controls for clocks, fans and power are not in the open headers.
# src: src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080thermal.h, ctrl2080perf.h}
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drivers.base.errors import MalformedInput
from drivers.base.ioctl import Struct, chars, u8, u32
from drivers.nv.nvk.controls import Control

PSTATE_SINCE: Final = 550
"""GET_CURRENT_PSTATE is in the open headers, and in RM's table of controls, from this release on.
# src: ctrl2080perf.h, g_subdevice_nvoc.c: 535.288.01 has no 0x20802068, 550.40.07 has it"""
THERMAL_SINCE: Final = 580
"""The open headers have the control from this release on."""
UTIL_SINCE: Final = 570
"""Samples were smaller before."""
UTIL_BYTES: Final = 776
"""sizeof(NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE)."""
MAX_UTIL: Final = 72
PERFMON_UTIL: Final = 2
"""NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL."""
INSTRUCTION_BYTES: Final = 44
"""sizeof(NV2080_CTRL_THERMAL_SYSTEM_INSTRUCTION): result, executed, opcode, 8 words."""
MAX_INSTRUCTIONS: Final = 32
IGNORE_FAIL: Final = 1
"""Later instructions run though one failed."""
SENSOR_TARGET: Final = 0x520
"""NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_TARGET_OPCODE: which target a sensor is at."""
TARGET_TYPE: Final = 0x101
"""NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_TARGET_TYPE_OPCODE."""
SENSOR_READING: Final = 0x1500
"""NV2080_CTRL_THERMAL_SYSTEM_GET_STATUS_SENSOR_READING_OPCODE."""
SENSORS_AVAILABLE: Final = 0x500
"""NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSORS_AVAILABLE_OPCODE."""
TARGETS: Final = {1: "GPU", 2: "memory", 4: "power supply", 8: "board"}
"""NV2080_CTRL_THERMAL_SYSTEM_TARGET_*."""
_HEAD: Final = 12
FB_OFF, GR_OFF = 8, 8 + 128
"""Of memory and graphics in a sample: util first. # src: sizeof(..._ENGINE_UTIL_SAMPLE) 128"""
_PER_PERCENT: Final = 100.0
_MOST_PERCENT: Final = 100.0


class ThermalSystem(Struct, size=1432):
    """NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS."""

    client_api_version: int = u32()
    client_api_revision: int = u32()
    client_instruction_size_of: int = u32()
    execute_flags: int = u32()
    successful_instructions: int = u32()
    instruction_list_size: int = u32()
    instruction_list: bytes = chars(INSTRUCTION_BYTES * MAX_INSTRUCTIONS)


class UtilSamples(Struct, size=55888):
    """NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS: a ring of samples."""

    type: int = u8()
    pad: tuple[int, ...] = u8(3)
    buf_size: int = u32()
    count: int = u32()
    tracker: int = u32()
    samples: bytes = chars(UTIL_BYTES * MAX_UTIL)


GET_UTIL_SAMPLES = Control(
    "NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2", 0x20802096, UtilSamples
)
EXECUTE = Control("NV2080_CTRL_CMD_THERMAL_SYSTEM_EXECUTE_V2", 0x20800513, ThermalSystem)


def instructions(*wanted: tuple[int, int]) -> ThermalSystem:
    """(opcode, index) of each instruction, as RM takes them."""
    parts = [struct.pack("<5I", 0, 0, opcode, index, 0) for opcode, index in wanted]
    packed = b"".join(part.ljust(INSTRUCTION_BYTES, b"\0") for part in parts)
    return ThermalSystem(
        client_api_version=1, client_instruction_size_of=INSTRUCTION_BYTES,
        execute_flags=IGNORE_FAIL, instruction_list_size=len(wanted),
        instruction_list=packed.ljust(INSTRUCTION_BYTES * MAX_INSTRUCTIONS, b"\0"),
    )  # fmt: skip


def answers(answer: ThermalSystem) -> list[tuple[int, int] | None]:
    """Both operands of each instruction, the second signed; None for one that failed."""
    found: list[tuple[int, int] | None] = []
    raw = answer.instruction_list
    count = min(int(answer.instruction_list_size), MAX_INSTRUCTIONS)
    for at in range(0, count * INSTRUCTION_BYTES, INSTRUCTION_BYTES):
        result, executed = struct.unpack_from("<II", raw, at)
        first, second = struct.unpack_from("<Ii", raw, at + _HEAD)
        found.append((first, second) if executed and not result else None)
    return found


class Utilisation(NamedTuple):
    """Busy shares in per cent, over the newest sample's time."""

    memory: float
    graphics: float


def newest(answer: UtilSamples) -> Utilisation | None:
    """The newest sample of the ring; None while there is none. Raises: MalformedInput."""
    raw, best, best_ns = answer.samples, None, 0
    for at in range(0, len(raw), UTIL_BYTES):
        (when_ns,) = struct.unpack_from("<Q", raw, at)
        if when_ns > best_ns:
            memory, graphics = (
                struct.unpack_from("<I", raw, at + off)[0] for off in (FB_OFF, GR_OFF)
            )
            best, best_ns = Utilisation(memory / _PER_PERCENT, graphics / _PER_PERCENT), when_ns
    if best is not None and max(best) > _MOST_PERCENT:
        raise MalformedInput(f"RM reports a utilisation of {max(best):g} %", hint="see dmesg")
    return best
