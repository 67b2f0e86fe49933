"""What the Adreno board asks of a dispatch's stream: each rule is broken once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from boards.qcom.chips import CHIPS
from boards.qcom.cp.view import ShaderMemory
from boards.qcom.wave.dispatch import Dispatch as Made
from boards.qcom.wave.dispatch import Fault, Outcome, PageFault
from tests.qcom_boards import (
    EVENT_WRITE,
    WAIT_FOR_IDLE,
    Block,
    Client,
    client,
    halves,
    type4,
    type7,
)
from tests.qcom_streams import (
    CODE_BYTES,
    MEM_TO_MEM,
    MEM_WRITE,
    WAIT_MEM_WRITES,
    Dispatch,
    clean,
    code,
    invalidate,
)
from tests.support import check

CHIPS_TRIED = ("a630", "a660", "a740", "x1-85")
Work = Callable[[Made, ShaderMemory], Outcome]


def prepared(one: Client, work: Work | None = None) -> tuple[Dispatch, Block, list[Made]]:
    """A stream of one dispatch, memory for it, and what reaches the shader processors."""
    gpu = one.world.gpus[0]
    block = one.alloc(4096)
    block.region.write(0, code())
    seen: list[Made] = []

    def run(made: Made, memory: ShaderMemory) -> Outcome:
        seen.append(made)
        return work(made, memory) if work is not None else Outcome()

    gpu.engine.machine.run = run
    made = Dispatch(gpu.chip.generation, block.va, lpac=gpu.chip.lpac, chip=gpu.chip.name)
    return made, block, seen


@pytest.mark.parametrize("chip", CHIPS)
def test_a_dispatch_as_mesa_makes_it(chip: str) -> None:
    with client(chip) as one:
        stream, _, seen = prepared(one)
        one.wait(one.submit(stream.words()))
        (made,) = seen
        check((made.groups, made.block, made.wave_lanes) == ((1, 1, 1), (64, 1, 1), 64))
        check((made.code, made.code_va) == (code(), stream.code_va))
        check((made.full_registers, made.merged) == (2, True))
        check((made.group_id_reg, made.local_id_reg) == (0xC0, 0xFC))
        check(len(made.constants) == 16 and made.loaded.tolist() == [True] * 4 + [False] * 12)


BREAKS: dict[str, tuple[str, list[int]]] = {
    "stale read": ("invalidate", []),
    "marker": ("marker", []),
    "code": ("code", []),
    "unset register": ("control", []),
}
"""By the kind of violation: the step that is left out. Generation 7 fetches its code itself.
# src: Mesa 25.0.7, src/freedreno/vulkan/tu_shader.cc, tu6_emit_xs"""


@pytest.mark.parametrize("chip", CHIPS_TRIED)
@pytest.mark.parametrize("kind", BREAKS)
def test_a_step_that_is_left_out_is_reported(chip: str, kind: str) -> None:
    with client(chip, clean=False) as one:
        stream, _, _ = prepared(one)
        name, words = BREAKS[kind]
        one.submit(stream.words(**{name: words}))
        kinds = {violation.kind for violation in one.world.violations}
        fetched = kind == "code" and stream.generation >= 7
        check(kinds == (set() if fetched else {kind}), str(one.world.violations))


@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_a_grid_that_is_not_what_ndrange_says(chip: str) -> None:
    with client(chip, clean=False) as one:
        stream, _, _ = prepared(one)
        one.submit(stream.words(run=type7(0x33, 0, 5, 1, 1)))
        check([v.kind for v in one.world.violations] == ["grid"], str(one.world.violations))


@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_more_constants_than_the_mode_keeps(chip: str) -> None:
    with client(chip, clean=False) as one:
        stream, _, _ = prepared(one)
        register = 0xA9CD if one.world.gpus[0].chip.generation >= 7 else 0xB987
        one.submit(stream.words(constlen=type4(register, 1 << 8 | 40)))
        check([v.kind for v in one.world.violations] == ["constants"], str(one.world.violations))


