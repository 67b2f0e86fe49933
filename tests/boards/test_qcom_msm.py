"""The msm driver's requests as the Adreno board has them: each rule is broken once."""

from __future__ import annotations

import errno
import gc
import struct
from collections.abc import Callable

import numpy as np
import pytest

from boards.qcom.msm import abi
from tests.qcom_boards import halves, type7
from tests.qcom_msm import MsmClient, msm_client
from tests.support import check

MEM_WRITE, WAIT_MEM_GTE, NOP = 0x3D, 0x14, 0x10
REQUESTS = {
    "get_param": 0xC0186440, "set_param": 0x40186441, "gem_new": 0xC0106442,
    "gem_info": 0xC0186443, "gem_cpu_prep": 0x40186444, "gem_submit": 0xC0486446,
    "wait_fence": 0x40206447, "submitqueue_new": 0xC00C644A, "submitqueue_close": 0x4004644B,
    "version": 0xC0406400, "gem_close": 0x40086409, "syncobj_create": 0xC00864BF,
}  # fmt: skip
"""# src: notes section 1b, numbers that a compiler made of Linux's msm_drm.h and drm.h"""


def _fails(number: int, does: Callable[[], object]) -> None:
    with pytest.raises(OSError, match=rf"Errno {number}\]"):
        does()


@pytest.mark.parametrize("name", REQUESTS)
def test_numbers_are_those_of_the_header(name: str) -> None:
    (call,) = [call for call in abi.CALLS if call.name == name]
    check(call.request == REQUESTS[name], f"{call.request:#x}")


@pytest.mark.parametrize(
    ("chip", "param", "value"),
    [
        ("a630", 1, 630), ("a740", 1, 0), ("a630", 2, 1 << 20), ("a630", 3, 0x06030001),
        ("x1-85", 3, 0xFFFF43050C01), ("a630", 6, 0x100000), ("a660", 6, 0), ("a630", 9, 0),
        ("a630", 0xE, 1 << 32), ("a630", 0xF, 4 << 30), ("a660", 0xF, 16 << 30),
    ],
)  # fmt: skip
def test_parameters(chip: str, param: int, value: int) -> None:
    with msm_client(chip) as one:
        check(one.call("get_param", pipe=0x10, param=param).value == value)


def test_the_drivers_name() -> None:
    with msm_client() as one:
        room = np.zeros(16, np.uint8)
        found = one.call("version", name_len=16, name=room.ctypes.data)
        check((found.major, found.name_len) == (1, 3) and room.tobytes()[:4] == b"msm\0")


@pytest.mark.parametrize(
    ("name", "values", "number"),
    [
        ("get_param", {"pipe": 1, "param": 1}, errno.EINVAL),
        ("get_param", {"pipe": 0x10, "param": 0x77}, errno.EINVAL),
        ("set_param", {"pipe": 0x10, "param": 0xB, "value": 1}, errno.EPERM),
        ("set_param", {"pipe": 0x10, "param": 0x16, "value": 1}, errno.EINVAL),
        ("gem_new", {"size": 0, "flags": 0x20000}, errno.EINVAL),
        ("gem_new", {"size": 4096}, errno.EINVAL),
        ("gem_new", {"size": 4096, "flags": 0x20004}, errno.EINVAL),
        ("gem_new", {"size": (4 << 30) - 4096, "flags": 0x20000}, errno.ENOMEM),
        ("gem_info", {"handle": 9}, errno.ENOENT),
        ("gem_info", {"handle": 9, "info": 1, "len": 8}, errno.EINVAL),
        ("gem_close", {"handle": 9}, errno.EINVAL),
        ("gem_cpu_prep", {"handle": 9}, errno.ENOENT),
        ("gem_cpu_prep", {"handle": 9, "op": 0x20}, errno.EINVAL),
        ("submitqueue_new", {"prio": 3}, errno.EINVAL),
        ("submitqueue_new", {"flags": 4}, errno.EINVAL),
        ("submitqueue_close", {"id": 0}, errno.ENOENT),
        ("submitqueue_close", {"id": 9}, errno.ENOENT),
        ("wait_fence", {"fence": 1}, errno.EINVAL),
        ("wait_fence", {"queueid": 9}, errno.ENOENT),
        ("gem_submit", {"flags": 0x10, "queueid": 9}, errno.ENOENT),
        ("gem_submit", {"flags": 0x11}, errno.EINVAL),
        ("gem_submit", {"flags": 0x10, "pad": 1}, errno.EINVAL),
        ("gem_submit", {"flags": 0x10 | 1 << 28}, errno.EINVAL),
        ("syncobj_create", {"flags": 4}, errno.EINVAL),
        ("syncobj_destroy", {"handle": 5}, errno.EINVAL),
        ("vm_bind", {"nr_ops": 1}, errno.EINVAL),
    ],
)
def test_what_is_refused(name: str, values: dict[str, int], number: int) -> None:
    with msm_client() as one:
        _fails(number, lambda: one.call(name, **values))


