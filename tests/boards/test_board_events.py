"""Events and faults of the board's KFD process: what a driver gets to see of them."""

from __future__ import annotations

import errno
import struct
import time
from types import SimpleNamespace

import numpy as np

from boards.amd.cp.engine_types import PacketFault
from boards.amd.wave.types import MemoryFault, WaveFault
from tests.boards.board_driver import (
    DEVICE_MEMORY,
    PAGE,
    SIGNALS,
    Driver,
    Options,
    Waiting,
    fails,
    words,
)
from tests.support import check

COMPLETE, TIMEOUT = 0, 1


def test_signal_events() -> None:
    driver = Driver()
    events = Waiting(driver)
    first, second = events.create(0), events.create(0)
    check((first, second) == (1, 2), "slot 0 is nobody's")
    page, host = words(events.page.region).view(np.uint64), driver.device().host
    check(int(page[first]) == 2**64 - 1)
    page[first] = first
    host.interrupt(first)
    check(int(page[first]) == 2**64 - 1, "the kernel takes the signal out of its slot")
    check(events.wait(first, second)[0] == COMPLETE)
    before, real = driver.world.monotonic_s(), time.monotonic()
    check(events.wait(first, second, timeout=5000)[0] == TIMEOUT)
    check(driver.world.monotonic_s() - before >= 5)
    check(time.monotonic() - real < 4, "a wait for nothing took real time")
    driver.call("set_event", first)
    check(events.wait(first, second, every=1, timeout=1)[0] == TIMEOUT)
    driver.call("set_event", first)
    driver.call("reset_event", first)
    check(events.wait(first, timeout=0)[0] == TIMEOUT)
    process = driver.world.process
    driver.device().engines.on_pump = lambda: process.events.signal(second, value=True)
    driver.create_queue(driver.queue_parts(), 1)
    check(events.wait(second)[0] == COMPLETE, "an engine that runs while one waits")
    driver.device().engines.on_pump = None
    host.interrupt(77)
    check(driver.world.violations[-1].kind == "interrupt of no event")


def test_an_event_wakes_everyone_who_waits() -> None:
    """src: set_event(): all waiters are activated, and with some it resets itself.

    Two threads of a client wait in real time; a call that only asks would lose one of them.
    """
    driver = Driver()
    event = Waiting(driver).create(0)
    process, calls = driver.world.process, []
    memory = np.zeros((2, 6), np.uint64)  # src: kfd_ioctl.h struct kfd_event_data: 48 bytes
    memory[:, 5] = event
    for entry in memory:
        args = SimpleNamespace(
            events_ptr=entry.ctypes.data, num_events=1, wait_for_all=0, timeout=9, wait_result=7
        )
        calls.append((process.events.enlist(args), args))
    check(not any(waiting.met() for waiting, _ in calls))
    driver.call("set_event", event)
    check(all(waiting.met() for waiting, _ in calls), "one was forgotten")
    for waiting, args in calls:
        process.events.settle(waiting, args)
        check(args.wait_result == COMPLETE)
    late = SimpleNamespace(events_ptr=memory.ctypes.data, num_events=1, wait_for_all=0, timeout=0)
    waiting = process.events.enlist(late)
    process.events.settle(waiting, late)
    check(late.wait_result == TIMEOUT, "it was reset")


def test_an_older_age_is_news() -> None:
    """src: init_event_waiter(), copy_signaled_event_data(): last_event_age, in and out."""
    driver = Driver()
    events = Waiting(driver)
    event, data = events.create(0), np.zeros(6, np.uint64)
    data[5] = event

    def wait(age: int) -> tuple[int, int]:
        data[0] = age
        return driver.call("wait_events", data.ctypes.data, 1, 0, 0, 0)[4], int(data[0])

    check(wait(1) == (TIMEOUT, 1), "a new event is of age 1")
    driver.call("set_event", event)
    check(wait(1) == (COMPLETE, 2) and wait(1) == (COMPLETE, 2), "although it has reset itself")
    check(wait(2) == (TIMEOUT, 2) and wait(0) == (TIMEOUT, 0), "0 asks for no age")


def test_results_need_memory_that_the_process_may_write() -> None:
    """src: copy_signaled_event_data(), kfd_ioctl_get_process_apertures_new(): copy_to_user()"""
    driver = Driver()
    event = Waiting(driver).create(0)
    region = driver.world.mmap(-1, PAGE)
    data = words(region).view(np.uint64)
    data[5], data[6 + 5] = event, event
    data[0] = 1  # its age
    driver.world.protect(region, write=False, execute=False)
    driver.call("set_event", event)
    fails(errno.EFAULT, driver.call, "wait_events", region.cpu_va, 1, 0, 0, 0)
    driver.call("set_event", event)
    without_age = region.cpu_va + 48
    result = driver.call("wait_events", without_age, 1, 0, 0, 0)
    check(result[4] == COMPLETE, "nothing is stored, so nothing fails")
    fails(errno.EFAULT, driver.call, "get_process_apertures_new", region.cpu_va, 1)
    driver.world.protect(region, write=True, execute=False)
    driver.call("get_process_apertures_new", region.cpu_va, 1)
    check(int(data[0]) != 1, "the apertures are there")


