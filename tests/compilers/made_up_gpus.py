"""GPUs that no driver here has, as targets, and graphs interpreted for them.

No renderer and no machine code: the IR is run by tests/gpu_interpreter.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.ir import Expr, Kernel, Matrix, Ref, Stmt
from compilers.lower.choose import Target
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from tests.gpu_interpreter import GpuInterpreter, Lanes
from tests.ir_interpreter import Env

Array = np.ndarray[Any, Any]
UNITS = 4
"""Compute units: few, so that little work is split and tiled."""
GPUS = {
    # src: WebGPU, "limits": maxComputeInvocationsPerWorkgroup 256, maxComputeWorkgroupStorageSize
    # 16384; subgroups are optional and 4 to 128 lanes
    "webgpu": GpuTarget(max_block=256, shared_bytes=16 << 10),
    # src: the same document's compatibility mode: 128 lanes
    "compatibility": GpuTarget(max_block=128, shared_bytes=16 << 10),
    # three instead of WebGPU's 65535 (maxComputeWorkgroupsPerDimension)
    "few workgroups": GpuTarget(max_block=64, shared_bytes=16 << 10, max_groups=3),
    "waves that do not swap": GpuTarget(max_block=512, shared_bytes=32 << 10, wave_lanes=64),
    "small waves": GpuTarget(max_block=128, shared_bytes=16 << 10, wave_lanes=16, swaps=True),
    # src: CUDA C++ programming guide, compute capabilities: 1024 threads, 48 KiB without opting in
    "nvidia": GpuTarget(max_block=1024, shared_bytes=48 << 10, wave_lanes=32, swaps=True),
}


class StrictInterpreter(GpuInterpreter):
    """Refuses what the GPU has not."""

    def __init__(self, kernel: Kernel, arrays: dict[Ref, Lanes], gpu: GpuTarget) -> None:
        super().__init__(kernel, arrays, gpu.wave_lanes or 1)
        self.gpu = gpu
        if kernel.block > gpu.max_block or kernel.block % self.wave:
            raise ValueError(f"{kernel.name}: a workgroup of {kernel.block} lanes")
        if gpu.max_groups and kernel.grid > gpu.max_groups:
            raise ValueError(f"{kernel.name}: {kernel.grid} workgroups")
        shared = sum(self.memory[ref].nbytes for ref in kernel.locals if ref.space == "shared")
        if shared > gpu.shared_bytes:
            raise ValueError(f"{kernel.name}: {shared} bytes of shared memory")

    def _of_lanes(self, expr: Expr, value: Lanes) -> Lanes:
        if not self.gpu.swaps or self.gpu.wave_lanes is None:
            raise ValueError(f"{expr.op} between lanes that cannot")
        if expr.op == "swap" and expr.arg >= self.gpu.wave_lanes:
            raise ValueError(f"swap {expr.arg} leaves the wave")
        return super()._of_lanes(expr, value)

    def _stmt(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Matrix):
            self._matrix(stmt, env)
        else:
            super()._stmt(stmt, env)

    def _matrix(self, step: Matrix, env: Env) -> None:
        raise ValueError(f"no matrix step {step.form.name} here")


def planned(root: Node, gpu: GpuTarget) -> tuple[Plan, list[Any]]:
    """The plan of one root, and its leaves."""
    key, leaves = signature([root])
    return plan(rebuild(key).roots, Target(16, UNITS, gpu=gpu)), leaves


def interpret(
    root: Node, gpu: GpuTarget, interpreter: type[StrictInterpreter] = StrictInterpreter
) -> Array:
    """The root's elements; outputs start as garbage."""
    found, leaves = planned(root, gpu)
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        pairs = zip(step.kernel.params, step.values, strict=True)
        arrays = {ref: values[value].view(ref.dtype.storage) for ref, value in pairs}
        interpreter(step.kernel, arrays, gpu).run()
    return values[found.roots[0]].view(root.dtype.storage).reshape(root.shape)
