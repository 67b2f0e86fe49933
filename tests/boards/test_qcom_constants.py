"""Constants outside of a stage's own part of the file, and sources that are not registers."""

from __future__ import annotations

import numpy as np
import pytest

from boards.qcom.cp.view import ShaderMemory
from boards.qcom.wave.dispatch import Dispatch as Made
from boards.qcom.wave.dispatch import Outcome
from boards.qcom.wave.execute import run
from tests.boards.ir3_runner import BASE, Memory, dispatch
from tests.qcom_boards import Client, client, type4, type7
from tests.qcom_streams import LOAD_STATE, Dispatch, code
from tests.support import check

# src: Mesa 25.0.7, a6xx.xml (HLSQ_SHARED_CONSTS, HLSQ_CS_CNTL, HLSQ_SHARED_CONSTS_IMM),
# tu_cmd_buffer.cc (tu6_emit_shared_consts, tu7_emit_shared_preamble_consts)
SHARED_CONSTS, CS_CNTL_7, IMMEDIATES_7, FIRST_SHARED = 0xBB11, 0xA9CD, 0xAB40, 504
SP_MODE_CONTROL, SHARED_MODE = 0xAB00, 0xD
BLOCK_IBO, TYPE_UBO, READ_IMM = 14, 2, 1 << 9


def _made(one: Client, **replaced: list[int]) -> Made:
    """What reaches the shader processors of a stream with some steps replaced."""
    gpu, block, seen = one.world.gpus[0], one.alloc(4096), list[Made]()
    block.region.write(0, code())

    def take(made: Made, memory: ShaderMemory) -> Outcome:
        seen.append(made)
        return Outcome()

    gpu.engine.machine.run = take
    stream = Dispatch(gpu.chip.generation, block.va, lpac=gpu.chip.lpac, chip=gpu.chip.name)
    one.wait(one.submit(stream.words(**replaced)))
    return seen[0]


def _load(first: int, *words: int) -> list[int]:
    head = first | TYPE_UBO << 14 | BLOCK_IBO << 18 | len(words) << 22
    return type7(LOAD_STATE, head, 0, 0, *words)


@pytest.mark.parametrize("chip", ["a630", "a660"])
def test_shared_constants_of_generation_6_are_c504_and_on(chip: str) -> None:
    with client(chip) as one:
        shared = [*type4(SHARED_CONSTS, 1), *type4(SP_MODE_CONTROL, SHARED_MODE)]
        made = _made(one, idle=[*shared, *_load(3, 7, 8, 9)])
        at = FIRST_SHARED * 4
        check(made.constants[at + 3 : at + 6].tolist() == [7, 8, 9])
        check(np.flatnonzero(made.loaded[at:]).tolist() == [3, 4, 5])


def test_shared_constants_that_are_not_enabled_are_not_there() -> None:
    with client("a630") as one:
        made = _made(one, idle=[*type4(SHARED_CONSTS, 0), *_load(0, 7)])
        check(len(made.constants) < FIRST_SHARED * 4)


def test_more_shared_constants_than_there_are() -> None:
    with client("a630", clean=False) as one:
        one.submit(_load(30, 1, 2, 3))
        check("opcode error" in one.world.hardware.log[-1], str(one.world.hardware.log))


def test_generation_7_reads_them_from_registers() -> None:
    with client("a740") as one:
        constlen = type4(CS_CNTL_7, 1 << 8 | 1 | READ_IMM)
        made = _made(one, constlen=[*constlen, *type4(IMMEDIATES_7, 11, 22)])
        check(made.shared_constants[:3].tolist() == [11, 22, 0])


# src: captured of Turnip 25.0.7 for A740 and of src/freedreno/ir3/tests/disasm.c
ALIASED = (
    0xE44D00A0_00000000,  # alias.tex.b32.0 r40.x, c0.x
    0xA00CB100_C01C0141,  # isam.v.base7 (u32)(x)r0.x, r40.x, s#0, t#0
    0x13000000_00000000,  # (sy)end
)


def _run(words: tuple[int, ...], *constants: int) -> tuple[Outcome, Memory]:
    memory = Memory(np.zeros(256, np.uint32))
    code_bytes = b"".join(word.to_bytes(8, "little") for word in words)
    made = dispatch(
        code_bytes, [*constants, 0, 0, 0], generation=7, full_registers=2, bindless=(BASE,) * 8
    )
    return run(made, memory, most=1000), memory


def test_an_aliased_source_needs_no_register() -> None:
    outcome, _ = _run(ALIASED, 0)
    check("r40.x" not in str(outcome.violations), str(outcome.violations))


def test_without_its_alias_the_register_is_beyond_the_footprint() -> None:
    outcome, _ = _run(ALIASED[1:], 0)
    check("r40.x" in str(outcome.violations), str(outcome.violations))