@pytest.mark.parametrize("step", ["constlen", "config"])
def test_a_shader_that_is_not_enabled_hangs(step: str) -> None:
    with client("a630", clean=False) as one:
        stream, _, seen = prepared(one)
        off = {"constlen": type4(0xB987, 1), "config": type4(0xA9BB, 0, 1)}[step]
        one.submit(stream.words(**{step: off}))
        check(seen == [] and "hang" in one.world.hardware.log[-1], str(one.world.hardware.log))


def test_more_code_than_the_cache_takes_hangs() -> None:
    with client("a740", clean=False) as one:
        stream, _, _ = prepared(one)
        big = one.alloc(CODE_BYTES * 200)
        load = type7(0x34, 13 << 18 | 2 << 16 | 128 << 22, *halves(big.va))
        one.submit(stream.words(code=load))
        check("128 units" in one.world.hardware.log[-1])


def _storing(va: int) -> Work:
    def work(made: Made, memory: ShaderMemory) -> Outcome:
        memory.scatter(np.array([va], np.uint64), np.array([[7]], np.uint32))
        return Outcome()

    return work


def _loading(va: int) -> Work:
    def work(made: Made, memory: ShaderMemory) -> Outcome:
        memory.gather(np.array([va], np.uint64), 4, 1)
        return Outcome()

    return work


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_a_dispatch_that_reads_what_the_last_one_writes(chip: str, wait: bool) -> None:
    with client(chip, clean=wait) as one:
        stream, block, _ = prepared(one, None)
        store, load = _storing(block.va + 512), _loading(block.va + 512)
        turns = iter((store, load))
        one.world.gpus[0].engine.machine.run = lambda made, memory: next(turns)(made, memory)
        between = type7(WAIT_FOR_IDLE) if wait else []
        one.submit([*stream.words(), *between, *stream.steps()["run"]])
        check(int(block.words[128]) == 7)
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ([] if wait else ["missing wait"]), str(one.world.violations))


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_a_dispatch_that_writes_what_the_last_one_reads(chip: str, wait: bool) -> None:
    with client(chip, clean=wait) as one:
        stream, block, _ = prepared(one)
        turns = iter((_loading(block.va + 512), _storing(block.va + 512)))
        one.world.gpus[0].engine.machine.run = lambda made, memory: next(turns)(made, memory)
        between = type7(WAIT_FOR_IDLE) if wait else []
        one.submit([*stream.words(), *between, *stream.steps()["run"]])
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ([] if wait else ["missing wait"]), str(one.world.violations))


def test_the_command_processor_writes_what_a_dispatch_reads() -> None:
    with client("a630", clean=False) as one:
        stream, block, _ = prepared(one)
        one.world.gpus[0].engine.machine.run = _loading(block.va + 512)
        copy = type7(MEM_TO_MEM, 0, *halves(block.va + 512), *halves(block.va + 640))
        one.submit([*stream.words(), *copy])
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ["missing wait"], str(one.world.violations))


@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_an_event_that_signals_before_the_results(chip: str) -> None:
    with client(chip, clean=False) as one:
        stream, block, _ = prepared(one)
        one.world.gpus[0].engine.machine.run = _storing(block.va + 512)
        head = 22 | (1 << 27 if stream.generation >= 7 else 0)
        one.submit([*stream.words(), *type7(EVENT_WRITE, head, *halves(block.va + 640), 1)])
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ["early write"], str(one.world.violations))


@pytest.mark.parametrize("left_out", ["", "wait", "invalidate"])
@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_a_dispatch_that_reads_what_the_command_processor_wrote(chip: str, left_out: str) -> None:
    with client(chip, clean=not left_out) as one:
        stream, block, _ = prepared(one)
        turns = iter((_storing(block.va + 516), _loading(block.va + 512)))
        one.world.gpus[0].engine.machine.run = lambda made, memory: next(turns)(made, memory)
        one.submit(stream.words())
        steps = {
            "write": type7(MEM_WRITE, *halves(block.va + 512), 5),
            "wait": type7(WAIT_MEM_WRITES),
            "invalidate": invalidate(stream.generation),
        }
        steps.pop(left_out, None)
        order = [stream.steps()["invalidate"], *steps.values()]
        words = [word for step in order for word in step]
        one.submit(words + stream.words(invalidate=[], idle=[]))
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == (["stale read"] if left_out else []), str(one.world.violations))


