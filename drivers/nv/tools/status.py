"""What RM reports of a GPU that is open: memory, performance state, temperatures, utilisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.nv.nvk import sensors
from drivers.nv.nvk.controls import GET_CURRENT_PSTATE, CurrentPstate, FbInfo
from drivers.nv.nvk.iface import NvkIface

_KIB: Final = 1024
_PSTATES: Final = 16
_COLDEST_C, _HOTTEST_C = -50, 150
_MOST_SENSORS: Final = sensors.MAX_INSTRUCTIONS // 2
NO_CLOCKS: Final = "clocks, fans and power: the open headers have no control for them"
T = TypeVar("T")


@dataclass(slots=True)
class Status:
    """Readings of one GPU; None where RM gives none, and `lacks` says why."""

    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    performance_state: str | None = None
    temperatures_c: dict[str, int] = field(default_factory=dict)
    graphics_percent: float | None = None
    memory_percent: float | None = None
    lacks: list[str] = field(default_factory=list)

    def known(self) -> dict[str, object]:
        """What was read, by name."""
        names = ("memory_bytes", "memory_free_bytes", "performance_state", "graphics_percent",
                 "memory_percent")  # fmt: skip
        found: dict[str, object] = {name: getattr(self, name) for name in names}
        found = {name: value for name, value in found.items() if value is not None}
        return found | ({"temperatures_c": self.temperatures_c} if self.temperatures_c else {})


def memory_kib(iface: NvkIface, *asked: FbInfo) -> list[int]:
    """Numbers of FB_GET_INFO_V2. Raises: what RM refuses."""
    control = iface.client.abi.fb_get_info
    args: Any = control.args(fb_info_list_size=len(asked))
    pairs = [word for one in asked for word in (int(one), 0)]
    args.fb_info_list = (*pairs, *args.fb_info_list[len(pairs) :])
    answer = iface.client.control(iface.subdevice, control, args)
    return list(answer.fb_info_list[1 : 2 * len(asked) : 2])


def performance_state(iface: NvkIface) -> str:
    """ "P0" (the fastest) to "P15". Raises: MalformedInput, what RM refuses."""
    if iface.client.abi.since < sensors.PSTATE_SINCE:
        raise Unsupported(f"driver {iface.version} does not report it", hint="use 550 or later")
    answer = iface.client.control(iface.subdevice, GET_CURRENT_PSTATE, CurrentPstate())
    bit: int = answer.curr_pstate
    states = [n for n in range(_PSTATES) if bit == 1 << n]
    if not states:
        raise MalformedInput(f"RM reports performance state {bit:#x}", hint="see dmesg")
    return f"P{states[0]}"


def _thermal(iface: NvkIface, *wanted: tuple[int, int]) -> list[tuple[int, int] | None]:
    args = sensors.instructions(*wanted)
    return sensors.answers(iface.client.control(iface.subdevice, sensors.EXECUTE, args))


def temperatures(iface: NvkIface) -> dict[str, int]:
    """Degrees Celsius by place. Raises: Unsupported, MalformedInput, what RM refuses."""
    if iface.client.abi.since < sensors.THERMAL_SINCE:
        raise Unsupported(
            f"headers of driver {iface.version} do not have them", hint="use 580 or later"
        )
    available = _thermal(iface, (sensors.SENSORS_AVAILABLE, 0))[0]
    count = available[0] if available is not None else 0
    if not 0 < count <= _MOST_SENSORS:
        raise Unsupported(f"RM reports {count} sensors", hint="see dmesg")
    asked = [(what, n) for n in range(count)
             for what in (sensors.SENSOR_TARGET, sensors.SENSOR_READING)]  # fmt: skip
    answers = _thermal(iface, *asked)
    found: dict[str, int] = {}
    for target, reading in zip(answers[::2], answers[1::2], strict=True):
        if target is None or reading is None:
            continue
        kind = _thermal(iface, (sensors.TARGET_TYPE, target[1]))[0]
        place = sensors.TARGETS.get(kind[1] if kind is not None else 0, f"target {target[1]}")
        if not _COLDEST_C <= reading[1] <= _HOTTEST_C:
            raise MalformedInput(f"RM reports {reading[1]} degrees", hint="see dmesg")
        found[place] = reading[1]
    return found


def utilisation(iface: NvkIface) -> sensors.Utilisation:
    """The newest sample. Raises: Unsupported, MalformedInput, what RM refuses."""
    if iface.client.abi.since < sensors.UTIL_SINCE:
        raise Unsupported(
            f"samples of driver {iface.version} have another size", hint="use 570 or later"
        )
    args = sensors.UtilSamples(
        type=sensors.PERFMON_UTIL, buf_size=sensors.UTIL_BYTES * sensors.MAX_UTIL
    )
    found = sensors.newest(iface.client.control(iface.subdevice, sensors.GET_UTIL_SAMPLES, args))
    if found is None:
        raise Unsupported("RM has no sample yet", hint="ask again in a second")
    return found


def read(iface: NvkIface) -> Status:
    """Everything that RM answers; what it refuses is in `lacks`."""
    status = Status()

    def asked(what: str, ask: Callable[[NvkIface], T]) -> T | None:
        try:
            return ask(iface)
        except DeviceError as error:
            status.lacks.append(f"{what}: {error.message}")
            return None

    sizes = asked("memory", lambda one: memory_kib(one, FbInfo.HEAP_SIZE, FbInfo.HEAP_FREE))
    if sizes is not None:
        status.memory_bytes, status.memory_free_bytes = (size * _KIB for size in sizes)
    status.performance_state = asked("performance state", performance_state)
    status.temperatures_c = asked("temperatures", temperatures) or {}
    busy = asked("utilisation", utilisation)
    if busy is not None:
        status.graphics_percent, status.memory_percent = busy.graphics, busy.memory
    status.lacks.append(NO_CLOCKS)
    return status
