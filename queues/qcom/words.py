"""What queues write beside launches: setup of a submission, progress, signals, waits, copies.

Another process's work may run between two submissions, and changes registers: each begins with
`setup`. Kernels write through the L2 (UCHE), which is written back before any progress is reported,
and invalidated where others may have written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from drivers.base.errors import BadArgument
from queues.qcom import pm4
from queues.qcom.chips import Chip
from queues.qcom.pm4 import Event, Event7, Op
from queues.qcom.registers import GEN6, register

ALL_STATE: Final = {GEN6: 0xFFFFF, 7: 0x1FFFFFF}
"""HLSQ_INVALIDATE_CMD, all bits. # src: a6xx.xml; Mesa tu6_init_hw()"""
PERFCTR_ALL: Final = 0x3F
"""SP_PERFCTR_ENABLE. # src: Mesa tu6_init_static_regs()"""
_ISAMMODE_GL: Final = 2
"""ISAMMODE_CL is 1. # src: Mesa, a6xx.xml, enum a6xx_isam_mode (as tinygrad 0.14.0 carries it)"""
MODE_GL: Final = 1 | _ISAMMODE_GL << 1
"""SP_MODE_CONTROL: constants of half registers are converted, ISAMMODE_GL."""
TP_MODE_GL: Final = 0xA0 | _ISAMMODE_GL
"""SP_TP_MODE_CNTL. # src: Mesa tu6_init_static_regs()"""
MOST_COPIED_WORDS: Final = 1 << 20
"""By one packet, and by one submission: 42 ms at 100 MB/s, which is taken for the slowest that the
command processor copies. Not measured; msm calls 0.25 s without progress a hang."""


class Sync(NamedTuple):
    """A wait for a signal, or a signal, of some packets."""

    va: int
    value: int
    signals: bool


class Packets(list[int]):
    """Words, and the signals that they wait for and set, in order."""

    def __init__(
        self, words: Iterable[int], syncs: tuple[Sync, ...] = (), *, timed: bool = False,
        copied: int = 0,
    ) -> None:  # fmt: skip
        """`timed`: they write the counter; `copied`: words that they copy."""
        super().__init__(words)
        self.syncs, self.timed, self.copied = syncs, timed, copied


def syncs_of(words: object) -> tuple[Sync, ...]:
    """Of packets that know them; none of others."""
    return words.syncs if isinstance(words, Packets) else ()


def writes_time(words: object) -> bool:
    """Whether packets write the counter."""
    return isinstance(words, Packets) and words.timed


def words_copied(words: object) -> int:
    """How many words packets copy."""
    return words.copied if isinstance(words, Packets) else 0


def waits(words: object) -> bool:
    """Whether packets wait for a signal."""
    return any(not sync.signals for sync in syncs_of(words))


def setup(chip: Chip) -> list[int]:
    """Before the work of a submission: caches invalidated, registers that no launch writes."""
    words: list[int] = []
    if chip.generation != GEN6:
        words += pm4.pkt7(Op.THREAD_CONTROL, [pm4.CP_SET_THREAD_BR | pm4.CONCURRENT_BIN_DISABLE])
    words += invalidate(chip)
    words += write(chip, "HLSQ_INVALIDATE_CMD", ALL_STATE[chip.generation])
    words += pm4.wait_for_idle()
    words += write(chip, "SP_FLOAT_CNTL", 0)
    words += write(chip, "SP_PERFCTR_ENABLE", PERFCTR_ALL)
    words += write(chip, "SP_MODE_CONTROL", MODE_GL)
    words += write(chip, "SP_TP_MODE_CNTL", TP_MODE_GL)
    if chip.generation == GEN6:
        words += write(chip, "HLSQ_SHARED_CONSTS", 0)
    for name, value in chip.magic.items():
        words += write(chip, name, value)
    return words + write(chip, "SP_CS_IBO_COUNT", 0)


def write(chip: Chip, name: str, *values: int) -> list[int]:
    """Registers from a named one on."""
    return pm4.pkt4(register(chip.generation, name), values)


def invalidate(chip: Chip) -> list[int]:
    """Later loads see what others wrote."""
    number = Event.CACHE_INVALIDATE if chip.generation == GEN6 else Event7.CACHE_INVALIDATE7
    return [*pm4.event(number), *pm4.wait_for_idle()]


def barrier(chip: Chip) -> list[int]:
    """Later kernels begin when the ones before are done, and see what they wrote."""
    return pm4.wait_for_idle() + (pm4.pkt7(Op.CCHE_INVALIDATE) if chip.cche else [])


def release(chip: Chip, *, va: int, value: int) -> list[int]:
    """32 bits to memory once all before is done and visible. The value is the last word."""
    if chip.generation == GEN6:
        return pm4.event_value(Event.CACHE_FLUSH_TS, va, value)
    return pm4.event7_value(Event7.CACHE_CLEAN, va, value)


def timestamp(chip: Chip, *, va: int) -> list[int]:
    """The 64-bit always-on counter to memory once all before is done."""
    if chip.generation == GEN6:
        return pm4.event_time(Event.RB_DONE_TS, va)
    return pm4.event7_time(Event7.RB_DONE_TS, va)


def wait(chip: Chip, *, va: int, value: int) -> list[int]:
    """Until 32 bits of memory have reached `value`; later work sees what was written before."""
    return [*pm4.wait_memory(va, value), *invalidate(chip)]


def copies(dst: int, src: int, nbytes: int) -> Iterator[Packets]:
    """Copy whole words. Raises: BadArgument for other addresses and sizes."""
    if (dst | src | nbytes) % pm4.WORD_BYTES:
        raise BadArgument(
            f"{nbytes} bytes from {src:#x} to {dst:#x} are not whole words",
            hint="copy a multiple of 4 bytes, or copy through the host",
        )
    nwords = nbytes // pm4.WORD_BYTES
    for first in range(0, nwords, MOST_COPIED_WORDS):
        off, count = first * pm4.WORD_BYTES, min(MOST_COPIED_WORDS, nwords - first)
        yield Packets(pm4.memcpy(dst + off, src + off, count), copied=count)


def copied() -> list[int]:
    """After copies: they are in memory."""
    return pm4.pkt7(Op.WAIT_MEM_WRITES)


def padding(nwords: int) -> list[int]:
    """Words that do nothing."""
    return [word for _ in range(nwords) for word in pm4.pkt7(Op.NOP)]
