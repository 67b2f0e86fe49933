"""The interrupt ring of the bare GPU: wrapping, overflow, messages, doorbells, lost entries."""

from __future__ import annotations

import pytest

from tests.boards.pci_bringup import IH_RING, IH_WPTR, Bringup, release
from tests.support import check

OVERFLOW = 1


def ringing(nbytes: int = 0x1000, *, msi: bool = False, **more: int):
    board = Bringup("gfx1100").boot()
    board.interrupts(nbytes, **more)
    if msi:
        at = capability(board, 5)
        board.gpu.config.write(at + 2, b"\x01\x00")
    queue, (signal, _) = board.compute(), board.buffer()
    board.flush()
    return board, queue, signal


def capability(board: Bringup, which: int) -> int:
    """src: PCI 3.0 section 6.7: the list starts at 0x34; 5 is MSI"""
    at = board.gpu.config.read(0x34, 1)[0]
    for _ in range(16):
        number, after = board.gpu.config.read(at, 2)
        if number == which:
            return at
        at = after
    raise AssertionError("no such capability")


def raise_one(board: Bringup, queue, signal: int, event: int) -> None:
    board.submit(queue, release(signal, event, event=event))


def test_entries_wrap_around_and_the_pointer_is_written_back() -> None:
    board, queue, signal = ringing(128)
    for event in range(1, 7):
        raise_one(board, queue, signal, event)
        board.write("OSSSYS", "IH_RB_RPTR", board.word(IH_WPTR))
    check(board.word(IH_WPTR) == 2 * 32, f"{board.word(IH_WPTR):#x}")
    check(board.read("OSSSYS", "IH_RB_WPTR") == 2 * 32, "register and memory agree")
    contexts = [board.word(IH_RING + 32 * i + 16) for i in range(4)]
    check(contexts == [5, 6, 3, 4], f"{contexts}")
    check(board.violations() == [], str(board.violations()))


def test_a_full_ring_overflows_and_is_told_to_forget_it() -> None:
    board, queue, signal = ringing(128)
    for event in range(1, 6):
        raise_one(board, queue, signal, event)
    check(board.word(IH_WPTR) & OVERFLOW, "RB_OVERFLOW in memory")
    check(board.read("OSSSYS", "IH_RB_WPTR") & OVERFLOW, "and in the register")
    reported = [text for text in board.violations() if "unacknowledged" in text]
    check(len(reported) == 1, str(board.violations()))
    for on in (0, 1, 0):  # src: ih_v6_0_get_wptr(), a rising edge
        board.fields("OSSSYS", "IH_RB_CNTL", wptr_overflow_clear=on)
    check(not board.read("OSSSYS", "IH_RB_WPTR") & OVERFLOW, "cleared")


def test_a_ring_that_may_not_overflow_loses_entries() -> None:
    board, queue, signal = ringing(128, wptr_overflow_enable=0)
    for event in range(1, 5):
        raise_one(board, queue, signal, event)
    check("the ring is full" in board.violations()[0], str(board.violations()))


def test_a_ring_that_is_off_loses_entries() -> None:
    board, queue, signal = ringing(rb_enable=0)
    raise_one(board, queue, signal, 1)
    check("interrupt lost" in board.violations()[0], str(board.violations()))


def test_messages_come_once_until_the_host_has_read() -> None:
    board, queue, signal = ringing(msi=True)
    for event in (1, 2, 3):
        raise_one(board, queue, signal, event)
    check(board.bus.messages == 1, f"{board.bus.messages} messages")
    board.write("OSSSYS", "IH_RB_RPTR", 32)
    check(board.bus.messages == 2, "two entries are unread: another message")
    board.write("OSSSYS", "IH_RB_RPTR", 96)
    check(board.bus.messages == 2, "nothing is unread")
    raise_one(board, queue, signal, 4)
    check(board.bus.messages == 3, "armed again")


def test_no_message_without_msi_or_without_leave() -> None:
    board, queue, signal = ringing()
    raise_one(board, queue, signal, 1)
    check(board.bus.messages == 0, "MSI is off in config space")
    board, queue, signal = ringing(msi=True, enable_intr=0)
    raise_one(board, queue, signal, 1)
    check(board.bus.messages == 0 and len(board.entries()) == 1, "ENABLE_INTR is off")
    check("ENABLE_INTR, and MSI is on" in board.violations()[0], str(board.violations()))


