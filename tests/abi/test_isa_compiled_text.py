"""Kernels of our own compiler decode to LLVM's text, on a chip of each family."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.text import disassemble
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.dtype import DType
from compilers.graph import Node
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from queues.amd.kernel_code import AmdCode
from tests.abi.llvm_disassembler import Disassembler, open_disassembler
from tests.boards.kernel_runner import TARGETS
from tests.boards.wave_harness import CHIPS
from tests.compilers.lowering import leaf, matmul, softmax
from tests.support import check

_WINDOW = 16


def _zeros(*shape: int) -> Node:
    return leaf(np.zeros(shape, np.float32))


def _halves(dtype: DType, *shape: int) -> Node:
    return graph.cast(graph.buffer(np.zeros(shape, dtype.storage), dtype, shape), dt.float32)


def _roots() -> dict[str, Node]:
    wide = _zeros(64, 300)
    return {
        "add": graph.binary("add", wide, wide),
        "softmax": softmax(wide),
        "reduce": graph.reduce("add", wide, (0,)),
        "sort": graph.argsort(_zeros(9, 70), 1, False),
        "matmul_f32": matmul(_zeros(96, 80), _zeros(80, 96)),
        "matmul_f16": matmul(_halves(dt.float16, 64, 64), _halves(dt.float16, 64, 64)),
        "matmul_bf16": matmul(_halves(dt.bfloat16, 64, 64), _halves(dt.bfloat16, 64, 64)),
        **{name: graph.unary(name, wide) for name in ("exp2", "log2", "sin", "sqrt", "floor")},
    }


def _compare(cpu: str, code: bytes, lanes: int, oracle: Disassembler) -> tuple[int, list[str]]:
    wrong, at, compared = [], 0, 0
    for _ in range(len(code) // 4):
        if at >= len(code):
            break
        window = code[at : at + _WINDOW].ljust(_WINDOW, b"\0")
        found = oracle.at(window)
        if found is None:
            break  # behind the last instruction
        words = [int.from_bytes(window[i : i + 4], "little") for i in range(0, _WINDOW, 4)]
        inst = decode(FAMILIES[cpu], words, at, lanes)
        text = " ".join(disassemble(inst).split())
        if FAMILIES[cpu].split_registers and inst.name.endswith("16") and "op_sel" not in found[1]:
            # LLVM 22 writes halves of registers where LLVM 19 knows, and prints, whole ones.
            text = text.split(" op_sel:")[0]
        if (inst.size_bytes, text) != found:
            wrong.append(f"{text!r}, LLVM {found[1]!r}")
        compared, at = compared + 1, at + found[0]
        if found[1].startswith("s_endpgm"):
            break
    return compared, wrong


@pytest.mark.parametrize("name", _roots())
@pytest.mark.parametrize("cpu", [cpu for cpu in CHIPS if cpu in TARGETS])
def test_compiled_kernels_have_llvms_text(cpu: str, name: str) -> None:
    key, _ = signature([_roots()[name]])
    for step in plan(rebuild(key).roots, TARGETS[cpu]).steps:
        binary = toolchains.build(step.kernel, "LLVM", cpu, frozenset())
        lanes = AmdCode.of(binary).wave_lanes
        wide = "" if lanes == FAMILIES[cpu].lane_counts[0] else "-wavefrontsize32,+wavefrontsize64"
        entry = binary.entry + int.from_bytes(binary.image[binary.entry + 16 :][:8], "little")
        code = binary.image[entry & (1 << 64) - 1 :]
        compared, wrong = _compare(cpu, code, lanes, open_disassembler(cpu, wide))
        check(not wrong, "\n".join(wrong))
        check(compared > 5, f"only {compared} instructions")
