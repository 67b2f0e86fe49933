"""SMU: the power management processor. Messages through three registers, each answer checked.

Source: Linux 6.12, smu_cmn.c (codes of answers, order of writes); numbers: smu_v13_0_0_ppsmc.h,
smu_v13_0_6_ppsmc.h, smu_v14_0_2_ppsmc.h; what is asked, and resets: tinygrad, ip.py (AM_SMU)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from drivers.amd.pci import psp
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import SMU_TABLE
from drivers.amd.pci.mmio import MEMSIZE
from drivers.amd.pci.registers import Version
from drivers.bare.bus import ALL_ONES
from drivers.bare.mmio import Block
from drivers.base.deadline import polls
from drivers.base.errors import (
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    Unsupported,
)
from drivers.base.oserrors import errno_of

TIMEOUT_S: Final = 10.0
ALIVE_TIMEOUT_S: Final = 0.1
LIMIT_TIMEOUT_S: Final = 0.02
"""Some firmware leaves a soft minimum unanswered. src: tinygrad, AM_SMU.set_clocks()"""
_OK: Final = 1
_ANSWERS: Final = {
    0xFF: "failed", 0xFE: "unknown message", 0xFD: "not allowed now", 0xFC: "busy",
    0xFB: "debugging",
}  # fmt: skip
_TABLE_METRICS: Final = 5
"""src: smu13_driver_if_v13_0_0.h, smu14_driver_if_v14_0.h, TABLE_SMU_METRICS"""
_FRESH: Final = 1
_COUNT: Final = 0xFF
_MHZ_MASK: Final = 0x7FFFFFFF
_CLOCK_SHIFT: Final = 16
_MOST_LEVELS: Final = 64
_RETURN_TIMEOUT_S: Final = 5.0
_DEBUG_MODE1: Final = 2
"""src: smu_v13_0.h, DEBUGSMC_MSG_Mode1Reset"""
_RESET_MODE_1: Final = 1


class Clock(IntEnum):
    """Clocks that can be limited, by a name that all generations have."""

    GFX = 0
    SOC = 1
    MEMORY = 2
    FABRIC = 3


@dataclass(frozen=True, slots=True)
class Dialect:
    """The numbers of one generation's messages and clocks."""

    messages: Mapping[str, int]
    clocks: Mapping[Clock, int]
    reset: str
    """Mode-1 reset: through the "debug" mailbox, or a "message"."""
    soft_max: bool = True
    """Whether an upper limit may be set besides the lower one. src: tinygrad, set_clocks()"""
    reset_s: float = 0.5
    """No access for so long after the order. src: smu_v13_0.h, SMU13_MODE1_RESET_WAIT_TIME_IN_MS"""


_RDNA: Final = Dialect(
    messages={
        "TestMessage": 0x1, "GetSmuVersion": 0x2, "GetDriverIfVersion": 0x3,
        "EnableAllSmuFeatures": 0x6, "SetDriverDramAddrHigh": 0xE, "SetDriverDramAddrLow": 0xF,
        "TransferTableSmu2Dram": 0x12, "SetSoftMinByFreq": 0x19, "SetSoftMaxByFreq": 0x1A,
        "GetDpmFreqByIndex": 0x1F,
        "GetPptLimit": 0x33,
    },
    clocks={Clock.GFX: 0, Clock.SOC: 1, Clock.MEMORY: 2, Clock.FABRIC: 3},
    reset="debug",
)  # fmt: skip
_RDNA4: Final = replace(_RDNA, reset_s=1.0)
"""src: smu_v14_0_2_ppt.c, smu_v14_0_2_mode1_reset(), msleep(1000)"""
_CDNA: Final = Dialect(
    messages={
        "TestMessage": 0x1, "GetSmuVersion": 0x2, "GfxDriverReset": 0x3,
        "GetDriverIfVersion": 0x4, "EnableAllSmuFeatures": 0x5, "GetMetricsTable": 0x9,
        "SetDriverDramAddrHigh": 0xD, "SetDriverDramAddrLow": 0xE, "SetSoftMinByFreq": 0x13,
        "SetSoftMaxByFreq": 0x14, "GetDpmFreqByIndex": 0x17,
        "GetPptLimit": 0x19,
    },
    clocks={Clock.SOC: 2, Clock.MEMORY: 3, Clock.FABRIC: 4},
    reset="message",
    soft_max=False,
)  # fmt: skip
DIALECTS: Final[dict[Version, Dialect]] = {
    (13, 0, 0): _RDNA, (13, 0, 7): _RDNA, (13, 0, 10): _RDNA,
    (14, 0, 2): _RDNA4, (14, 0, 3): _RDNA4, (13, 0, 6): _CDNA, (13, 0, 14): _CDNA,
}  # fmt: skip


