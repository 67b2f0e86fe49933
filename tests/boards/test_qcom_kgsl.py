"""KGSL's requests as the Adreno board has them: each rule is broken once."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

import numpy as np
import pytest

from boards.qcom.hardware import AdrenoOptions
from boards.qcom.kgsl import abi
from boards.qcom.machine import another_qcom_process
from tests.qcom_boards import CPU_MAP, EVENT_WRITE, WRITE_BACK, Client, client, halves, type7
from tests.support import check

WAIT_MEM_GTE, NOP, MEM_WRITE = 0x14, 0x10, 0x3D
REQUESTS = {
    "getproperty": 0xC0180902, "waittimestamp_ctxtid": 0x400C0907, "drawctxt_create": 0xC0080913,
    "drawctxt_destroy": 0x40040914, "map_user_mem": 0xC0300915,
    "readtimestamp_ctxtid": 0xC00C0916, "sharedmem_free": 0x40080921, "setproperty": 0x40180932,
    "timestamp_event": 0xC0200933, "gpumem_alloc_id": 0xC0300934, "gpumem_free_id": 0xC0080935,
    "perfcounter_read": 0xC018093B, "gpuobj_alloc": 0xC0300945, "gpuobj_free": 0x40200946,
    "gpuobj_info": 0xC0300947, "gpuobj_import": 0xC0200948, "gpuobj_sync": 0x40100949,
    "gpu_command": 0xC040094A, "get_fault_report": 0xC018095E,
}  # fmt: skip
"""# src: notes section 1a, numbers that a compiler made of Mesa's msm_kgsl.h"""


@pytest.mark.parametrize("name", REQUESTS)
def test_numbers_are_those_of_the_header(name: str) -> None:
    (call,) = [call for call in abi.CALLS if call.name == name]
    check(call.request == REQUESTS[name], f"{call.request:#x}")


def _fails(number: int, does: Callable[[], object]) -> None:
    with pytest.raises(OSError, match=rf"Errno {number}\]"):
        does()


def test_properties() -> None:
    with client("a740") as one:
        info = np.zeros(40, np.uint8)
        one.call("getproperty", type=1, value=info.ctypes.data, sizebytes=40)
        _, chip, mmu, _, gpu, gmem = struct.unpack("<IIIxxxxQIxxxxQ", info.tobytes())
        check((chip, mmu, gpu, gmem) == (0x43050A01, 1, 740, 3 << 20))
        _fails(errno.EINVAL, lambda: one.call(
            "getproperty", type=1, value=info.ctypes.data, sizebytes=36))  # fmt: skip
        _fails(errno.EINVAL, lambda: one.call(
            "getproperty", type=0x999, value=info.ctypes.data, sizebytes=4))  # fmt: skip
        _fails(errno.EFAULT, lambda: one.call("getproperty", type=1, value=64, sizebytes=40))


def test_a_cpu_mapping_has_the_gpus_address() -> None:
    with client() as one:
        block = one.alloc(8192)
        check(block.va == block.region.cpu_va)
        _fails(errno.EBUSY, lambda: one.world.mmap(one.fd, 8192, block.id << 12))
        other = one.call("gpuobj_alloc", size=100, flags=0)
        check((other.mmapsize, other.size, other.va_len) == (4096, 4096, 0))
        info = one.call("gpuobj_info", id=other.id)
        check(info.gpuaddr != 0 and info.gpuaddr % 4096 == 0)
        _fails(errno.ERANGE, lambda: one.world.mmap(one.fd, 8192, other.id << 12))
        _fails(errno.EINVAL, lambda: one.world.mmap(one.fd, 4096, 99 << 12))
        one.call("gpuobj_free", id=other.id)
        _fails(errno.EINVAL, lambda: one.call("gpuobj_info", id=other.id))


def test_alignment_is_kept() -> None:
    with client() as one:
        for power in (12, 16, 20):
            made = one.call("gpuobj_alloc", size=4096, flags=power << 16)
            check(one.call("gpuobj_info", id=made.id).gpuaddr % (1 << power) == 0)


@pytest.mark.parametrize(
    ("name", "values", "number"),
    [
        ("gpuobj_alloc", {"size": 0}, errno.EINVAL),
        ("gpuobj_alloc", {"size": 4096, "flags": 8}, errno.EOPNOTSUPP),
        ("gpuobj_alloc", {"size": (4 << 30) - 1}, errno.EINVAL),
        ("gpuobj_free", {"id": 77}, errno.EINVAL),
        ("gpumem_free_id", {"id": 77}, errno.EINVAL),
        ("sharedmem_free", {"gpuaddr": 0x1000}, errno.EINVAL),
        ("gpuobj_sync", {"count": 0}, errno.EINVAL),
        ("drawctxt_create", {"flags": 0}, errno.EINVAL),
        ("drawctxt_create", {"flags": 0x20012}, errno.EOPNOTSUPP),
        ("drawctxt_destroy", {"drawctxt_id": 1 << 20}, errno.EINVAL),
        ("waittimestamp_ctxtid", {"context_id": 1 << 20}, errno.EINVAL),
        ("readtimestamp_ctxtid", {"context_id": 1 << 20}, errno.EINVAL),
        ("setproperty", {"type": 1}, errno.EINVAL),
        ("perfcounter_read", {"count": 0}, errno.EINVAL),
        ("map_user_mem", {"memtype": 2, "len": 0}, errno.EINVAL),
        ("map_user_mem", {"memtype": 2, "len": 4096, "hostptr": 4097}, errno.EINVAL),
        ("map_user_mem", {"memtype": 2, "len": 4096, "hostptr": 4096}, errno.EFAULT),
        ("gpuobj_import", {"type": 5}, errno.EOPNOTSUPP),
    ],
)
def test_what_is_refused(name: str, values: dict[str, int], number: int) -> None:
    with client() as one:
        _fails(number, lambda: one.call(name, **values))


