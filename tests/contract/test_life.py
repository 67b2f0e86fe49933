"""Devices from opening to close: threads, a child after fork, use after close."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from drivers.base.contracts import Device, Limits, Program
from drivers.base.errors import DeviceError, UseAfterFree
from tests.contract.arrays import get, put, ramp, refused
from tests.contract.conftest import COUNT
from tests.contract.devices import ABILITIES, DEVICES, Entry
from tests.contract.kernels import combine
from tests.contract.test_launches import WANTED, operands, whole
from tests.share import part
from tests.support import check
from tests.switching import switching_often

THREADS = 4


def test_a_device_says_what_it_is(device: Device) -> None:
    limits = device.limits
    check(device.name and device.arch and device.compilers, "its names")
    check({"int32", "float32"} <= limits.dtypes, f"{limits.dtypes}")
    check(limits.memory_bytes > 0 and limits.threads > 0 and limits.vector_bytes > 0, f"{limits}")
    check(all(most >= 1 for most in (*limits.max_grid, limits.max_block)), f"{limits}")
    check(limits.signal_bits in range(8, 65), f"{limits}")
    check(limits.wave_lanes <= limits.max_block, "a wave is part of a workgroup")
    check(isinstance(limits, Limits), "one class for all")


def test_close_and_everything_after_it(entry: Entry, own: Device) -> None:
    a, b, c = operands(own)
    mine = own.load(entry.build(combine(own.limits, COUNT), own))
    own.launch(mine, [a, b, c], whole(own))
    built, signal = own.compute_queue().exec(mine, [a, b, c]), own.new_signal()
    graph = own.compute_queue().exec(mine, [a, b, c]).bind()
    own.synchronize()
    own.close()
    own.close()
    uses: tuple[Callable[[], object], ...] = (
        lambda: own.alloc(4), lambda: own.load(entry.build(combine(own.limits, 1), own)),
        lambda: own.launch(mine, [a, b, c], 1), built.submit, graph.replay, own.new_signal,
        lambda: own.copy_in(a, memoryview(bytes(4))), own.synchronize,
        lambda: own.copy_out(memoryview(bytearray(4)), a),
        lambda: own.compute_queue().signal(signal, 1).submit(),
    )  # fmt: skip
    for number, use in enumerate(uses):
        try:
            use()
        except UseAfterFree as error:
            check(error.hint, f"use {number}: {error}")
        else:
            raise AssertionError(f"use {number} of a closed device went on")
    for held in (a, b, c):
        held.free()  # what is left may still be given back


def test_a_device_is_a_context(entry: Entry) -> None:
    with entry.open() as opened:
        check(opened.__enter__() is opened, "it enters itself")
        put(opened, ramp(4))
    with refused(UseAfterFree):
        opened.alloc(4)


def test_close_with_work_that_waits(entry: Entry, own: Device) -> None:
    """Work that will never run is dropped; a device may call it a hang, once, as it closes."""
    a, b, c = operands(own)
    mine = own.load(entry.build(combine(own.limits, COUNT), own))
    own.compute_queue().wait(own.new_signal(), 1).exec(mine, [a, b, c]).submit()
    own.close()


def test_threads_share_a_device(device: Device, program: Program) -> None:
    rounds, wrong = part(12, 4), []

    def work(number: int) -> None:
        try:
            for round_ in range(rounds):
                a, b = put(device, ramp(COUNT, number)), put(device, ramp(COUNT, round_))
                c = device.alloc(4 * COUNT)
                device.launch(program, [a, b, c], whole(device))
                np.testing.assert_array_equal(
                    get(device, c), 3 * ramp(COUNT, number) + ramp(COUNT, round_)
                )
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    with switching_often():
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    check(not wrong, f"{wrong}")


def test_a_child_after_fork(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    device.synchronize()
    child = os.fork()
    if not child:
        code = 9
        try:
            device.launch(program, [a, b, c], whole(device))
            code = 0 if (get(device, c) == WANTED).all() else 2
        except UseAfterFree:
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    wanted = 0 if device.limits.survives_fork else 1
    check(os.waitstatus_to_exitcode(status) == wanted, f"the child left with {status:#x}")
    device.launch(program, [a, b, c], whole(device))
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_errors_are_one_tree(device: Device) -> None:
    with pytest.raises(DeviceError):
        device.alloc(-1)
    with pytest.raises(ValueError, match="size"):
        device.alloc(-1)


def test_the_table_gives_reasons() -> None:
    for entry in DEVICES:
        check(set(entry.cannot) <= set(ABILITIES) and all(entry.cannot.values()), f"{entry}")
    check(len({entry.name for entry in DEVICES}) == len(DEVICES), "two of one name")
