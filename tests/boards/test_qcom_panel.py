"""The Adreno board's fault panel, late boards, and other descriptors."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import numpy as np
import pytest

from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from boards.qcom.panel import QcomPanel
from tests.qcom_boards import Client, client, halves, type7
from tests.qcom_msm import msm_client
from tests.support import check

NOP, MEM_WRITE = 0x10, 0x3D
FAULTS: dict[str, Callable[[QcomPanel], None]] = {
    "page fault": lambda panel: panel.page_fault(0x1000),
    "opcode error": lambda panel: panel.opcode_error(),
    "protected register": lambda panel: panel.protected_register(),
    "illegal instruction": lambda panel: panel.illegal_instruction(),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_over_kgsl(kind: str) -> None:
    with client(clean=False) as one:
        FAULTS[kind](one.world.panel)
        one.submit(type7(NOP))
        check(kind in one.world.hardware.log[-1], str(one.world.hardware.log))
        one.wait(one.submit(type7(NOP)))
        check(one.world.gpus[0].faults == 1)


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_over_msm(kind: str) -> None:
    with msm_client(clean=False) as one:
        stream = one.alloc(4096)
        FAULTS[kind](one.world.panel)
        one.wait(one.submit(type7(NOP), [], stream).fence)
        check(len(one.world.hardware.log) == 1)
        check(one.call("get_param", pipe=0x10, param=9).value == 1)


def test_a_hang_and_a_mute_firmware() -> None:
    with client(clean=False) as one:
        one.world.panel.hang(one.context)
        stamp = one.submit(type7(NOP))
        one.wait(stamp, 3000)
        check("no progress for 2000 ms" in one.world.hardware.log[-1])
        one.world.panel.mute()
        stamp = one.submit(type7(NOP))
        with pytest.raises(OSError, match="nothing for 100 ms"):
            one.wait(stamp, 100)
        one.world.panel.mute(off=False)
        one.wait(stamp, 100)


def test_requests_that_fail_when_told_to() -> None:
    with client() as one:
        one.world.panel.fail_ioctl(0xC0300945, errno.ENOMEM, at=2)
        one.call("gpuobj_alloc", size=4096)
        with pytest.raises(OSError, match=rf"Errno {errno.ENOMEM}\]"):
            one.call("gpuobj_alloc", size=4096)
        one.call("gpuobj_alloc", size=4096)
        check(one.world.panel.seen[-3:] == [0x45] * 3)


def test_a_process_that_is_killed_leaves_nothing() -> None:
    world = open_qcom_board("a630")
    one = Client(world)
    block = one.alloc(4096)
    one.submit(type7(0x14, 0, *halves(block.va), 1))
    block.region.close()
    world.panel.kill_process()
    check(world.gpus[0].engine.jobs == [])
    check(world.hardware.memory.free.used_bytes == 0)
    world.power_off()


def test_a_late_board_runs_when_the_process_waits() -> None:
    with client(options=AdrenoOptions(late=True)) as one:
        block, stream = one.alloc(4096), one.alloc(4096)
        stamp = one.submit(type7(MEM_WRITE, *halves(block.va), 3), stream)
        check(int(block.words[0]) == 0)
        one.wait(stamp)
        check(int(block.words[0]) == 3)


def test_nodes_of_each_kernel() -> None:
    for iface, there, gone in (
        ("KGSL", "/dev/kgsl-3d0", "/dev/dri/renderD128"),
        ("MSM", "/dev/dri/renderD128", "/dev/kgsl-3d0"),
    ):
        world = open_qcom_board("a630", options=AdrenoOptions(iface=iface))
        check(world.exists(there) and not world.exists(gone))
        check(world.device_number(there) != 0 and world.access(there, os.R_OK | os.W_OK))
        world.denied.add(there)
        with pytest.raises(OSError, match=rf"Errno {errno.EACCES}\]"):
            world.open(there, os.O_RDWR)
        with pytest.raises(OSError, match=rf"Errno {errno.ENOENT}\]"):
            world.open(gone, os.O_RDWR)
        world.power_off()


def test_memory_of_the_systems_heap_is_imported() -> None:
    with client() as one:
        heap = one.world.open("/dev/dma_heap/system", os.O_RDWR)
        data = bytearray(24)
        data[0:8] = (8192).to_bytes(8, "little")
        data[12:16] = (os.O_RDWR | os.O_CLOEXEC).to_bytes(4, "little")
        one.world.ioctl(heap, 0xC0184800, data)
        fd = int.from_bytes(data[8:12], "little")
        named = np.array([fd], np.int32)
        made = one.call("gpuobj_import", priv=named.ctypes.data, priv_len=4, type=3)
        info = one.call("gpuobj_info", id=made.id)
        check(info.size == 8192)
        one.submit(type7(MEM_WRITE, *halves(info.gpuaddr), 7))
        region = one.world.mmap(fd, 8192)
        check(region.read32(0) == 7)
        region.close()
        one.world.close(fd)
        one.call("gpuobj_free", id=made.id)
