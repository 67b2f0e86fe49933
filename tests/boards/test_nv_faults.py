"""What goes wrong on NVIDIA's boards: errors, notifiers, reports, clean-up."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from boards.nv.hardware import NvOptions
from tests.boards.nv_client import (
    DEVICE,
    INVALID_DEVICE,
    LOST,
    SUBDEVICE,
    TIMEOUT,
    VIDEO,
    NvClient,
    acquire,
    copy,
    fails,
    method,
    opened,
    refuses,
    release,
)
from tests.support import check


def test_lost_doorbells_are_reported() -> None:
    client = opened()
    client.doorbells.write32(0x90, 0x1234)
    client.doorbells.write32(0x94, 1)
    ring = client.ring(client.group())
    client.submit(ring, release(ring.area.va, 1))
    check(client.kinds() == [
        "doorbell of no channel", "store to a usermode register that is none",
        "doorbell of a channel that is not scheduled",
    ])  # fmt: skip


def test_work_without_uvm_registration_is_reported() -> None:
    client = opened()
    group = client.group(engine=10)
    ring = client.ring(group, register=False)
    client.schedule(group)
    client.submit(ring, release(ring.area.va + 4096, 1))
    check(client.kinds() == ["work of a channel that UVM does not know"])


FAULTS = {
    # words of a push buffer -> code of the notifier
    "unknown host method": (method(0, 0x4C, 1), 32),
    "no such header": ([6 << 29 | 1 << 16 | 0x40, 0], 32),
    "too few words": ([1 << 29 | 9 << 16 | 0x5C >> 2, 0], 32),
    "no object": (method(3, 0x100, 0), 32),
    "class without an object": (method(2, 0, 0x902D), 32),
    "unknown compute method": (method(1, 0x3FFC, 0), 69),
    "TLB invalidation": (method(0, 0x28, 0, 0, 0, 9 << 27), 32),
    "semaphore at an odd address": (release(0x1003, 1), 32),
    "copy of no bytes": (copy(0x1000, 0x1000, 0), 39),
    "unmapped copy": (copy(0x7000_0000_0000, 0x7000_0000_0000, 64), 31),
    "unmapped semaphore": (release(0x60_0000_0000, 1), 31),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_tear_the_group_down_and_say_which(name) -> None:
    client = opened()
    ring = client.work_ring()
    words, code = FAULTS[name]
    client.submit(ring, words)
    check(client.error(ring) == (code, 1, 0xFFFF), str(client.error(ring)))
    client.submit(ring, release(ring.area.va + 4096, 1))
    check("doorbell of a dead channel" in client.kinds())
    good = client.work_ring()
    client.submit(good, release(good.area.va + 4096, 5))
    check(good.area.memory.read64(4096) == 5, "another group goes on")


def test_an_mmu_fault_names_address_and_access() -> None:
    client = opened()
    ring, source = client.work_ring(), client.buffer(4096)
    debugger = client.alloc(client.device, 0x83DE, struct.pack(
        "<III", 0, client.root, ring.objects[client.compute]))  # fmt: skip
    va = 0x55_0000_0000
    client.submit(ring, copy(va, source.va, 4096))
    out = client.control(debugger, 0x83DE0328, bytes(72))
    check(struct.unpack_from("<QII", out) == (va, 2, 1) and out[64] == 1)
    check(client.control(debugger, 0x83DE0328, bytes(72))[64] == 0, "reading takes it")
    out = client.control(ring.handle, 0x906F0106, bytes(104))
    check(struct.unpack_from("<III", out) == (va >> 32, va & 0xFFFF_FFFF, 2))


def test_read_only_mappings_and_faults_of_atomics() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096)
    client.uvm_map(where.va, 4096, where.handle, kind=3)
    client.submit(ring, copy(where.va, where.va, 64))
    check(client.error(ring)[0] == 31)
    report = client.world.gpus[0].channels[ring.token].group.mmu_fault
    check(report is not None and (report.fault, report.access) == (6, 1))


def test_unmapped_memory_faults_and_the_rest_goes_on() -> None:
    client = opened()
    ring, where = client.work_ring(), client.buffer(4096)
    data = struct.pack("<QQ", where.va, 4096) + client.uuid + struct.pack("<I4x", 0)
    client.uvm(66, data, 32)
    client.submit(ring, release(where.va, 1))
    check(client.error(ring)[0] == 31)


def test_the_panel_breaks_things() -> None:
    client = opened()
    ring = client.work_ring()
    panel = client.world.panel
    panel.fail_escape("control", errno.EIO)
    fails(errno.EIO, client.control, client.subdevice, 0x2080014A, bytes(268))
    panel.muted.add(ring.handle)
    client.submit(ring, release(ring.area.va + 4096, 1))
    check(client.got(ring) != ring.put)
    panel.muted.clear()
    client.doorbells.write32(0x90, ring.token)
    check(client.got(ring) == ring.put)
    panel.hang(ring.handle)
    client.submit(ring, release(ring.area.va + 4096, 2))
    check(client.got(ring) != ring.put and client.error(ring) == (0, 0, 0))
    group = client.world.gpus[0].channels[ring.token].group.handle
    refuses(TIMEOUT, client.control, group, 0xA06C0105, struct.pack("<BB2xI", 1, 0, 0))


def test_ecc_errors_and_a_lost_gpu() -> None:
    client = opened()
    one, two = client.work_ring(), client.work_ring()
    client.world.panel.ecc()
    check([client.error(ring)[0] for ring in (one, two)] == [48, 48])
    client.world.panel.fall_off_the_bus()
    refuses(LOST, client.control, client.subdevice, 0x2080014A, bytes(268))
    fails(errno.EIO, client.world.open, "/dev/nvidia0", os.O_RDWR)


def test_late_boards_run_when_the_process_waits() -> None:
    client = opened(options=NvOptions(late=True))
    ring = client.work_ring()
    client.submit(ring, release(ring.area.va + 4096, 3))
    check(ring.area.memory.read64(4096) != 3)
    client.world.monotonic_s()
    check(ring.area.memory.read64(4096) == 3)


def test_a_killed_process_leaves_nothing() -> None:
    client = opened(gpus=2)
    ring = client.work_ring()
    client.buffer(1 << 20)
    client.submit(ring, acquire(ring.area.va + 4096, 1 << 40))
    client.world.kill()
    left = client.world.baseline()
    check((left.clients, left.objects, left.channels, left.ranges) == (0, 0, 0, 0))
    check((left.fds, left.mappings, left.video_bytes, left.system_bytes) == (0, 0, 0, 0))


def test_closing_in_any_order_leaves_nothing() -> None:
    for backwards in (False, True):
        client = opened()
        client.work_ring()
        fds = range(1000, 1100)
        for fd in reversed(fds) if backwards else fds:
            try:
                client.world.close(fd)
            except OSError as error:
                check(error.errno == errno.EBADF)
        left = client.world.baseline()
        check((left.clients, left.channels, left.ranges) == (0, 0, 0))


def test_video_memory_of_a_peer_needs_peer_access() -> None:
    client = opened(gpus=2)
    two = NvClient.__new__(NvClient)
    two.__dict__.update(client.__dict__)
    two.gpu_file(1)
    two.device = client.alloc(client.root, DEVICE, struct.pack("<I52x", 1))
    two.subdevice = client.alloc(two.device, SUBDEVICE, struct.pack("<I", 0))
    gid = client.control(two.subdevice, 0x2080014A, struct.pack("<III256x", 0, 2, 16))
    two.uuid = gid[12:28]
    handle = client.alloc(two.device, VIDEO, client.memory_params(4096))
    client.uvm(37, two.uuid + struct.pack("<B3xiiIII", 0, 0, -1, 0, 0, 0), 36)
    refuses(INVALID_DEVICE, client.give_address, handle, 4096)
    client.uvm(29, client.uuid + two.uuid + struct.pack("<I", 0), 32)
    check(client.give_address(handle, 4096).handle == handle)
