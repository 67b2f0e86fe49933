"""Opening the CPU device: its features, its command processor, its workers."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.base.errors import NotFound
from drivers.base.undo import Step, Undo
from drivers.choice import Choice
from drivers.cpu.device import CpuDevice, Run
from drivers.cpu.features import read_processor
from drivers.cpu.program import map_image
from drivers.cpu.reference import ReferenceProcessor
from drivers.cpu.ring import RING_BYTES
from drivers.cpu.workers import Workers

FIRMWARE_KIND: Final = "cpu-command-processor"
COMPILERS: Final = ("LLVM", "CLANG")
_PROCESSOR_ARGS: Final = 3


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> CpuDevice:
    """The one CPU device. Raises: NotFound for any other number."""
    if choice.index:
        raise NotFound(f"there is no CPU:{choice.index}", hint="All processors are CPU:0")
    return open_cpu(world, choice, firmware)


def open_cpu(world: World, choice: Choice, firmware: Firmware | None) -> CpuDevice:
    """Open the processor as a device; when that fails halfway, what was done is undone.

    Without `firmware` its packets are run by the reference command processor in Python: the same
    results, slower, on one thread.
    Raises: Unsupported, MalformedInput (/proc), and whatever `firmware` raises.
    """
    processor = read_processor(world, choice.cpu_threads)
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    with Undo() as undo:
        workers = Workers.open(world, processor.arch, processor.limits.threads)
        undo.add(workers.close)
        run, unload = _command_processor(world, processor.arch, firmware, workers)
        undo.add(unload)
        compute = world.mmap(-1, RING_BYTES)
        undo.add(compute.close)
        copy = world.mmap(-1, RING_BYTES)
        undo.add(copy.close)
        rings = compute, copy
        device = CpuDevice("CPU:0", world, processor, compilers, workers, run, rings, unload)
        undo.hand_over(device.close)
    return device


def _command_processor(
    world: World, arch: str, firmware: Firmware | None, workers: Workers
) -> tuple[Run, Step]:
    """The doorbell, and what gives the command processor's memory back."""
    if firmware is None:
        reference = ReferenceProcessor.open(world, workers.futex)
        return reference, reference.close
    binary = firmware(FIRMWARE_KIND, arch)
    with Undo() as undo:
        region = map_image(world, binary, arch)
        undo.add(region.close)
        run = world.function(region.cpu_va + binary.entry, _PROCESSOR_ARGS)
    workers.use_firmware(run)
    return run, region.close
