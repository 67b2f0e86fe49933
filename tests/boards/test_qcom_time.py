"""What an Adreno board does as an option: page faults as silicon has them, hangs by counted work,
a counter that begins again, each over both kernel drivers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from boards.qcom.cp.processor import Machine
from boards.qcom.hardware import KGSL, MSM, SILENT, AdrenoOptions
from boards.qcom.power import IDLE_MS
from tests.qcom_boards import NOP, client, halves, type7
from tests.qcom_devices import QcomMachine, opened
from tests.qcom_msm import msm_client
from tests.reliability.qcom_scene import NOWHERE, N, binary
from tests.support import check

MEM_WRITE, MEM_TO_MEM = 0x3D, 0x73
CHIPS = {KGSL: "a630", MSM: "a660"}
ALWAYS_ON_HZ = 19_200_000


def _out(device: Any, buffer: Any) -> list[int]:
    out = np.zeros(N, np.int32)
    device.copy_out(memoryview(out), buffer)
    found: list[int] = out.tolist()
    return found


@pytest.mark.parametrize("iface", [KGSL, MSM])
def test_a_silent_page_fault_of_a_kernel(iface: str) -> None:
    """c = 3 a + b: a stray `a` is read as 0, a stray `c` vanishes, and the submission ends well.

    # src: KGSL_FT_PAGEFAULT_DEFAULT_POLICY 0; Linux adreno_gpu.c adreno_fault_handler()
    """
    machine = QcomMachine(CHIPS[iface], iface, page_faults=SILENT)
    with opened(machine, iface) as device:
        program, a, c = device.load(binary(device)), device.alloc(N * 4), device.alloc(N * 4)
        device.copy_in(a, memoryview(np.full(N, 5, np.int32)))
        device.launch(program, [NOWHERE, a, c], 1)
        device.launch(program, [a, a, NOWHERE], 1)
        device.synchronize()
        check(_out(device, c) == [5] * N)
    log = [line for line in machine.hardware.log if "gpu fault" in line]
    check(any("read" in line for line in log) and any("write" in line for line in log), str(log))
    check(machine.hardware.gpus[0].faults == 0 and not machine.found())


def test_a_silent_page_fault_of_the_command_processor() -> None:
    with client(options=AdrenoOptions(page_faults=SILENT)) as one:
        block = one.alloc(4096)
        block.words[0] = 9
        one.wait(one.submit([
            *type7(MEM_WRITE, *halves(NOWHERE), 1),
            *type7(MEM_TO_MEM, 0, *halves(block.va), *halves(NOWHERE)),
        ]))  # fmt: skip
        check(int(block.words[0]) == 0 and len(one.world.hardware.log) == 2)


def test_no_counter_of_msm_grows_with_a_silent_page_fault() -> None:
    options = AdrenoOptions(iface=MSM, page_faults=SILENT)
    with msm_client(options=options, clean=False) as one:
        stream = one.alloc(4096)
        one.wait(one.submit(type7(MEM_WRITE, *halves(NOWHERE), 1), [], stream).fence)
        check(one.call("get_param", pipe=0x10, param=9).value == 0)
        room = np.zeros(1, np.uint32)
        one.call("submitqueue_query", data=room.ctypes.data, id=one.queue, len=4)
        check(int(room[0]) == 0 and "gpu fault" in one.world.hardware.log[0])


def test_packets_that_are_not_there_stop_the_processor() -> None:
    """What is read there is 0, which is no packet."""
    options = AdrenoOptions(iface=MSM, page_faults=SILENT)
    with msm_client(options=options, clean=False) as one:
        stream = one.alloc(4096)
        one.wait(one.submit(type7(0x3F, *halves(NOWHERE), 4), [], stream).fence)
        check("hangcheck" in one.world.hardware.log[-1], one.world.hardware.log[-1])


# Work that takes time


@contextmanager
def _counted(iface: str, release: str, seconds: float) -> Iterator[tuple[Any, QcomMachine]]:
    """A device on a board where the kernel of `binary` takes about `seconds`."""
    spent: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "spend", lambda self, cycles: spent.append(cycles) or 0.0)
        with opened(QcomMachine(CHIPS[iface], iface), iface) as device:
            _launch(device)
    slots = max(1, int(sum(spent) / seconds))
    machine = QcomMachine(CHIPS[iface], iface, kernel=release, issues_per_s=slots)
    with opened(machine, iface) as device:
        yield device, machine


def _launch(device: Any) -> None:
    a = device.alloc(N * 4)
    device.launch(device.load(binary(device)), [a, a, a], 1)
    device.synchronize()


@pytest.mark.parametrize(
    ("iface", "release", "seconds", "killed"),
    [
        (MSM, "5.15", 0.4, False), (MSM, "5.15", 0.6, True),
        (MSM, "6.1", 0.2, False), (MSM, "6.1", 0.3, True), (MSM, "7.3", 0.3, True),
        (KGSL, "4.9", 60.0, False),
    ],
)  # fmt: skip
def test_a_long_dispatch(iface: str, release: str, seconds: float, killed: bool) -> None:
    """msm ends it; KGSL spares contexts with NO_FAULT_TOLERANCE, which the driver's are."""
    with _counted(iface, release, seconds) as (device, machine):
        before = machine.hardware.gpus[0].faults
        try:
            _launch(device)
        except Exception as error:
            check(killed and "ms" in "".join(machine.hardware.log), str(error))
        check((machine.hardware.gpus[0].faults > before) == killed)


# The counter


def _count_kgsl(one: Any) -> int:
    group = np.zeros(16, np.uint8)
    group[:4] = np.frombuffer((0x1B).to_bytes(4, "little"), np.uint8)
    one.call("perfcounter_read", reads=group.ctypes.data, count=1)
    return int.from_bytes(group[8:16].tobytes(), "little")


def test_the_counter_begins_again_over_kgsl() -> None:
    with client(options=AdrenoOptions(suspends=True)) as one:
        one.wait(one.submit(type7(NOP)))
        one.world.sleep(0.9 * IDLE_MS / 1000)
        before = _count_kgsl(one)
        one.world.sleep(1.1 * IDLE_MS / 1000)
        check(_count_kgsl(one) < before)
        check(_count_kgsl(one) < ALWAYS_ON_HZ)


def test_suspends_are_counted_over_msm() -> None:
    with msm_client(options=AdrenoOptions(iface=MSM, suspends=True)) as one:
        stream = one.alloc(4096)

        def read(param: int) -> int:
            found: int = one.call("get_param", pipe=0x10, param=param).value
            return found

        one.wait(one.submit(type7(NOP), [], stream).fence)
        check(read(0xA) == 0)
        one.world.sleep(1.0)
        check((read(0xA), read(0xA)) == (1, 1))
        first = read(5)
        check(first < ALWAYS_ON_HZ)
        one.world.sleep(0.01)
        check(read(5) > first and read(0xA) == 1)


def test_without_the_option_it_never_does() -> None:
    with msm_client() as one:
        one.world.sleep(5.0)
        with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\]"):
            one.call("get_param", pipe=0x10, param=0x77)
        check(one.call("get_param", pipe=0x10, param=0xA).value == 0)
