"""What amdgpu reports of a GPU in sysfs: hwmon, memory, and `gpu_metrics` for what those lack.

Each file is read on its own: one that cannot be read is among what is lacking, with its reason and
the next step. A GPU that sleeps answers EPERM or EBUSY to some of them.

Source: Linux 6.12, Documentation/gpu/amdgpu/thermal.rst; amdgpu_pm.c;
Documentation/ABI/testing/sysfs-devices-power (runtime_status)
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.tools import gpu_metrics
from drivers.amd.tools.readings import Readings
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.oserrors import errno_of
from drivers.machine.sysfs_files import SysfsFiles
from drivers.machine.text import entries, read_text

_MILLI, _MICRO = 1e-3, 1e-6
_HZ_PER_MHZ: Final = 1_000_000
_TEMPERATURES: Final = {"edge": "edge_c", "junction": "hotspot_c", "mem": "memory_c"}
_CLOCKS: Final = {"sclk": "gfx_mhz", "mclk": "memory_mhz"}
_CHANNELS: Final = range(1, 5)
_ASLEEP: Final = ("suspended", "suspending")
_WAKE: Final = "it is runtime-suspended: its sensors answer while something runs on it"
_REFUSED: Final = frozenset({errno.EBUSY, errno.EPERM, errno.EAGAIN, errno.ENODATA})
"""What a sleeping GPU answers: 6.12 wakes it, later kernels do not ask it."""


class Files(SysfsFiles):
    """The files of one GPU's folder, and what was read of them."""

    def __init__(self, world: World, folder: str) -> None:
        super().__init__(world, folder)
        self.found: dict[str, int | float] = {}
        try:
            self.asleep = read_text(world, f"{folder}/power/runtime_status").strip() in _ASLEEP
        except DeviceError:
            self.asleep = False  # no runtime power management, or not for this user

    def advice(self, error: DeviceError) -> str:
        """A GPU that sleeps refuses some questions."""
        number = errno_of(error)
        if self.asleep and (number in _REFUSED or not number):
            return _WAKE
        return super().advice(error)

    def put(self, name: str, key: str, scale: float = 0.0) -> None:
        """A reading from a file, unless another file gave it."""
        value = self.number(name)
        if value is not None:
            self.found.setdefault(key, value * scale if scale else value)


def read(
    world: World, folder: str, node: GpuNode | None = None, *, integrated: bool = False
) -> tuple[Readings, list[str]]:
    """Readings of the function whose sysfs folder this is, and what could not be had.

    `node` is KFD's, `integrated` whether it is known to be of a processor's GPU: such a one has the
    machine's memory, too.
    """
    files = Files(world, folder)
    for name, key in (("gpu_busy_percent", "gfx_percent"), ("mem_busy_percent", "memory_percent")):
        files.put(name, key)
    try:
        names = entries(world, f"{folder}/hwmon")
    except DeviceError as error:
        files.lacking("hwmon", error)
        names = []
    if names:
        _hwmon(files, f"hwmon/{min(names)}")
    else:
        files.lacks.append("no hwmon: temperatures, power and clocks come from gpu_metrics alone")
    data = _metrics_file(files)
    table = _metrics(files, data) if data is not None else Readings()
    _memory(files, node, integrated or (data is not None and gpu_metrics.is_processors(data)))
    return merged(Readings.of(files.found), table), files.lacks


def merged(first: Readings, second: Readings) -> Readings:
    """What the first does not report, the second may."""
    values = {
        field.name: getattr(second, field.name)
        for field in fields(Readings)
        if getattr(first, field.name) is None
    }
    return replace(first, **values)


def _metrics_file(files: Files) -> bytes | None:
    """gpu_metrics as it is; None where it cannot be read or is empty."""
    try:
        data = files.world.read(f"{files.folder}/gpu_metrics", gpu_metrics.LIMIT_BYTES)
    except DeviceError as error:
        files.lacking("gpu_metrics", error)
        return None
    if not data:
        files.lacking(
            "gpu_metrics", MalformedInput("it is empty", hint="see `dmesg` for lines of amdgpu")
        )
        return None
    return data


def _metrics(files: Files, data: bytes) -> Readings:
    try:
        return gpu_metrics.parse(data)
    except DeviceError as error:
        files.lacking("gpu_metrics", error)
        return Readings()


def _memory(files: Files, node: GpuNode | None, integrated: bool) -> None:
    """Memory in all and in use: of a processor's GPU what firmware keeps and the machine's (GTT).

    Where KFD has the GPU its number counts, as in `drivers.amd.probe`.
    """
    kinds = ("vram", "gtt") if integrated else ("vram",)
    used = list(_sizes(files, kinds, "used"))
    if used:
        files.found["memory_used_bytes"] = sum(used)
    total = sum(_sizes(files, kinds, "total"))
    if integrated and node is not None:
        total = node.memory_bytes
    if total:
        files.found["memory_bytes"] = total


def _sizes(files: Files, kinds: tuple[str, ...], what: str) -> Iterator[int]:
    for kind in kinds:
        value = files.number(f"mem_info_{kind}_{what}")
        if value is not None:
            yield value


def _hwmon(files: Files, folder: str) -> None:
    for channel in _CHANNELS:
        key = _TEMPERATURES.get(files.text(f"{folder}/temp{channel}_label"))
        if key is not None:
            files.put(f"{folder}/temp{channel}_input", key, _MILLI)
        key = _CLOCKS.get(files.text(f"{folder}/freq{channel}_label"))
        if key is not None:
            files.put(f"{folder}/freq{channel}_input", key)
            if key in files.found:
                files.found[key] = int(files.found[key]) // _HZ_PER_MHZ
    for name in ("power1_average", "power1_input"):
        files.put(f"{folder}/{name}", "power_w", _MICRO)
    files.put(f"{folder}/power1_cap", "power_limit_w", _MICRO)
    files.put(f"{folder}/fan1_input", "fan_rpm")
