"""Opening the CPU device: what it is, its command processor, its workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.choice import Choice
from drivers.cpu.device import CpuDevice, Run
from drivers.cpu.features import read_processor
from drivers.cpu.program import map_image
from drivers.cpu.reference import ReferenceProcessor
from drivers.cpu.workers import Workers

FIRMWARE_KIND: Final = "cpu-command-processor"
COMPILERS: Final = ("LLVM", "CLANG")
_PROCESSOR_ARGS: Final = 3


def open_cpu(world: World, choice: Choice, firmware: Firmware | None) -> CpuDevice:
    """Open the processor as a device.

    Without `firmware` its packets are run by the reference command processor in Python: the same
    results, slower, on one thread.
    Raises: Unsupported, MalformedInput (/proc), and whatever `firmware` raises.
    """
    processor = read_processor(world, choice.cpu_threads)
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    with ExitStack() as undo:
        workers = Workers(world, processor.arch)
        undo.callback(workers.close)
        workers.wanted = processor.limits.threads
        run, unload = _command_processor(world, processor.arch, firmware, workers)
        undo.callback(unload)
        device = CpuDevice("CPU:0", world, processor, compilers, workers, run, unload)
        undo.pop_all()
    return device


def _command_processor(
    world: World, arch: str, firmware: Firmware | None, workers: Workers
) -> tuple[Run, Callable[[], None]]:
    """The doorbell, and what gives the command processor's memory back."""
    if firmware is None:
        reference = ReferenceProcessor(world, workers.futex)
        return reference, reference.close
    binary = firmware(FIRMWARE_KIND, arch)
    region = map_image(world, binary, arch)
    run = world.function(region.cpu_va + binary.entry, _PROCESSOR_ARGS)
    workers.use_firmware(run)
    return run, region.close