@pytest.mark.parametrize("cleaned", [True, False])
@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_the_command_processor_reads_what_a_dispatch_wrote(chip: str, cleaned: bool) -> None:
    with client(chip, clean=cleaned) as one:
        stream, block, _ = prepared(one, None)
        one.world.gpus[0].engine.machine.run = _storing(block.va + 512)
        flush = clean(stream.generation, block.va + 768) if cleaned else []
        copy = type7(MEM_TO_MEM, 0, *halves(block.va + 640), *halves(block.va + 512))
        one.submit([*stream.words(), *flush, *type7(WAIT_FOR_IDLE), *copy])
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ([] if cleaned else ["stale read"]), str(one.world.violations))


@pytest.mark.parametrize("waits", [True, False])
def test_a_signal_before_the_results(waits: bool) -> None:
    with client("a630", clean=waits) as one:
        stream, block, _ = prepared(one, None)
        one.world.gpus[0].engine.machine.run = _storing(block.va + 512)
        flush = [*clean(6, block.va + 768), *type7(WAIT_FOR_IDLE)] if waits else []
        one.submit([*stream.words(), *flush, *type7(MEM_WRITE, *halves(block.va + 640), 1)])
        kinds = [violation.kind for violation in one.world.violations]
        check(kinds == ([] if waits else ["early write"]), str(one.world.violations))


def test_registers_of_the_last_submission_are_gone() -> None:
    with client("a630", clean=False) as one:
        stream, _, _ = prepared(one)
        one.submit(stream.words())
        check(one.world.violations == [])
        one.submit([*invalidate(6), *type7(0x65, 8), *stream.steps()["run"]])
        check({v.kind for v in one.world.violations} >= {"unset register"})
        check("hang" in one.world.hardware.log[-1])


@pytest.mark.parametrize("chip", ["a660", "a690"])
def test_registers_that_are_there_twice_agree(chip: str) -> None:
    with client(chip, clean=False) as one:
        stream, _, _ = prepared(one)
        ids = [*stream.steps()["ids"][:-3], *type4(0xA9C2, 0xFCFCFCC4, 0xFC)]
        one.submit(stream.words(ids=ids))
        check([v.kind for v in one.world.violations] == ["registers differ"])


@pytest.mark.parametrize("chip", CHIPS_TRIED)
def test_the_size_of_waves_is_said_alike(chip: str) -> None:
    with client(chip, clean=False) as one:
        stream, _, seen = prepared(one)
        one.submit(stream.words(control=type4(0xA9B0, 1 << 31 | 1 << 20 | 2 << 7)))
        check([v.kind for v in one.world.violations] == ["registers differ"])
        check(seen[0].wave_lanes == 128)


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_page_fault_of_a_shader_ends_the_submission(access: str) -> None:
    with client("a630", clean=False, flags=0x212) as one:
        stream, _, _ = prepared(one, None)
        bad = 0x4_0000_0000

        def work(made: Made, memory: ShaderMemory) -> Outcome:
            try:
                (_loading if access == "read" else _storing)(bad)(made, memory)
            except PageFault as fault:
                return Outcome(fault=Fault("page fault", 0, "x", "y", fault.va, fault.access))
            return Outcome()

        one.world.gpus[0].engine.machine.run = work
        one.submit(stream.words())
        check(f"addr = {bad:X}" in one.world.hardware.log[0], str(one.world.hardware.log))
        with pytest.raises(OSError, match="shut down"):
            one.submit(stream.words())
