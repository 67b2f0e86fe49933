"""Controls that report a GPU's state: performance state, thermal sensors, utilisation samples.

src: open-gpu-kernel-modules, ctrl2080perf.h, ctrl2080thermal.h. Readings are made up: nothing here
gets warm. Two sensors, the GPU's and the memory's; three samples in the ring.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

from boards.nv import status
from boards.nv.hardware import NvHardware
from boards.nv.objects import Object
from boards.nv.status import RmError

_P2 = 1 << 2
_API_VERSION, _API_REVISION = 1, 0
_INSTRUCTION, _MOST = 44, 32
_IGNORE_FAIL = 1
_TARGETS, _TARGET_TYPE, _PROVIDER = 0x100, 0x101, 0x301
_SENSORS, _SENSOR_PROVIDER, _READING, _SENSOR_TARGET = 0x500, 0x510, 0x1500, 0x520
_RANGE = 0x540
_OPCODES = {_TARGETS, _TARGET_TYPE, _PROVIDER, _SENSORS, _SENSOR_PROVIDER, _READING,
            _SENSOR_TARGET, _RANGE}  # fmt: skip
SENSORS = ((1, 41), (2, 52))
"""(target, degrees) of each: NV2080_CTRL_THERMAL_SYSTEM_TARGET_GPU and _MEMORY."""
_PERFMON_UTIL = 2
_ENGINE = 128
_SAMPLE_NS = 100_000_000
SHARES = ((5, 3), (40, 20), (75, 30))
"""Per cent of graphics and memory in the samples, the newest last."""
_PARTS = {535: (116, 4), 550: (116, 6)}
"""(bytes, number) of a sample's parts, where they differ from 570's (128, 6).
src: ctrl2080perf.h NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE"""


def pstate(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """P2, as a GPU that computes has it."""
    args.currPstate = _P2


def thermal(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """THERMAL_SYSTEM_EXECUTE_V2. Raises: RmError."""
    if (args.clientAPIVersion, args.clientAPIRevision) != (_API_VERSION, _API_REVISION):
        raise RmError(status.INVALID_ARGUMENT, f"API version {args.clientAPIVersion}")
    if args.clientInstructionSizeOf != _INSTRUCTION or args.instructionListSize > _MOST:
        raise RmError(status.INVALID_ARGUMENT, "instructions of another size")
    data = bytearray(args.instructionList)
    args.successfulInstructions = 0
    for number in range(args.instructionListSize):
        at = number * _INSTRUCTION
        opcode, first = struct.unpack_from("<II", data, at + 8)
        result = _execute(hardware, data, at + 12, opcode, first)
        struct.pack_into("<II", data, at, result, 1)
        args.successfulInstructions += result == status.OK
        if result != status.OK and not args.executeFlags & _IGNORE_FAIL:
            break
    args.instructionList = bytes(data)


def _execute(hardware: NvHardware, data: bytearray, at: int, opcode: int, first: int) -> int:
    """One instruction, its answer beside its operands: the status that it has."""
    if opcode in (_TARGETS, _SENSORS):
        struct.pack_into("<I", data, at, len(SENSORS))
        return status.OK
    if opcode not in _OPCODES:
        hardware.find("thermal instruction that is not modelled", f"{opcode:#x}")
        return status.NOT_SUPPORTED
    if first >= len(SENSORS):
        return status.INVALID_ARGUMENT
    values = {_TARGET_TYPE: SENSORS[first][0], _READING: SENSORS[first][1], _SENSOR_TARGET: first}
    if opcode not in values:
        hardware.find("thermal instruction that is not modelled", f"{opcode:#x}")
        return status.NOT_SUPPORTED
    struct.pack_into("<i", data, at + 4, values[opcode])
    return status.OK


def utilisation(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The ring of samples, of which three were taken. Raises: RmError."""
    engine, parts = _PARTS.get(hardware.options.driver, (_ENGINE, 6))
    sample = 8 + parts * engine
    if args.type != _PERFMON_UTIL or args.bufSize != len(args.samples):
        raise RmError(status.INVALID_ARGUMENT, f"type {args.type}, {args.bufSize} bytes")
    data = bytearray(len(args.samples))
    now_ns = hardware.clock.now_ns()
    for number, (graphics, memory) in enumerate(SHARES):
        at = number * sample
        age_ns = _SAMPLE_NS * (len(SHARES) - number)
        struct.pack_into("<Q", data, at, max(1, now_ns - age_ns) + number)
        struct.pack_into("<I", data, at + 8, 100 * memory)
        struct.pack_into("<I", data, at + 8 + engine, 100 * graphics)
    args.count, args.tracker, args.samples = len(SHARES), len(SHARES), bytes(data)