def dialect(gpu: BareGpu) -> Dialect:
    """What this GPU's SMU understands. Raises: Unsupported."""
    version = gpu.ips.version(HwId.MP1)
    found = DIALECTS.get(version)
    if found is None:
        raise Unsupported(
            f"the messages of SMU {'.'.join(map(str, version))} are not known",
            hint="Leave this GPU to its kernel driver",
        )
    return found


def _post(gpu: BareGpu, name: str, argument: int) -> Block:
    """A message, without its answer."""
    number = dialect(gpu).messages.get(name)
    if number is None:
        raise Unsupported(f"the SMU of {gpu.chip.name} has no message {name}")
    block = gpu.block(HwId.MP1)
    block.write("C2PMSG_90", 0)
    block.write("C2PMSG_82", argument)
    block.write("C2PMSG_66", number)
    return block


def send(
    gpu: BareGpu, name: str, argument: int = 0, timeout_s: float = TIMEOUT_S,
    *, then: Sequence[str] = (),
) -> None:  # fmt: skip
    """One message. `then`: registers that are read behind its answer.

    Raises: DeviceError naming message and answer; DeviceTimeout when mute.
    """
    block = _post(gpu, name, argument)
    answer = 0
    for _ in polls(timeout_s, gpu.mmio.bus.clock):
        block.expect("C2PMSG_90", *then)
        answer = block.read("C2PMSG_90")
        if answer:
            break
    else:
        raise DeviceTimeout(
            f"{gpu.mmio.step}: no answer in MP1.C2PMSG_90 to SMU message {name}({argument:#x}) "
            f"after {timeout_s} s",
            register="MP1.C2PMSG_90",
            last=answer,
            hint="Open the GPU again: it is then reset first",
        )
    if answer != _OK:
        word = _ANSWERS.get(answer, f"answer {answer:#x}")
        raise DeviceError(
            f"{gpu.mmio.step}: SMU message {name}({argument:#x}): {word} (MP1.C2PMSG_90)",
            hint="The SMU's firmware does not allow it; see `python -m drivers.firmware`",
        )


def ask(gpu: BareGpu, name: str, argument: int = 0, timeout_s: float = TIMEOUT_S) -> int:
    """A message with a number as its result."""
    send(gpu, name, argument, timeout_s, then=["C2PMSG_82"])
    return gpu.block(HwId.MP1).read("C2PMSG_82", ones=True)


def is_alive(gpu: BareGpu) -> bool:
    """Whether its firmware answers."""
    try:
        return ask(gpu, "GetSmuVersion", timeout_s=ALIVE_TIMEOUT_S) != 0
    except (DeviceGone, MalformedInput):
        raise
    except DeviceError as error:
        if errno_of(error):  # the bus failed: nothing is known
            raise
        return not isinstance(error, DeviceTimeout)  # a refusal is an answer, too


def up(gpu: BareGpu) -> int:
    """Give the SMU its table's address, and let it manage. Returns: its version."""
    version = ask(gpu, "GetSmuVersion")
    if version in (0, ALL_ONES):
        raise DeviceError(
            f"{gpu.mmio.step}: the SMU answers GetSmuVersion with {version:#x}",
            hint="See `python -m drivers.firmware`: its file may be another chip's",
        )
    address = gpu.mc_address(SMU_TABLE)
    send(gpu, "SetDriverDramAddrHigh", address >> 32)
    send(gpu, "SetDriverDramAddrLow", address & ALL_ONES)
    send(gpu, "EnableAllSmuFeatures")
    return version


def down(gpu: BareGpu) -> None:
    """Back to the lowest clocks."""
    set_clocks(gpu, 0)


def frequencies(gpu: BareGpu, clock: Clock) -> list[int]:
    """The levels of a clock in MHz, ascending. Raises: Unsupported without such a clock."""
    return [_level(gpu, clock, index) for index in range(_levels(gpu, clock))]


