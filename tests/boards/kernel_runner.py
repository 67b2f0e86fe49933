"""Runs compiled kernels on the machine-code executor, without a driver: Binary in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from boards.amd.isa.families import FAMILIES
from boards.amd.wave.buffer import scratch_resource
from boards.amd.wave.execute import MakeObserver, execute
from boards.amd.wave.start import fit_scratch, from_descriptor
from boards.amd.wave.strict import Observer
from boards.amd.wave.types import LENIENT, Report, Strict, Violation
from compilers import toolchains
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Binary
from queues.amd.kernel_code import AmdCode
from tests.boards.wave_harness import FlatMemory
from tests.support import check

CODE_VA, ARGUMENT_VA, SCRATCH_VA = 0x7F00_0000_0000, 0x7F10_0000_0000, 0x7F30_0000_0000
SCRATCH_WAVES = 1024
GARBAGE, UNIT_BYTES = 0xAB, 16
MAX_STEPS = 50_000_000
TARGETS = {
    arch: Target.gpu_of(arch, 48) for arch in ("gfx1100", "gfx1030", "gfx1151", "gfx1201", "gfx942")
}


def run(
    binary: Binary,
    arrays: Sequence[np.ndarray],
    grid: int,
    strict: Strict | None = None,
    memory: FlatMemory | None = None,
    observer: MakeObserver = Observer,
    max_steps: int = MAX_STEPS,
) -> Report:
    """Launch `grid` workgroups on `arrays`, which are changed in place, in an empty `memory`."""
    memory = memory or FlatMemory()
    arguments = b"".join(memory.add(array).to_bytes(8, "little") for array in arrays)
    image = bytearray(binary.image + bytes(64))
    for fixup in binary.fixups:
        check(not fixup.symbol, f"it needs {fixup.symbol} from outside")
        address = (CODE_VA + fixup.addend) & (1 << 64) - 1
        image[fixup.offset : fixup.offset + 8] = address.to_bytes(8, "little")
    memory.place(CODE_VA, np.frombuffer(bytes(image), np.uint8))
    memory.place(ARGUMENT_VA, np.frombuffer(arguments + bytes(64), np.uint8))
    descriptor = binary.image[binary.entry : binary.entry + 64]
    block, lanes = binary.resources.block, AmdCode.of(binary).wave_lanes
    private = (binary.resources.scratch_bytes + 3) & ~3
    scratch_bytes = SCRATCH_WAVES * lanes * private
    pointers = {
        "kernarg": ARGUMENT_VA, "flat_scratch": SCRATCH_VA,
        "private_segment_buffer": scratch_resource(SCRATCH_VA, scratch_bytes, lanes),
    }  # fmt: skip
    dispatch = from_descriptor(
        descriptor, CODE_VA + binary.entry, (grid, 1, 1), (block, 1, 1), pointers
    )
    if private:
        memory.place(SCRATCH_VA, np.full(scratch_bytes, 0xCD, np.uint8))
        dispatch = fit_scratch(dispatch, SCRATCH_VA, private, SCRATCH_WAVES)
    dispatch = replace(dispatch, max_steps=max_steps)
    return execute(dispatch, memory, strict, FAMILIES[binary.arch], observer)


@dataclass(slots=True)
class Ran:
    """Results, and what the executor found and counted."""

    arrays: list[np.ndarray]
    violations: list[Violation] = field(default_factory=list)
    steps: int = 0
    binaries: list[Binary] = field(default_factory=list)
    plan: Plan | None = None
    work: list[int] = field(default_factory=list)
    """Instructions of each kernel, counted for each of its waves."""


def _memory(nbytes: int) -> np.ndarray:
    """A buffer as an allocator makes it: whole, aligned units, of which kernels may read the rest
    (LLVM reads three aligned dwords as four)."""
    return np.full(max(-(-nbytes // UNIT_BYTES), 1) * UNIT_BYTES, GARBAGE, np.uint8)


def compute(
    roots: Sequence[Node],
    arch: str = "gfx1100",
    compiler: str = "LLVM",
    strict: Strict | None = LENIENT,
    threads: int = 0,
    target: Target | None = None,
) -> Ran:
    """The stored elements of `roots`, whose leaves hold numpy arrays; for a chip of `threads`
    compute units, where it is not 0, or lowered for another `target`."""
    key, leaves = signature(roots)
    target = target or TARGETS[arch]
    target = replace(target, threads=threads or target.threads)
    made = plan(rebuild(key).roots, target)
    arrays = [_memory(leaf.nbytes) for leaf in leaves]
    for array, leaf in zip(arrays, leaves, strict=True):
        array[: leaf.nbytes] = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
    arrays += [_memory(nbytes) for nbytes in made.nbytes]
    ran = Ran([], plan=made)
    for step in made.steps:
        binary = toolchains.build(step.kernel, compiler, arch, target.features)
        ran.binaries.append(binary)
        report = run(binary, [arrays[value] for value in step.values], step.kernel.grid, strict)
        ran.violations += report.violations
        ran.steps += report.steps
        ran.work.append(report.wave_instructions)
    for value, root in zip(made.roots, roots, strict=True):
        nbytes = int(np.prod(root.shape, dtype=np.int64)) * root.dtype.itemsize
        stored = arrays[value][:nbytes].view(root.dtype.storage)
        ran.arrays.append(stored.reshape(root.shape))
    return ran