@pytest.mark.parametrize(
    ("bo", "command", "number"),
    [
        ((0, 1), {}, errno.EINVAL), ((0x10, 1), {}, errno.EINVAL), ((1, 9), {}, errno.EINVAL),
        ((1, 1), {"type": 4}, errno.EINVAL), ((1, 1), {"size": 6}, errno.EINVAL),
        ((1, 1), {"size": 0}, errno.EINVAL), ((1, 1), {"size": 8192}, errno.EINVAL),
        ((1, 1), {"submit_idx": 1}, errno.EINVAL), ((1, 1), {"submit_offset": 4096}, errno.EINVAL),
    ],
)  # fmt: skip
def test_submissions_that_are_refused(
    bo: tuple[int, int], command: dict[str, int], number: int
) -> None:
    with msm_client() as one:
        one.alloc(4096)
        bos = np.frombuffer(struct.pack("<IIQ", *bo, 0), np.uint8)
        data = bytearray(abi.SUBMIT_CMD.nbytes)
        args = abi.SUBMIT_CMD.load(data)
        for member, value in {"type": 1, "size": 4, **command}.items():
            setattr(args, member, value)
        abi.SUBMIT_CMD.store(data, args)
        held = np.frombuffer(bytes(data), np.uint8)
        _fails(number, lambda: one.call(
            "gem_submit", flags=0x10, queueid=one.queue, nr_bos=1, bos=bos.ctypes.data, nr_cmds=1,
            cmds=held.ctypes.data))  # fmt: skip
        check(one.world.gpus[0].engine.jobs == [])


def _write(va: int, value: int) -> list[int]:
    return type7(MEM_WRITE, *halves(va), value)


@pytest.mark.parametrize("listed", [True, False])
def test_only_what_is_listed_is_mapped(listed: bool) -> None:
    with msm_client(clean=listed) as one:
        stream, block = one.alloc(4096), one.alloc(4096)
        found = one.submit(_write(block.va, 7), [block] if listed else [], stream)
        one.wait(found.fence)
        check(int(block.words[0]) == (7 if listed else 0))
        faults = one.call("get_param", pipe=0x10, param=9).value
        check(faults == int(not listed), f"{faults} faults")


def test_fences_and_their_files() -> None:
    with msm_client() as one:
        stream, block = one.alloc(4096), one.alloc(4096)
        wait = type7(WAIT_MEM_GTE, 0, *halves(block.va), 1)
        found = one.submit(wait, [block], stream, flags=0x10 | 1 << 29)
        check(not one.world.poll(found.fence_fd, 0.0))
        _fails(errno.ETIMEDOUT, lambda: one.wait(found.fence, 0.1))
        _fails(errno.EBUSY, lambda: one.call("gem_cpu_prep", handle=block.id, op=6))
        block.words[0] = 1
        one.wait(found.fence)
        check(one.world.poll(found.fence_fd, 0.0))
        one.call("gem_cpu_prep", handle=block.id, op=6)