def set_clocks(gpu: BareGpu, level: int = -1) -> list[str]:
    """Pin every clock to one of its levels: -1 the fastest, 0 the slowest.

    Returns: what the SMU would not do, in words; a clock that stays free is no error.
    """
    known = dialect(gpu)
    wanted: list[tuple[Clock, int]] = []
    for clock in known.clocks:
        count = _levels(gpu, clock)
        if count:
            wanted.append((clock, _level(gpu, clock, level % count)))
    refused: list[str] = []
    for clock, mhz in wanted:  # after all questions, of which none may get a late answer
        value = known.clocks[clock] << _CLOCK_SHIFT | mhz
        try:
            send(gpu, "SetSoftMinByFreq", value, LIMIT_TIMEOUT_S)
        except (DeviceGone, MalformedInput):
            raise
        except DeviceError as error:
            if errno_of(error):  # the bus failed, and the SMU did not refuse
                raise
            refused.append(f"{clock.name} at least {mhz} MHz: {error.message}")
        if known.soft_max:
            send(gpu, "SetSoftMaxByFreq", value)
    return refused


def power_limit_w(gpu: BareGpu) -> int:
    """The limit of the whole package, in watts."""
    return ask(gpu, "GetPptLimit")


def _levels(gpu: BareGpu, clock: Clock) -> int:
    return min(_level(gpu, clock, _COUNT), _MOST_LEVELS)


def _level(gpu: BareGpu, clock: Clock, index: int) -> int:
    number = dialect(gpu).clocks.get(clock)
    if number is None:
        raise Unsupported(f"{gpu.chip.name} has no levels of the clock {clock.name}")
    return ask(gpu, "GetDpmFreqByIndex", number << _CLOCK_SHIFT | index) & _MHZ_MASK


def read_table(gpu: BareGpu, nbytes: int) -> bytes:
    """A fresh table of metrics, as the SMU writes it."""
    if "GetMetricsTable" in dialect(gpu).messages:
        send(gpu, "GetMetricsTable", _FRESH)
    else:
        send(gpu, "TransferTableSmu2Dram", _TABLE_METRICS)
    return gpu.vram.read(SMU_TABLE.offset, nbytes)


def mode1_reset(gpu: BareGpu) -> None:
    """Order a reset of everything but the bus interface; all state is lost, VRAM too.

    Hardware: a time without any access. Raises: DeviceTimeout. `wait_returned` comes next.
    """
    known = dialect(gpu)
    if known.reset == "debug":
        block, register = gpu.block(HwId.MP1), "C2PMSG_54"
        block.write(register, 0)
        block.write("C2PMSG_53", 0)
        block.write("C2PMSG_75", _DEBUG_MODE1)
    else:
        block, register = _post(gpu, "GfxDriverReset", _RESET_MODE_1), "C2PMSG_90"
    answer = 0
    for _ in polls(TIMEOUT_S, gpu.mmio.bus.clock):
        answer = block.read(register, ones=True)
        if answer:
            break
    # all ones, or silence without a sign of sOS: it has begun, and took the answer with it
    if answer not in (_OK, ALL_ONES) and (answer or psp.is_alive(gpu)):
        raise DeviceTimeout(
            f"{gpu.mmio.step}: the SMU does not take the order to reset: MP1.{register} is "
            f"{answer:#x}: {_ANSWERS.get(answer, f'no answer after {TIMEOUT_S} s')}",
            register=f"MP1.{register}",
            last=answer,
            hint="Power the machine off and on",
        )
    gpu.mmio.bus.clock.sleep(known.reset_s)


def wait_returned(gpu: BareGpu) -> None:
    """Wait for the GPU after a mode-1 reset. Raises: DeviceGone when it does not return.

    # src: amdgpu_device_mode1_reset(), which puts config space back before
    """
    bus, found = gpu.mmio.bus, 0
    for _ in polls(_RETURN_TIMEOUT_S, bus.clock):
        found = bus.read(MEMSIZE.dword, MEMSIZE.name, ones=True)
        if found not in (0, ALL_ONES):
            return
    raise DeviceGone(
        f"{bus.step}: RCC_CONFIG_MEMSIZE reads {found:#x}: the GPU did not come back after a "
        "mode-1 reset",
        hint="Power the machine off and on",
    )
