"""The Adreno board's command processor: packets that it takes, and those that it refuses."""

from __future__ import annotations

import pytest

from tests.qcom_boards import (
    EVENT_WRITE,
    INDIRECT,
    NOP,
    WAIT_FOR_IDLE,
    client,
    halves,
    odd,
    type4,
    type7,
)
from tests.support import check

MEM_WRITE, REG_TO_MEM, MEM_TO_REG, WAIT_REG_MEM, WAIT_MEM_GTE = 0x3D, 0x3E, 0x42, 0x3C, 0x14
MEM_TO_MEM, COND_EXEC, SCRATCH = 0x73, 0x44, 0xA9B4
"""# src: Mesa 25.0.7, src/freedreno/registers/adreno/adreno_pm4.xml, a6xx.xml (SP_CS_OBJ_START)"""


def _flip(words: list[int], bit: int) -> list[int]:
    return [words[0] ^ 1 << bit, *words[1:]]


REFUSED: dict[str, list[int]] = {
    "count's parity of type 7": _flip(type7(WAIT_FOR_IDLE), 15),
    "opcode's parity": _flip(type7(WAIT_FOR_IDLE), 23),
    "reserved bits of type 7": _flip(type7(WAIT_FOR_IDLE), 25),
    "count's parity of type 4": _flip(type4(SCRATCH, 0), 7),
    "register's parity": _flip(type4(SCRATCH, 0), 27),
    "type 0": [0],
    "type 3": [0xC0001000, 0],
    "an opcode that is none": type7(0x7F),
    "CP_ME_INIT": type7(0x48, *[0] * 8),
    "CP_SET_SECURE_MODE": type7(0x66, 0),
    "too many words": type7(WAIT_FOR_IDLE, 0),
    "too few words": type7(MEM_WRITE, 0, 0),
    "past its end": type7(NOP, 0, 0)[:2],
    "an unknown event": type7(EVENT_WRITE, 0xF0),
    "the kernel's marker": type7(0x65, 0xD),
    "a register that is none": type4(0xA200, 0),
    "a comparison that is none": type7(WAIT_REG_MEM, 7 | 1 << 4, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_chip_does_not_take(why: str) -> None:
    with client("a630", clean=False, flags=0x212) as one:
        one.submit(REFUSED[why])
        check("opcode error" in one.world.hardware.log[-1], str(one.world.hardware.log))
        check(one.call("readtimestamp_ctxtid", context_id=one.context, type=2).timestamp == 1)
        with pytest.raises(OSError, match="shut down"):
            one.submit(type7(NOP))


@pytest.mark.parametrize("register", [0x0, 0x800, 0x8E08, 0x9624, 0xF000])
def test_registers_of_the_kernel(register: int) -> None:
    with client("a630", clean=False) as one:
        one.submit(type4(register, 0))
        check("protected register" in one.world.hardware.log[-1])


def test_odd_parity() -> None:
    for value in range(64):
        check((bin(value).count("1") + odd(value)) % 2 == 1)


def test_memory_and_registers() -> None:
    with client("a630") as one:
        block = one.alloc(4096)
        block.words[4:6] = 11, 31
        one.submit([
            *type7(MEM_WRITE, *halves(block.va), 1, 2, 3),
            *type7(MEM_TO_MEM, 1, *halves(block.va + 64), *halves(block.va + 16),
                   *halves(block.va + 20)),
            *type4(SCRATCH, 0x1234, 0x5678),
            *type7(REG_TO_MEM, SCRATCH | 2 << 18, *halves(block.va + 128)),
            *type7(MEM_TO_REG, SCRATCH | 1 << 19, *halves(block.va + 16)),
            *type7(REG_TO_MEM, SCRATCH, *halves(block.va + 192)),
        ])  # fmt: skip
        check(block.words[:3].tolist() == [1, 2, 3])
        check(int(block.words[16]) == 31 - 11)
        check(block.words[32:34].tolist() == [0x1234, 0x5678])
        check(int(block.words[48]) == 11)


def test_the_always_on_counter_runs_at_19_2_mhz() -> None:
    with client("a740") as one:
        block = one.alloc(4096)
        for at, _ in enumerate(range(2)):
            one.submit(type7(REG_TO_MEM, 0x980 | 2 << 18 | 1 << 30, *halves(block.va + 8 * at)))
            one.world.sleep(1.0)
        first, second = block.words[:4].view("<u8").tolist()
        check(19_200_000 <= second - first < 19_200_000 * 2, f"{second - first}")


def test_buffers_in_buffers_three_deep() -> None:
    with client("a630", clean=False) as one:
        inner, mark = one.alloc(4096), one.alloc(4096)
        words = type7(MEM_WRITE, *halves(mark.va), 9)
        inner.words[: len(words)] = words
        call = type7(INDIRECT, *halves(inner.va), len(words))
        middle = one.alloc(4096)
        middle.words[: len(call)] = call
        one.submit(type7(INDIRECT, *halves(middle.va), len(call)))
        check(int(mark.words[0]) == 9 and one.world.hardware.log == [])
        again = type7(INDIRECT, *halves(middle.va), len(call))
        outer = one.alloc(4096)
        outer.words[: len(again)] = again
        one.submit(type7(INDIRECT, *halves(outer.va), len(again)))
        check("an IB of level 3" in one.world.hardware.log[-1], str(one.world.hardware.log))


@pytest.mark.parametrize("taken", [True, False])
def test_words_that_are_skipped(taken: bool) -> None:
    with client("a630") as one:
        block = one.alloc(4096)
        block.words[0], block.words[1] = int(taken), 3
        write = type7(MEM_WRITE, *halves(block.va + 64), 5)
        one.submit([
            *type7(COND_EXEC, *halves(block.va), *halves(block.va + 4), 4, len(write)), *write,
        ])  # fmt: skip
        check(int(block.words[16]) == (5 if taken else 0))


@pytest.mark.parametrize("opcode", [WAIT_REG_MEM, WAIT_MEM_GTE])
def test_a_wait_ends_when_memory_has_the_value(opcode: int) -> None:
    with client("a630") as one:
        block = one.alloc(4096)
        va = halves(block.va)
        wait = type7(opcode, 5 | 1 << 4, *va, 7, 0xFFFFFFFF, 16)
        if opcode == WAIT_MEM_GTE:
            wait = type7(opcode, 0, *va, 7)
        stamp = one.submit([*wait, *type7(MEM_WRITE, *halves(block.va + 64), 1)])
        check(one.retired() == stamp - 1 and not block.words[16])
        block.words[0] = 7
        one.wait(stamp)
        check(int(block.words[16]) == 1)


def test_a_wait_that_never_ends_is_a_hang() -> None:
    with client("a630", clean=False, flags=0x212) as one:
        block = one.alloc(4096)
        stamp = one.submit(type7(WAIT_MEM_GTE, 0, *halves(block.va), 7))
        with pytest.raises(OSError, match="1000 ms"):
            one.wait(stamp, 1000)
        check(one.world.hardware.log == [])
        with pytest.raises(OSError, match="shut down"):
            one.wait(stamp, 5000)
        check("gpu timeout" in one.world.hardware.log[-1], str(one.world.hardware.log))


@pytest.mark.parametrize(("event", "words"), [(0x14, 4), (4, 3), (49, 4), (22, 2)])
def test_generation_6_events_have_one_word_or_four(event: int, words: int) -> None:
    with client("a630", clean=False) as one:
        block = one.alloc(4096)
        one.submit(type7(EVENT_WRITE, *[event, *halves(block.va), 0][:words]))
        check(bool(one.world.hardware.log) == (words not in (1, 4)))


@pytest.mark.parametrize(
    ("head", "words", "good"),
    [
        (51, 1, True), (49, 1, True), (22, 1, False), (22 | 1 << 27, 4, True),
        (22 | 1 << 27, 3, False), (22 | 3 << 20 | 1 << 27, 3, True),
        (22 | 3 << 20 | 1 << 27, 4, False), (4 | 1 << 20 | 1 << 27, 5, True),
        (4 | 1 << 20 | 1 << 27, 4, False), (49, 4, False), (22 | 7 << 20 | 1 << 27, 4, False),
    ],
)  # fmt: skip
def test_generation_7_events_have_words_by_their_source(head: int, words: int, good: bool) -> None:
    with client("a740", clean=False) as one:
        block = one.alloc(4096)
        one.submit(type7(EVENT_WRITE, *[head, *halves(block.va), 0, 0][:words]))
        found = one.world.violations != [] or one.world.hardware.log != []
        check(found != good, f"{one.world.violations} {one.world.hardware.log}")


@pytest.mark.parametrize("where", ["read", "write", "past"])
def test_page_faults_of_the_command_processor(where: str) -> None:
    with client("a630", clean=False) as one:
        block = one.alloc(4096, 1 << 24 | 1 << 28)
        words = {
            "read": type7(MEM_TO_MEM, 0, *halves(block.va), *halves(0x123000)),
            "write": type7(MEM_WRITE, *halves(block.va), 0),
            "past": type7(MEM_WRITE, *halves(block.va + (1 << 40)), 0),
        }[where]
        one.submit(words)
        check("GPU PAGE FAULT" in one.world.hardware.log[0], str(one.world.hardware.log))
        check(("no right" in one.world.hardware.log[0]) == (where == "write"))
