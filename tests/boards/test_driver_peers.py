"""Two GPUs of a process share memory: each forgets what its L2 holds of what the other changed.

A peer's VRAM is cached: only coherent and uncached memory has MTYPE_UC (gmc_v11_0_get_vm_pte()).
The board models no L2 of a peer, so the packets are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from boards.amd.machine import open_board
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.world.foreign import ForeignWorld
from queues.decode import decode, decoder, words_of
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 64


@contextmanager
def two(chip: str) -> Iterator[tuple[AmdDevice, AmdDevice]]:
    world = ForeignWorld(open_board(chip, gpus=2, vram_bytes=256 << 20))
    with open_on(world, index=0) as one, open_on(world, index=1) as other:
        yield one, other
    close_session(world)


def drops_l2(device: AmdDevice, put_before: int) -> bool:
    """Whether what the compute queue was given since then invalidates the L2."""
    ring = device.compute
    words = words_of(bytes(ring.bytes[put_before * 4 : ring.put * 4]))
    acquires = [
        packet.fields
        for packet in decode(decoder("pm4", device.arch), words)
        if packet.name == "ACQUIRE_MEM"
    ]
    check(bool(acquires), "no ACQUIRE_MEM")
    return any(fields["gl2_inv"] for fields in acquires)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("writer", [0, 1], ids=["the owner writes", "the peer writes"])
def test_the_other_gpu_forgets_its_l2(chip: str, writer: int) -> None:
    with two(chip) as devices:
        owner, writes, reads = devices[0], devices[writer], devices[1 - writer]
        programs = {device: device.load(add(chip)) for device in devices}
        shared = put(owner, np.zeros(N, np.float32))
        shared.map_to(devices[1])
        ones, zeros = put(writes, np.ones(N, np.float32)), put(reads, np.zeros(N, np.float32))
        out = reads.alloc(4 * N)
        for _ in range(2):  # its L2 holds the old values now
            reads.launch(programs[reads], [shared, zeros, out, N], 1)
            reads.synchronize()
        mark = reads.compute.put
        reads.launch(programs[reads], [shared, zeros, out, N], 1)
        check(not drops_l2(reads, mark), "nothing has changed: the L2 is good")
        reads.synchronize()
        writes.launch(programs[writes], [ones, ones, shared, N], 1)
        writes.synchronize()
        mark = reads.compute.put
        reads.launch(programs[reads], [shared, zeros, out, N], 1)
        check(drops_l2(reads, mark), "the L2 may hold what was there before")
        reads.synchronize()
        np.testing.assert_array_equal(get(reads, out).view(np.float32), np.full(N, 2, np.float32))