@pytest.mark.parametrize("request_", [0xC0180901, 0xC0180902 + 0x10000, 0xC0180A02, 0xC01809FF])
def test_requests_that_are_none(request_: int) -> None:
    with client() as one:
        _fails(errno.ENOTTY, lambda: one.world.ioctl(one.fd, request_, bytearray(64)))


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ({"context_id": 1 << 20}, errno.EINVAL), ({"numcmds": 0}, errno.EINVAL),
        ({"cmdsize": 64}, errno.EINVAL), ({"cmdlist": 64}, errno.EFAULT),
        ({"flags": 0x400}, errno.EINVAL), ({"flags": 0x1000}, errno.EINVAL),
        ({"numsyncs": 33}, errno.EINVAL),
    ],
)  # fmt: skip
def test_submissions_that_are_refused(values: dict[str, int], number: int) -> None:
    with client() as one:
        block = one.alloc(4096)
        _fails(number, lambda: one.command([(block.va, 4)], **values))


@pytest.mark.parametrize(
    ("va", "nbytes"), [(0, 0), (0, 1 << 22), (0, 1 << 23), (1, 4), (1 << 41, 4)]
)
def test_indirect_buffers_that_are_refused(va: int, nbytes: int) -> None:
    with client() as one:
        block = one.alloc(4096)
        _fails(errno.EINVAL, lambda: one.command([(block.va + va, nbytes)]))


def test_timestamps_wrap() -> None:
    with client() as one:
        context = one.world.kgsl.contexts.get(one.context)
        context.queued = context.retired = context.started = 0xFFFFFFFE
        stamps = [one.submit(type7(NOP)) for _ in range(4)]
        check(stamps == [0xFFFFFFFF, 0, 1, 2], str(stamps))
        for stamp in stamps:
            one.wait(stamp)
        _fails(errno.EINVAL, lambda: one.wait(3))


def test_timestamps_of_the_process_are_after_each_other() -> None:
    with client(flags=0x92) as one:
        block = one.alloc(4096)
        block.words[0] = type7(NOP)[0]
        check(one.command([(block.va, 4)], timestamp=5) == 5)
        _fails(errno.ERANGE, lambda: one.command([(block.va, 4)], timestamp=5))
        one.wait(5)


def test_a_fence_signals_with_its_timestamp() -> None:
    with client() as one:
        block = one.alloc(4096)
        stamp = one.submit(type7(WAIT_MEM_GTE, 0, *halves(block.va), 1))
        room = np.zeros(1, np.int32)
        one.call("timestamp_event", type=2, timestamp=stamp, context_id=one.context,
                 priv=room.ctypes.data, len=4)  # fmt: skip
        fd = int(room[0])
        check(not one.world.poll(fd, 0.0))
        block.words[0] = 1
        check(one.world.poll(fd, 1.0))
        one.world.close(fd)


def test_a_context_that_waits_for_another() -> None:
    with client() as one:
        block = one.alloc(4096)
        first = one.submit(type7(WAIT_MEM_GTE, 0, *halves(block.va), 1))
        other = one.call("drawctxt_create", flags=0x12 | 4 << 12).drawctxt_id
        point = np.frombuffer(struct.pack("<II", one.context, first), np.uint8)
        sync = np.frombuffer(struct.pack("<QQQ", point.ctypes.data, 8, 0), np.uint8)
        write = one.alloc(4096)
        words = type7(MEM_WRITE, *halves(write.va + 256), 3)
        write.words[: len(words)] = words
        stamp = one.command(
            [(write.va, 4 * len(words))], context_id=other, synclist=sync.ctypes.data,
            syncsize=24, numsyncs=1,
        )  # fmt: skip
        check(write.words[64] == 0)
        block.words[0] = 1
        one.call("waittimestamp_ctxtid", context_id=other, timestamp=stamp, timeout=100)
        check(write.words[64] == 3)