def test_event_calls_are_checked() -> None:
    driver = Driver()
    events = Waiting(driver)
    vram = driver.buffer(0x8000, DEVICE_MEMORY)
    fails(errno.EINVAL, driver.call, "create_event", vram.handle, 0, 0, 1)
    small = driver.buffer(PAGE, SIGNALS)
    fails(errno.EINVAL, driver.call, "create_event", small.handle, 0, 0, 1)
    signal, memory = events.create(0), events.create(8)
    fails(errno.EINVAL, driver.call, "create_event", events.page.handle, 0, 0, 1)
    fails(errno.EINVAL, driver.call, "set_event", memory)
    fails(errno.EINVAL, driver.call, "set_event", 55)
    fails(errno.EINVAL, events.wait, 55)
    fails(errno.EFAULT, driver.call, "wait_events", 0x10, 1, 0, 5, 0)
    fails(errno.EINTR, events.wait, signal, timeout=0xFFFFFFFF)
    driver.unmap(events.page, 0)
    fails(errno.EPERM, driver.call, "free_memory_of_gpu", events.page.handle)
    driver.call("destroy_event", memory)
    fails(errno.EINVAL, driver.call, "destroy_event", memory)
    for _ in range(4094):
        driver.call("create_event", 0, 0, 0, 1)
    fails(errno.ENOSPC, driver.call, "create_event", 0, 0, 0, 1)


def test_two_interrupts_may_find_one_written_slot() -> None:
    driver = Driver()
    events = Waiting(driver)
    first, second = events.create(0), events.create(0)
    page, host = words(events.page.region).view(np.uint64), driver.device().host
    page[first] = first
    host.interrupt(first)
    host.interrupt(first)
    check(not driver.world.violations, "the first interrupt acknowledged both")
    host.interrupt(second)
    check(driver.world.violations[-1].kind == "interrupt of no event", "its slot was never written")


def test_an_event_page_comes_before_the_first_signal_event() -> None:
    driver = Driver()
    events = Waiting(driver)
    driver.call("create_event", 0, 0, 3)
    check(driver.call("create_event", 0, 0, 0)[5] == 1)
    fails(errno.EINVAL, driver.call, "create_event", events.page.handle, 0, 0)
    driver.device().host.interrupt(1)
    check(driver.world.violations[-1].kind == "interrupt of no event")


def test_page_faults_become_memory_exceptions() -> None:
    driver = Driver(vram_bytes=128 << 20)
    events = Waiting(driver)
    memory = events.create(8, auto_reset=1)
    driver.create_queue(driver.queue_parts())
    engines, gpu_id = driver.device().engines, driver.gpu_ids[0]
    # failure.NotPresent, ReadOnly, NoExecute, imprecise, va of the page, gpu_id, ErrorType
    for error, expected in (
        (MemoryFault("unmapped", "read", 0x1234_5678), (1, 0, 0, 0, 0x1234_5000, gpu_id, 0)),
        (MemoryFault("unmapped", "write", 0x5678), (1, 1, 0, 0, 0x5000, gpu_id, 0)),
        (MemoryFault("read-only", "write", 0x5678), (0, 1, 0, 0, 0x5000, gpu_id, 0)),
        (
            WaveFault("unmapped", pc=0x100, text="x", va=0x9010, access="read"),
            (1, 0, 0, 0, 0x9000, gpu_id, 0),
        ),
    ):
        engines.host.queue_fault(engines.specs[0], error)
        result, data = events.wait(memory)
        check(result == COMPLETE)
        check(struct.unpack_from("<IIIIQII", data[0]) == expected, str(error))
    driver.world.panel.page_fault(0xABCDE)
    check(struct.unpack_from("<Q", events.wait(memory)[1][0], 16)[0] == 0xAB000)
    check(driver.device().engines.specs[0].active)


def test_a_fault_can_stop_every_queue_as_the_kernel_does() -> None:
    driver = Driver(options=Options(gtt_bytes=1 << 24, evict_on_fault=True), vram_bytes=128 << 20)
    parts = driver.queue_parts()
    driver.create_queue(parts)
    driver.world.panel.page_fault(0x1000)
    check(not driver.device().engines.specs[0].active)
    driver.call("destroy_queue", 0)
    driver.create_queue(parts)
    check(not driver.device().engines.specs[0].active, "the eviction outlives the queue")
    driver.call("update_queue", parts.ring.va, 0, parts.ring.nbytes, 100, 7)
    check(not driver.device().engines.specs[0].active, "and UPDATE_QUEUE does not end it")


