"""Wrong code is reported: short control words, and memory that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from boards.nv.isa.control import STALL_BITS, STALL_LOW, WAIT_BITS, WAIT_LOW, Control
from boards.nv.launch import EndlessGrid, SmException
from boards.nv.space import MmuFault
from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import CASES, Case
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
WORD, LEAST = 16, 4
NAMED = {case.name: case for case in CASES}
CHANGED = (
    "add", "product and sum of four", "fused", "choose", "exponential", "rounding", "bytes",
    "shorts", "words", "divide by constants", "long words", "truth", "rotate", "constant memory",
    "to integers and back", "loops that part", "local memory", "convolution",
)  # fmt: skip
"""Kernels whose arguments let every instruction run, and in which each wait is needed."""
FIXED = 0x100
"""Operations below this have a fixed latency; a stall after others is for their unit's sake."""
SECOND = 'extern "C" __global__ void f(int *o, const int *a) {'


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + WORD], "little") for at in range(0, len(code), WORD)]


def _changed(code: bytes, place: int, word: int) -> bytes:
    return code[: place * WORD] + word.to_bytes(WORD, "little") + code[(place + 1) * WORD :]


def _before_the_end(words: list[int]) -> int:
    """How many words there are up to the last EXIT."""
    return max(n for n, word in enumerate(words) if word & 0xFFF == 0x94D)


def _without_one_wait(code: bytes) -> Iterator[bytes]:
    words = _words(code)
    for place in range(_before_the_end(words) + 1):
        wait = Control.of(words[place]).wait
        for bit in range(WAIT_BITS):
            if wait >> bit & 1:
                yield _changed(code, place, words[place] ^ 1 << WAIT_LOW + bit)


def _with_one_short_stall(code: bytes) -> Iterator[bytes]:
    """Stalls of at least the shortest latency after a result of fixed latency, as 1."""
    words = _words(code)
    for place in range(_before_the_end(words)):
        stall = Control.of(words[place]).stall
        if stall >= LEAST and words[place] & 0x1FF < FIXED:
            mask = ((1 << STALL_BITS) - 1) << STALL_LOW
            yield _changed(code, place, words[place] & ~mask | 1 << STALL_LOW)


def _reported(case: Case, code: bytes) -> bool:
    _, record, banks = compiled(case.source)
    try:
        return bool(run((code, record, banks), case.args, case.grid, case.block)[1])
    except (SmException, MmuFault, EndlessGrid):
        return True


def test_a_wait_that_is_missing_is_reported() -> None:
    tried = [
        _reported(NAMED[name], code)
        for name in CHANGED
        for code in _without_one_wait(compiled(NAMED[name].source)[0])
    ]
    check(len(tried) >= 50, str(len(tried)))
    check(all(tried), f"{sum(tried)} of {len(tried)}")


def test_a_stall_that_is_too_short_is_reported() -> None:
    tried = [
        _reported(NAMED[name], code)
        for name in CHANGED
        for code in _with_one_short_stall(compiled(NAMED[name].source)[0])
    ]
    check(len(tried) >= 50, str(len(tried)))
    check(all(tried), f"{sum(tried)} of {len(tried)}")


def _run(body: str, args: tuple[Any, ...], block: int = 64) -> list[tuple[str, str]]:
    return run(compiled(SECOND + body + "}"), args, (1, 1, 1), (block, 1, 1))[1]


def test_shared_memory_that_nobody_wrote_is_reported() -> None:
    args = (np.zeros(64, "i4"), np.ones(64, "i4"))
    body = (
        "__shared__ int s[64]; if (a[0] > 5) s[threadIdx.x] = 1; o[threadIdx.x] = s[threadIdx.x];"
    )
    check(("shared memory is read and was never written") in {kind for kind, _ in _run(body, args)})


def test_an_address_without_memory_is_a_fault() -> None:
    args = (np.zeros(64, "i4"), np.ones(64, "i4"))
    with pytest.raises(MmuFault) as caught:
        _run("o[threadIdx.x] = a[threadIdx.x * 1000000];", args)
    check(caught.value.access == 0, str(caught.value))


def test_a_misaligned_address_stops_the_code() -> None:
    args = (np.zeros(64, "i4"), np.ones(64, "i4"))
    with pytest.raises(SmException, match="not aligned"):
        _run("o[threadIdx.x] = *(const int *)((const char *)a + 2);", args)


def test_a_loop_without_end_is_an_endless_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boards.nv.warp.execute._MOST_STEPS", 500)
    with pytest.raises(EndlessGrid):
        _run("volatile int *v = o; while (v[0] == 0);", (np.zeros(64, "i4"), np.ones(64, "i4")))


def test_what_is_not_modelled_is_refused_by_name() -> None:
    code, record, banks = compiled(NAMED["add"].source)
    words = _words(code)
    place = next(n for n, word in enumerate(words) if word & 0x1FF == 0x21)
    changed = (_changed(code, place, words[place] & ~0x1FF | 0x1F0), record, banks)
    with pytest.raises(SmException, match="does not execute opcode 0x3f0"):
        run(changed, NAMED["add"].args, (3, 1, 1), (128, 1, 1))


def test_a_bit_that_nobody_reads_is_refused() -> None:
    code, record, banks = compiled(NAMED["add"].source)
    words = _words(code)
    place = next(n for n, word in enumerate(words) if word & 0x1FF == 0x21)
    changed = (_changed(code, place, words[place] | 1 << 100), record, banks)
    with pytest.raises(SmException, match=r"FADD.*bit 100"):
        run(changed, NAMED["add"].args, (3, 1, 1), (128, 1, 1))


def test_a_load_may_overwrite_what_a_store_of_its_unit_reads() -> None:
    """The compiler relies on it: STS and LDS are one queue. Another unit has to wait."""
    store = 'extern "C" __global__ void f(int *o, const int *a) { __shared__ int s[64];'
    body = "s[threadIdx.x] = a[threadIdx.x]; __syncthreads(); o[threadIdx.x] = s[63 - threadIdx.x];"
    source, args = store + body + "}", (np.zeros(64, "i4"), np.arange(64, dtype="i4"))
    code, record, banks = compiled(source)
    words = _words(code)
    place = {name: next(n for n, w in enumerate(words) if w & 0x1FF == op) for name, op in
             (("STS", 0x188), ("LDS", 0x184), ("STG", 0x186))}  # fmt: skip
    stored, loaded = (words[place[name]] for name in ("STS", "LDS"))
    number = stored >> 32 & 0xFF
    stored = stored & ~(7 << 113) | 5 << 113
    held = _changed(code, place["STS"], stored)
    again = _changed(held, place["LDS"], loaded & ~(0xFF << 16) | number << 16)
    again = _changed(again, place["STG"], words[place["STG"]] & ~(0xFF << 32) | number << 32)
    buffers, found = run((again, record, banks), args, (1, 1, 1), (64, 1, 1))
    check(not found, str(found))
    np.testing.assert_array_equal(buffers[0], np.arange(64)[::-1])
    other = _changed(held, place["STS"] + 1, 0x000FC80000000000 << 64 | 0x802 | number << 16
                     | 7 << 12 | 0xF << 72)  # fmt: skip
    kinds = {kind for kind, _ in run((other, record, banks), args, (1, 1, 1), (64, 1, 1))[1]}
    check("source that is overwritten before it was read" in kinds, str(kinds))