@pytest.mark.parametrize("pointer", [64, 40, 0x1000])
def test_a_read_pointer_where_nothing_was_written(pointer: int) -> None:
    board, queue, signal = ringing()
    raise_one(board, queue, signal, 1)
    board.write("OSSSYS", "IH_RB_RPTR", 32)
    check(board.violations() == [], str(board.violations()))
    board.write("OSSSYS", "IH_RB_RPTR", pointer)
    check("a read pointer of" in board.violations()[0], str(board.violations()))


@pytest.mark.parametrize("name", ["IH_RB_BASE", "IH_RB_WPTR", "IH_RB_WPTR_ADDR_HI"])
def test_a_ring_that_moves_while_it_is_on(name: str) -> None:
    board = Bringup("gfx1100").boot()
    board.write("OSSSYS", name, 0)
    check("while the ring is on" in board.violations()[0], str(board.violations()))


def test_the_read_pointer_by_doorbell() -> None:
    board, queue, signal = ringing()
    board.write("OSSSYS", "IH_DOORBELL_RPTR", 1 << 28 | 40)
    raise_one(board, queue, signal, 1)
    board.gpu.write(2, 160, 4, 32)
    check(board.read("OSSSYS", "IH_RB_RPTR") == 32, "not taken")
    check(board.violations() == [], str(board.violations()))


def test_a_ring_on_the_bus() -> None:
    board = Bringup("gfx1100").boot()
    board.bus.mapped[0x4000_0000] = (0x4000, 0x2000, True)
    board.interrupts(mc_space=2, rb_enable=0)
    board.write("OSSSYS", "IH_RB_BASE", 0x4000_0000 >> 8)
    board.write("OSSSYS", "IH_RB_BASE_HI", 0)
    board.pair("OSSSYS", "IH_RB_WPTR_ADDR", 0x4000_1000, "_LO", "_HI")
    board.fields("OSSSYS", "IH_RB_CNTL", rb_enable=1)
    queue, (signal, _) = board.compute(), board.buffer()
    board.flush()
    raise_one(board, queue, signal, 9)
    words = board.bus.pool.words
    check(int(words[0x4010 // 4]) == 9 and int(words[0x5000 // 4]) == 32, "entry, write pointer")
    del board.bus.mapped[0x4000_0000]
    raise_one(board, queue, signal, 10)
    check("DMA outside mapped memory" in board.violations()[0], str(board.violations()))


def test_an_interrupt_that_the_pipe_does_not_enable() -> None:
    board, queue, signal = ringing()
    board.write("GC", "CP_ME1_PIPE0_INT_CNTL", 0)
    raise_one(board, queue, signal, 1)
    check("interrupt not enabled" in board.violations()[0], str(board.violations()))
    check(board.entries() == [], "an entry")


@pytest.mark.parametrize("allowed", [False, True])
def test_gfx9_writes_its_ring_on_the_bus_if_it_may(allowed: bool) -> None:
    """src: vega20_ih_rb_cntl(): MC_SPACE 1; vega20_ih_irq_init(): MC_SPACE_GPA_ENABLE"""
    board = Bringup("gfx942").boot()
    board.bus.mapped[0x4000_0000] = (0, 0x2000, True)
    board.fields("OSSSYS", "IH_CHICKEN", mc_space_gpa_enable=allowed)
    board.fields("OSSSYS", "IH_RB_CNTL", rb_enable=0)
    board.write("OSSSYS", "IH_RB_BASE", 0x4000_0000 >> 8)
    board.write("OSSSYS", "IH_RB_BASE_HI", 0)
    board.pair("OSSSYS", "IH_RB_WPTR_ADDR", 0x4000_1000, "_LO", "_HI")
    board.fields("OSSSYS", "IH_RB_CNTL", mc_space=1, rb_enable=1)
    queue, (signal, _) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, release(signal, 1, event=5, family="gfx9"))
    refused = [text for text in board.violations() if "IH_CHICKEN" in text]
    check(bool(refused) != allowed, str(board.violations()))
    context = int(board.bus.pool.words[4])
    check((context == 5) == allowed, f"{context:#x}")