def test_other_faults_reach_the_save_areas_header() -> None:
    driver = Driver(vram_bytes=128 << 20)
    events = Waiting(driver)
    error_event = events.create(0)
    driver.call("runtime_enable", 0, 1)
    fails(errno.EBUSY, driver.call, "runtime_enable", 0, 1)
    parts = driver.queue_parts()
    buffers = driver.world.process.memory.buffers
    save = next(b for b in buffers if b.va == parts.save.va)
    at = parts.save.va - parts.save.place.cpu_va
    region = driver.world.mmap(
        driver.render[0], save.nbytes, save.offset, within=parts.save.place, at=at
    )
    payload = np.zeros(1, np.uint64)
    region.write(24, struct.pack("<QI", payload.ctypes.data, error_event))
    driver.create_queue(parts)
    engines = driver.device().engines
    engines.host.queue_fault(engines.specs[0], PacketFault("unknown opcode"))
    engines.host.queue_fault(engines.specs[0], WaveFault("illegal instruction", pc=0, text="?"))
    # src: kfd_ioctl.h EC_QUEUE_PACKET_UNSUPPORTED 20, EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION 4
    check(int(payload[0]) == 1 << 19 | 1 << 3)
    check(events.wait(error_event)[0] == COMPLETE)
    # src: kfd_ioctl.h EC_QUEUE_WAVE_ABORT 1, EC_QUEUE_WAVE_TRAP 2; trap_handler.s TRAP_ID_ABORT 2
    for number, code in ((2, 1), (5, 2)):
        payload[0] = 0
        trap = WaveFault("trap", pc=0, text=f"s_trap {number}", detail=f"trap {number}")
        engines.host.queue_fault(engines.specs[0], trap)
        check(int(payload[0]) == 1 << code - 1, f"s_trap {number}: {int(payload[0]):#x}")
        check(events.wait(error_event)[0] == COMPLETE)
    region.write(24, struct.pack("<QI", 0x10, error_event))
    engines.host.queue_fault(engines.specs[0], PacketFault("unknown opcode"))
    check(events.wait(error_event, timeout=0)[0] == TIMEOUT, "no memory of the process")
    driver.call("runtime_enable", 0, 0)
    fails(errno.EEXIST, driver.call, "runtime_enable", 0, 1)


def test_hangs_and_resets_become_hardware_exceptions() -> None:
    driver = Driver(vram_bytes=128 << 20)
    events = Waiting(driver)
    hardware, memory = events.create(3), events.create(8)
    parts = driver.queue_parts()
    driver.create_queue(parts)
    buffer = driver.buffer(PAGE)
    buffer.region.write(0, b"gone")
    driver.world.panel.hang(0)
    check(driver.device().engines.hung == {0})
    driver.call("destroy_queue", 0)
    # reset_type (0: the whole GPU, whatever it was), reset_cause (0: hang), memory_lost, gpu_id
    _, data = events.wait(hardware)
    check(struct.unpack_from("<IIII", data[0]) == (0, 0, 1, driver.gpu_ids[0]))
    check(not driver.device().engines.hung and buffer.region.read(0, 4) == b"gone")
    driver.create_queue(parts)
    driver.world.panel.gpu_reset()
    _, data = events.wait(hardware)
    check(struct.unpack_from("<IIII", data[0]) == (0, 0, 1, driver.gpu_ids[0]))
    check(buffer.region.read(0, 4) != b"gone")
    driver.world.panel.ecc()
    _, data = events.wait(hardware, memory, every=1)
    check(struct.unpack_from("<IIII", data[0]) == (0, 1, 1, driver.gpu_ids[0]))
    check(struct.unpack_from("<IIIIQII", data[1]) == (0, 0, 0, 1, 0, driver.gpu_ids[0], 1))
    driver.call("destroy_queue", 0)
    driver.create_queue(parts)
    check(not driver.device().engines.specs[0].active, "the kernel resumes no process")


def test_kernels_without_queue_reset_reset_the_gpu() -> None:
    options = Options(gtt_bytes=1 << 24, queue_reset=False)
    driver = Driver(options=options, vram_bytes=128 << 20)
    parts, buffer = driver.queue_parts(), driver.buffer(PAGE)
    buffer.region.write(0, b"gone")
    for number in (0, 1):
        driver.create_queue(parts)
        check(driver.device().engines.specs[number].active)
    driver.world.panel.hang(0)
    driver.call("destroy_queue", 0)
    check(not driver.device().engines.specs[1].active and driver.device().engines.hung == {1})
    check(buffer.region.read(0, 4) != b"gone")