def test_a_submission_waits_for_a_file() -> None:
    with msm_client() as one:
        first, second, flag, out = (one.alloc(4096) for _ in range(4))
        wait = type7(WAIT_MEM_GTE, 0, *halves(flag.va), 1)
        found = one.submit(wait, [flag], first, flags=0x10 | 1 << 29)
        again = one.submit(_write(out.va, 3), [out], second, flags=0x10 | 1 << 30,
                           fence_fd=found.fence_fd)  # fmt: skip
        check(out.words[0] == 0)
        flag.words[0] = 1
        one.wait(again.fence)
        check(out.words[0] == 3)


def test_implicit_synchronisation() -> None:
    with msm_client() as one:
        first, second, flag, out = (one.alloc(4096) for _ in range(4))
        wait = type7(WAIT_MEM_GTE, 0, *halves(flag.va), 1)
        one.submit(wait, [flag, out], first)
        last = one.submit(_write(out.va, 3), [out], second)
        check(out.words[0] == 0)
        flag.words[0] = 1
        one.wait(last.fence)
        check(out.words[0] == 3)


def test_submissions_that_ended_leave_no_fences() -> None:
    """An object has one of each queue. # src: Linux 6.12, drivers/dma-buf/dma-resv.c"""
    with msm_client() as one:
        out, stream = one.alloc(4096), one.alloc(4096)
        before = len(gc.get_objects())
        for number in range(200):
            last = one.submit(_write(out.va, number), [out], stream)
        one.wait(last.fence)
        check(int(out.words[0]) == 199, str(out.words[0]))
        grown = len(gc.get_objects()) - before
        check(grown < 100, f"{grown} more objects after 200 submissions")


def test_sync_objects_with_points() -> None:
    with msm_client() as one:
        stream, block = one.alloc(4096), one.alloc(4096)
        handle = one.call("syncobj_create").handle
        item = np.frombuffer(struct.pack("<IIQ", handle, 0, 5), np.uint8)
        wait = type7(WAIT_MEM_GTE, 0, *halves(block.va), 1)
        one.submit(wait, [block], stream, flags=0x10 | 1 << 26, out_syncobjs=item.ctypes.data,
                   nr_out_syncobjs=1, syncobj_stride=16)  # fmt: skip
        handles, points = np.array([handle], np.uint32), np.array([5], np.uint64)
        given = {"handles": handles.ctypes.data, "points": points.ctypes.data, "count_handles": 1}
        _fails(errno.ETIME, lambda: one.call("syncobj_timeline_wait", **given))
        block.words[0] = 1
        until = int(one.world.monotonic_s() * 1e9) + 10**9
        one.call("syncobj_timeline_wait", **given, timeout_nsec=until)
        one.call("syncobj_query", **given)
        check(int(points[0]) == 5)


def test_a_hang_is_counted() -> None:
    with msm_client(clean=False) as one:
        stream, block = one.alloc(4096), one.alloc(4096)
        found = one.submit(type7(WAIT_MEM_GTE, 0, *halves(block.va), 1), [block], stream)
        one.wait(found.fence, 2.0)
        check(one.call("get_param", pipe=0x10, param=9).value == 1)
        room = np.zeros(1, np.uint32)
        one.call("submitqueue_query", data=room.ctypes.data, id=one.queue, len=4)
        check(int(room[0]) == 1 and "hangcheck" in one.world.hardware.log[0])
        one.wait(one.submit(_write(block.va, 7), [block], stream).fence)
        check(int(block.words[0]) == 7)


