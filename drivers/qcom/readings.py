"""What kernels say of an Adreno in sysfs: chip, clocks, use, temperature. Nothing is opened.

# src: downstream kgsl_pwrctrl.c (gpuclk, max_gpuclk, gpubusy: microseconds of work and of the last
# window, gpu_busy_percentage, temp in thousandths of a degree), adreno_sysfs.c (chipid, gpu_model)
# src: Linux 6.12 msm_gpu_devfreq.c (devfreq of the GPU's platform device), adreno_device.c
# (compatible "qcom,adreno-XYZ.W"); Documentation/ABI/testing/sysfs-class-devfreq
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.machine.sysfs_files import SysfsFiles
from drivers.machine.text import entries, fields, read_text
from drivers.qcom.system import memory_bytes
from queues.qcom.chips import MAX_BLOCK, Chip, chip_named, chip_of

KGSL: Final = "/sys/class/kgsl/kgsl-3d0"
ADRENO: Final = "/sys/bus/platform/drivers/adreno"
THERMAL: Final = "/sys/class/thermal"
_HZ_PER_MHZ: Final = 1_000_000
_MILLI: Final = 1e-3
_PERCENT: Final = 100
_COMPATIBLE: Final = re.compile(r"qcom,adreno-([0-9])([0-9])([0-9]+)\.[0-9]+")
_CHIP_ID: Final = re.compile(r"qcom,adreno-([0-9a-f]{8})")
_MOST_FREQUENCIES: Final = 64


@dataclass(frozen=True, slots=True)
class Readings:
    """None is "the kernel does not say"."""

    chip: Chip | None = None
    clock_mhz: int | None = None
    max_mhz: int | None = None
    frequencies_mhz: tuple[int, ...] = ()
    busy_percent: float | None = None
    temperature_c: float | None = None
    memory_bytes: int | None = None
    """Of the machine: the GPU has none of its own."""
    lacks: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """For JSON."""
        chip = self.chip
        return {
            "chip": chip.name if chip else None,
            "generation": chip.generation if chip else None,
            "chip_id": f"{chip.chip_id:#010x}" if chip else None,
            "sp_cores": chip.sp_cores if chip else None,
            "lanes_per_sp": chip.fibers_per_sp if chip else None,
            "shared_bytes": chip.shared_bytes if chip else None,
            "max_block": MAX_BLOCK if chip else None,
            "clock_mhz": self.clock_mhz,
            "max_mhz": self.max_mhz,
            "frequencies_mhz": list(self.frequencies_mhz),
            "busy_percent": self.busy_percent,
            "temperature_c": self.temperature_c,
            "memory_bytes": self.memory_bytes,
            "lacks": list(self.lacks),
        }

    def lines(self) -> list[str]:
        """For people: what is known, a line for each kind."""
        shown: list[str] = []
        if self.chip is not None:
            one = self.chip
            shown.append(
                f"{one.name}, generation {one.generation}: {one.sp_cores} SP "
                f"core{'s' * (one.sp_cores != 1)} of {one.fibers_per_sp} lanes, workgroups of "
                f"{MAX_BLOCK} with {one.shared_bytes >> 10} KiB shared"
            )
        now = [
            f"{self.clock_mhz} MHz now" if self.clock_mhz is not None else "",
            f"{self.max_mhz} MHz at most" if self.max_mhz is not None else "",
            f"{self.busy_percent:.0f} % busy" if self.busy_percent is not None else "",
            f"{self.temperature_c:.0f} C" if self.temperature_c is not None else "",
        ]
        if any(now):
            shown.append(", ".join(filter(None, now)))
        if self.memory_bytes is not None:
            shown.append(f"{self.memory_bytes / 2**30:.1f} GiB of the machine's memory")
        return [*shown, *(f"note: {lack}" for lack in self.lacks)]


def kgsl_readings(world: World) -> Readings:
    """What KGSL says."""
    files = SysfsFiles(world, KGSL)
    return _readings(
        files,
        chip=_kgsl_chip(files),
        clock_hz=files.number("gpuclk"),
        max_hz=files.number("max_gpuclk"),
        frequencies=files.text("gpu_available_frequencies"),
        busy=_busy(files),
        temperature=files.number("temp"),
    )


def msm_readings(world: World) -> Readings:
    """What msm says, of the first GPU of its Adreno driver."""
    try:
        names = [name for name in entries(world, ADRENO) if name.endswith(".gpu")]
    except DeviceError:
        names = []
    if not names:
        return _readings(SysfsFiles(world, ADRENO))
    name = min(names)
    files = SysfsFiles(world, f"{ADRENO}/{name}")
    folder = f"devfreq/{name}"
    return _readings(
        files,
        chip=_msm_chip(files),
        clock_hz=files.number(f"{folder}/cur_freq"),
        max_hz=files.number(f"{folder}/max_freq"),
        frequencies=files.text(f"{folder}/available_frequencies"),
        temperature=_thermal(world),
    )


def _readings(
    files: SysfsFiles, chip: Chip | None = None, clock_hz: int | None = None,
    max_hz: int | None = None, frequencies: str = "", busy: float | None = None,
    temperature: int | None = None,
) -> Readings:  # fmt: skip
    try:
        memory: int | None = memory_bytes(files.world)
    except DeviceError as error:
        files.lacking("/proc/meminfo", error)
        memory = None
    listed = frequencies.split()[:_MOST_FREQUENCIES]
    return Readings(
        chip=chip,
        clock_mhz=_mhz(clock_hz),
        max_mhz=_mhz(max_hz),
        frequencies_mhz=tuple(int(one) // _HZ_PER_MHZ for one in listed if _is_hz(one)),
        busy_percent=busy,
        temperature_c=temperature * _MILLI if temperature is not None else None,
        memory_bytes=memory,
        lacks=tuple(files.lacks),
    )


def _is_hz(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len("99999999999")


def _mhz(hertz: int | None) -> int | None:
    return hertz // _HZ_PER_MHZ if hertz is not None else None


def _kgsl_chip(files: SysfsFiles) -> Chip | None:
    text = files.text("chipid")
    try:
        return chip_of(int(text, 16)) if text else None
    except ValueError:
        files.lacking("chipid", MalformedInput(f"{text[:20]!a} is not a chip id", hint="report it"))
    except Unsupported as error:
        files.lacking("chipid", error)
    return None


def _busy(files: SysfsFiles) -> float | None:
    """In percent: of the last window, else as KGSL rounds it."""
    parts = files.text("gpubusy").split()
    if len(parts) == 2 and all(map(_is_hz, parts)) and int(parts[1]):
        return min(_PERCENT * int(parts[0]) / int(parts[1]), float(_PERCENT))
    return files.number("gpu_busy_percentage", "%")


def _msm_chip(files: SysfsFiles) -> Chip | None:
    """From the device tree's names, which the kernel repeats in uevent."""
    try:
        shown = dict(fields(read_text(files.world, f"{files.folder}/uevent"), "="))
    except DeviceError as error:
        files.lacking("uevent", error)
        return None
    name = shown.get("OF_COMPATIBLE_0", "")
    number = _CHIP_ID.fullmatch(name)
    match = _COMPATIBLE.fullmatch(name)
    try:
        if number is not None:
            return chip_of(int(number[1], 16))
        return chip_named(f"a{match[1]}{match[2]}{match[3]}") if match is not None else None
    except Unsupported:
        files.lacking("uevent", Unsupported(f"{name} is not known here", hint="report it"))
        return None


def _thermal(world: World) -> int | None:
    """The hottest of the zones whose type names the GPU, in thousandths of a degree."""
    try:
        zones = [one for one in entries(world, THERMAL) if one.startswith("thermal_zone")]
    except DeviceError:
        return None
    found = []
    for zone in zones:
        files = SysfsFiles(world, f"{THERMAL}/{zone}")
        value = files.number("temp") if files.text("type").startswith("gpu") else None
        found += [] if value is None else [value]
    return max(found, default=None)
