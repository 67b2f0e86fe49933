"""Bare registers to results: the board's blocks meet a driver of few lines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.engine_kernels import OUT, Work, ids
from tests.boards.pci_bringup import Bringup, release, write_data
from tests.support import check

CHIPS = ("gfx1100", "gfx1201", "gfx942")


@pytest.mark.parametrize("name", CHIPS)
def test_a_release_of_a_compute_queue_signals_and_interrupts(name: str) -> None:
    board = Bringup(name).boot()
    queue, (signal, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, release(signal, 0x1_0000_0007, event=5, family=board.family))
    check(board.violations() == [], str(board.violations()))
    check((board.word(offset), board.word(offset + 4)) == (7, 1), "the signal is not there")
    check(board.word(queue.pointers[1] + 128) == 8, "the read pointer was not reported")
    check(len(board.entries()) == 1, f"{len(board.entries())} interrupts")
    entry = board.entries()[0]
    # src: soc15_ih_clientid.h GRBM_CP 0x14, CP_EOP_INTERRUPT 181; me 1 in the ring id's bits 2, 3
    check(entry[0] == 0x14 | 181 << 8 | 1 << 2 + 16 | 8 << 24, f"{entry[0]:#x}")
    check(entry[4] == 5, f"context id {entry[4]}")


@pytest.mark.parametrize("name", CHIPS)
def test_a_dispatch(name: str) -> None:
    board = Bringup(name).boot()
    queue = board.compute()
    lanes = board.chip.lanes
    work = Work(board, "ids", block=lanes, cpu=name)
    signal, offset = board.buffer()
    board.flush()
    changes = {"rsrc3": (0x22D, [work.rsrc3])} if name == "gfx942" else {}
    initiator = 5 if name == "gfx942" else 0x8005
    words = work.pm4((3, 1, 1), initiator, **changes)
    board.submit(queue, [*words, *release(signal, 1, family=board.family)])
    check(board.violations() == [], str(board.violations()))
    check(board.word(offset) == 1, "the dispatch did not end")
    table = board.last_table(OUT)
    out = board.entry(table, OUT >> 12 & 511) & 0xFFFFFFFFF000
    got = board.vram.words[out // 4 : out // 4 + 3 * lanes]
    np.testing.assert_array_equal(got, ids(3, lanes))


@pytest.mark.parametrize("name", CHIPS)
def test_a_copy(name: str) -> None:
    board = Bringup(name).boot()
    copies = board.sdma()
    source, destination, signal = board.buffer(), board.buffer(), board.buffer()
    board.words(source[1], np.arange(64))
    board.flush()
    # src: sdma_v6_0_0_pkt_open.h, sdma_v4_4_2.c: COPY_LINEAR, FENCE (uncached from v5 on), TRAP
    fence = 5 if name == "gfx942" else 5 | 3 << 16
    packets = [1, 64 * 4 - 1, 0, source[0] & 0xFFFFFFFF, source[0] >> 32]
    packets += [destination[0] & 0xFFFFFFFF, destination[0] >> 32]
    packets += [fence, signal[0] & 0xFFFFFFFF, signal[0] >> 32, 9, 6, 77]
    board.copy(copies, packets)
    check(board.violations() == [], str(board.violations()))
    first = destination[1] // 4
    np.testing.assert_array_equal(board.vram.words[first : first + 64], np.arange(64))
    check(board.word(signal[1]) == 9, "no fence")
    check(board.word(copies.pointers[1] + 128) == 4 * len(packets), "no read pointer")
    entry = board.entries()[0]
    # src: soc15_ih_clientid.h SDMA0 8, GFX 0x0a; irqsrcs_sdma0_4_0.h 224, irqsrcs_gfx_11_0_0.h 49
    client, source_id = (8, 224) if name == "gfx942" else (0x0A, 49)
    check(entry[0] & 0xFFFF == client | source_id << 8, f"{entry[0]:#x}")
    check(entry[4] == 77, f"context {entry[4]}")


def test_a_queue_of_every_die_shares_its_dispatches() -> None:
    board = Bringup("gfx942").boot()
    queue = board.compute(xccs=range(8))
    signal, offset = board.buffer()
    board.flush()
    board.submit(queue, release(signal, 3, family="gfx9"))
    check(board.violations() == [], str(board.violations()))
    check(board.word(offset) == 3, "no signal")
    live = board.gpu.graphics.compute.queues()[1, 0, 0]
    check(live.host.chip.xccs == 8, f"{live.host.chip.xccs} dies")
    for xcc in range(8):
        board.dequeue(1, instance=xcc)
        check(not board.active(instance=xcc), f"XCC {xcc} stays active")


def test_queues_of_two_vmids_have_their_own_memory() -> None:
    board = Bringup("gfx1100").boot()
    first = board.compute()
    va, offset = board.buffer()
    other = board.table()
    mine, board.root = board.root, other
    board.context(9, other | 1)
    second = board.compute(queue=1, vmid=9)
    theirs = board.next_data
    board.place(va, np.zeros(1024, np.uint32))
    board.flush(9)
    board.root = mine
    board.submit(first, write_data(va, 1))
    board.submit(second, write_data(va, 2))
    check(board.violations() == [], str(board.violations()))
    check((board.word(offset), board.word(theirs)) == (1, 2), "one wrote the other's memory")