def test_addresses_that_the_process_chooses() -> None:
    with msm_client() as one:
        block = one.alloc(4096, address=False)
        one.call("gem_info", handle=block.id, info=4, value=0x1_5000_0000)
        check(one.call("gem_info", handle=block.id, info=1).value == 0x1_5000_0000)
        other = one.alloc(4096, address=False)
        _fails(errno.EBUSY, lambda: one.call(
            "gem_info", handle=other.id, info=4, value=0x1_5000_0000))  # fmt: skip
        _fails(errno.EINVAL, lambda: one.call("gem_info", handle=other.id, info=4, value=4096))
        one.call("gem_info", handle=block.id, info=4, value=0)
        one.call("gem_info", handle=other.id, info=4, value=0x1_5000_0000)


def test_shared_memory_comes_back_as_the_same_handle() -> None:
    with msm_client() as one:
        block = one.alloc(4096)
        fd = one.call("prime_handle_to_fd", handle=block.id).fd
        check(one.call("prime_fd_to_handle", fd=fd).handle == block.id)
        other = MsmClient(one.world)
        handle = other.call("prime_fd_to_handle", fd=fd).handle
        va = other.call("gem_info", handle=handle, info=1).value
        stream = other.alloc(4096)
        shared = type(block)(handle, va, block.region, 0)
        other.wait(other.submit(_write(va, 4), [shared], stream).fence)
        check(int(block.words[0]) == 4)
        one.world.close(fd)


def _bind(one: MsmClient, **op: int) -> None:
    one.call("vm_bind", nr_ops=1, queue_id=one.queue,
             **{f"op_{name}": value for name, value in op.items()})  # fmt: skip


def test_mappings_of_the_processs_own() -> None:
    with msm_client("x1-85", vm_bind=True) as one:
        one.call("set_param", pipe=0x10, param=0x16, value=1)
        work, one.queue = one.queue, one.call("submitqueue_new", flags=2).id
        stream, block = (one.alloc(8192, address=False) for _ in range(2))
        _fails(errno.EINVAL, lambda: one.call("gem_info", handle=block.id, info=1))
        for bo, va in ((stream, 1 << 32), (block, 2 << 32)):
            _bind(one, op=1, handle=bo.id, iova=va, range=8192)
        _fails(errno.EINVAL, lambda: _bind(one, op=1, handle=block.id, iova=4096, range=4096))
        _fails(errno.EINVAL, lambda: _bind(one, op=1, handle=9, iova=1 << 32, range=100))
        _fails(errno.EINVAL, lambda: _bind(one, op=1, handle=9, iova=3 << 32, range=4096))
        words = [*_write(2 << 32, 5), *_write((2 << 32) + 4096, 6)]
        stream.words[: len(words)] = words
        binds, one.queue = one.queue, work
        command = struct.pack("<IIIIIIQ", 1, 0, 0, 4 * len(words), 0, 0, 1 << 32)
        held = np.frombuffer(command, np.uint8)
        given = {"flags": 0x10, "nr_cmds": 1, "cmds": held.ctypes.data, "queueid": work}
        one.wait(one.call("gem_submit", **given).fence)
        check((int(block.words[0]), int(block.words[1024])) == (5, 6))
        one.queue = binds
        _fails(errno.EINVAL, lambda: one.call("gem_submit", **{**given, "queueid": binds}))
        _bind(one, op=0, iova=(2 << 32) + 4096, range=4096)
        one.call("gem_submit", **given)
        check(len(one.world.hardware.log) == 1 and "200001000" in one.world.hardware.log[0])
        one.world.hardware.log.clear()


def test_all_is_given_back() -> None:
    with msm_client() as one:
        before = one.world.baseline()
        blocks = [one.alloc(4096 * (1 + n % 3)) for n in range(49)]
        queues = [one.call("submitqueue_new", prio=n % 3).id for n in range(17)]
        for block in blocks:
            one.call("gem_close", handle=block.id)
            block.region.close()
        for number in queues:
            one.call("submitqueue_close", id=number)
        check(one.world.baseline() == before, f"{one.world.baseline()} {before}")
