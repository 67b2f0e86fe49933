"""Runs kernels of the ir3 code generator on the board's shader processors, without a driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from boards.qcom.wave.dispatch import Dispatch, Outcome, PageFault
from boards.qcom.wave.execute import run as run_waves
from compilers.families import family_of, toolchain_of
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Binary
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, NO_BASE, AdrenoCode
from tests.support import check

FIRST_VA = (5 << 32) - 64
"""The first buffers lie on both sides of a multiple of 4 GiB."""
GAP_BYTES, GARBAGE, UNITS = 4096, 0xAB, 4
_ITEMS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Flat:
    """Arrays at addresses with gaps between them."""

    def __init__(self) -> None:
        self.arrays: list[tuple[int, np.ndarray]] = []
        self.free = FIRST_VA

    def add(self, array: np.ndarray) -> int:
        """The address of an array, which launches change in place."""
        va, data = self.free, array.reshape(-1).view(np.uint8)
        self.arrays.append((va, data))
        self.free = -(-(va + data.size + GAP_BYTES) // 16) * 16
        return va

    def _places(self, va: np.ndarray, nbytes: int, access: str) -> tuple[np.ndarray, np.ndarray]:
        where = np.asarray(va).astype(np.int64)
        for base, data in self.arrays:
            inside = (where >= base) & (where + nbytes <= base + data.size)
            if inside.all():
                return data, (where - base)[:, None] + np.arange(nbytes)
            if inside.any():
                raise PageFault(int(where[~inside][0]), access)
        raise PageFault(int(where[0]), access)

    def gather(self, va: np.ndarray, item: int, count: int) -> np.ndarray:
        data, places = self._places(va, item * count, "read")
        found: np.ndarray = data[places].reshape(-1).view(_ITEMS[item])
        return found.reshape(len(places), count).copy()

    def scatter(self, va: np.ndarray, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(len(data), -1)
        held, places = self._places(va, raw.shape[1], "write")
        held[places] = raw


def built(
    kernel: Kernel, arch: str, registers: int = 0, features: frozenset[str] = frozenset()
) -> Binary:
    """A kernel's code, without a cache; with at most so many vec4 of registers, if any."""
    toolchain = toolchain_of("IR3", arch)
    source = toolchain.render(kernel, arch, features)
    if registers:
        head, rest = source.split("\n", 1)
        magic, generation, _, *others = head.split()
        source = "\n".join([" ".join([magic, generation, str(registers), *others]), rest])
    blob = toolchain.compiler.compile_object(source, arch, features)
    return family_of(arch).load(blob, kernel.name, arch).in_blocks_of(kernel.block)


def launch(binary: Binary, arrays: Sequence[np.ndarray], grid: int) -> Outcome:
    """One dispatch, clean: any violation or fault is an error."""
    memory, code, needs = Flat(), AdrenoCode.of(binary), binary.resources
    constants = np.zeros(code.constlen * 4, np.uint32)
    loaded = np.zeros(code.constlen * 4, bool)
    addresses = np.array([memory.add(array) for array in arrays], np.uint64).view(np.uint32)
    literals = np.frombuffer(binary.image, np.uint32)[code.instrlen * INSTR_UNIT_BYTES // 4 :]
    for vec4, words in ((code.param_vec4, addresses), (code.literal_vec4, literals)):
        constants[4 * vec4 : 4 * vec4 + len(words)] = words
        loaded[4 * vec4 : 4 * vec4 + len(words)] = True
    if code.base_word != NO_BASE:
        loaded[4 * code.param_vec4 + code.base_word] = True
    dispatch = Dispatch(
        generation=code.generation,
        code=binary.image[: code.instrlen * INSTR_UNIT_BYTES],
        code_va=FIRST_VA >> 1,
        constants=constants,
        loaded=loaded,
        groups=(grid, 1, 1),
        block=(needs.block, 1, 1),
        wave_lanes=code.wave_lanes,
        full_registers=code.full_registers,
        branch_stack=code.branch_stack,
        group_id_reg=code.group_id_reg,
        local_id_reg=code.local_id_reg,
        shared_bytes=needs.shared_bytes,
        private_bytes=code.private_bytes,
    )
    outcome = run_waves(dispatch, memory)
    check(outcome.fault is None, f"{binary.name}: {outcome.fault}")
    check(not outcome.violations, f"{binary.name}: {[str(one) for one in outcome.violations[:3]]}")
    return outcome


def compute(
    roots: Sequence[Node], arch: str, registers: int = 0, features: frozenset[str] = frozenset()
) -> list[np.ndarray]:
    """The stored elements of `roots`, whose leaves hold numpy arrays."""
    key, leaves = signature(roots)
    made = plan(rebuild(key).roots, Target.gpu_of(arch, UNITS))
    arrays = [np.frombuffer(leaf.tobytes() or b"\0", np.uint8).copy() for leaf in leaves]
    arrays += [np.full(max(nbytes, 1), GARBAGE, np.uint8) for nbytes in made.nbytes]
    for number, step in enumerate(made.steps):
        kernel = replace(step.kernel, name=f"k{number}")
        binary = built(kernel, arch, registers, features)
        launch(binary, [arrays[value] for value in step.values], kernel.grid)
    found = []
    for value, root in zip(made.roots, roots, strict=True):
        nbytes = int(np.prod(root.shape, dtype=np.int64)) * root.dtype.itemsize
        found.append(arrays[value][:nbytes].view(root.dtype.storage).reshape(root.shape))
    return found