def test_a_context_that_waits_does_not_hold_up_another() -> None:
    with client() as one:
        other = one.call("drawctxt_create", flags=0x12).drawctxt_id
        future = one.world.kgsl.contexts.get(other)
        future.queued = 1
        point = np.frombuffer(struct.pack("<II", other, 1), np.uint8)
        sync = np.frombuffer(struct.pack("<QQQ", point.ctypes.data, 8, 0), np.uint8)
        stream = one.alloc(4096)
        stream.words[0] = type7(NOP)[0]
        stamp = one.command([(stream.va, 4)], synclist=sync.ctypes.data, syncsize=24, numsyncs=1)
        future.queued = 0
        check(one.retired() == stamp - 1)
        check(one.command([(stream.va, 4)], context_id=other) == 1)
        one.wait(stamp)


@pytest.mark.parametrize("coherent", [True, False])
def test_cached_memory_needs_syncs(coherent: bool) -> None:
    with client(options=AdrenoOptions(coherent=coherent)) as one:
        block = one.alloc(4096, CPU_MAP | WRITE_BACK | 1 << 31)
        check(bool(block.flags >> 31) == coherent)
        stream = one.alloc(4096)
        words = type7(0x73, 0, *halves(block.va + 64), *halves(block.va))
        block.words[0] = 5
        one.submit(words, stream)
        check(one.world.kgsl.objects.by_id[block.id].memory.dram[64] == (5 if coherent else 0))
        one.sync(block.id, 1)
        one.submit(words, stream)
        check(one.world.kgsl.objects.by_id[block.id].memory.dram[64] == 5)
        check(int(block.words[16]) == (5 if coherent else 0))
        one.sync(block.id, 2)
        check(int(block.words[16]) == 5)


def test_a_clean_writes_dirty_lines_alone() -> None:
    with client() as one:
        block = one.alloc(4096, CPU_MAP | WRITE_BACK)
        one.submit(type7(MEM_WRITE, *halves(block.va + 128), 9))
        block.words[0] = 5
        one.sync(block.id, 1)
        one.sync(block.id, 2)
        check((int(block.words[0]), int(block.words[32])) == (5, 9))


def test_memory_of_the_process_is_imported() -> None:
    with client() as one:
        own = one.world.mmap(-1, 8192)
        own.write(0, b"\1\0\0\0")
        flags = CPU_MAP | WRITE_BACK
        made = one.call("map_user_mem", memtype=2, hostptr=own.cpu_va, len=8192, flags=flags)
        check(made.gpuaddr == own.cpu_va)
        one.submit(type7(0x73, 0, *halves(made.gpuaddr + 64), *halves(made.gpuaddr)))
        one.sync(next(o.id for o in one.world.kgsl.objects if o.cpu_va == own.cpu_va), 2, 0, 8192)
        check(own.read(64, 1) == b"\1")
        block = one.alloc(4096)
        _fails(errno.EFAULT, lambda: one.call(
            "map_user_mem", memtype=2, hostptr=block.va, len=4096))  # fmt: skip
        one.call("sharedmem_free", gpuaddr=made.gpuaddr)
        own.close()


def test_the_state_of_a_reset_is_read_once() -> None:
    with client(clean=False) as one:
        one.submit([0])
        one.wait(1)
        for expected in (abi.GUILTY, abi.NO_ERROR):
            value = np.array([one.context], np.uint32)
            one.call("getproperty", type=9, value=value.ctypes.data, sizebytes=4)
            check(int(value[0]) == expected)
        one.wait(one.submit(type7(NOP)))


def test_a_context_without_fault_tolerance_dies() -> None:
    with client(clean=False, flags=0x212) as one:
        good = one.submit(type7(NOP))
        one.wait(good)
        one.submit([0])
        _fails(errno.EDEADLK, lambda: one.submit(type7(NOP)))
        _fails(errno.EDEADLK, lambda: one.wait(good))
        one.call("drawctxt_destroy", drawctxt_id=one.context)
        one.context = one.call("drawctxt_create", flags=0x212).drawctxt_id
        one.wait(one.submit(type7(NOP)))


def test_all_is_given_back() -> None:
    with client() as one:
        before = one.world.baseline()
        blocks = [one.alloc(4096 * (1 + n % 3)) for n in range(49)]
        contexts = [one.call("drawctxt_create", flags=0x12).drawctxt_id for _ in range(17)]
        for block in blocks:
            one.call("gpuobj_free", id=block.id)
        check(one.world.baseline().dram_bytes > before.dram_bytes)
        for block in blocks:
            block.region.close()
        for number in contexts:
            one.call("drawctxt_destroy", drawctxt_id=number)
        check(one.world.baseline() == before, f"{one.world.baseline()} {before}")


def test_processes_have_addresses_and_contexts_of_their_own() -> None:
    with client() as one:
        other = Client(another_qcom_process(one.world))
        block = other.alloc(4096)
        _fails(errno.EINVAL, lambda: one.command([(block.va, 4)]))
        _fails(errno.EINVAL, lambda: one.command([(block.va, 4)], context_id=other.context))
        other.world.kill()
        one.wait(one.submit(type7(EVENT_WRITE, 49)))


def test_two_hundred_contexts_are_the_most() -> None:
    with client() as one:
        for _ in range(199):
            one.call("drawctxt_create", flags=0x12)
        _fails(errno.ENOSPC, lambda: one.call("drawctxt_create", flags=0x12))
