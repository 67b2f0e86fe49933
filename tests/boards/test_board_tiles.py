"""GET_TILE_CONFIG of the board's /dev/kfd, which HIP's runtimes ask for."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from tests.boards.board_driver import Driver, fails
from tests.support import check


@pytest.mark.parametrize(("name", "pipes"), [("gfx1100", 5), ("gfx942", 2), ("gfx1201", 4)])
def test_tiles_are_asked_for_by_every_hip_runtime(name: str, pipes: int) -> None:
    """src: kfd_chardev.c kfd_ioctl_get_tile_config(), amdgpu_gfx.h: arrays of 32 and 16 entries

    ROCr's ImageManagerKv::Initialize ends the process where it fails; it reads NUM_PIPES [2:0].
    """
    driver = Driver(name)
    tiles, macros = np.full(40, 7, np.uint32), np.full(40, 7, np.uint32)
    at = (tiles.ctypes.data, macros.ctypes.data)
    answer = driver.call("get_tile_config", *at, 40, 8, driver.gpu_ids[0])
    check(answer[2:5] == (32, 8, driver.gpu_ids[0]) and answer[6:] == (0, 0), str(answer))
    check(answer[5] & 7 == pipes, f"{answer[5]:#x}")
    check(not tiles[:32].any() and bool((tiles[32:] == 7).all()), str(tiles))
    check(not macros[:8].any() and bool((macros[8:] == 7).all()), str(macros))
    fails(errno.EINVAL, driver.call, "get_tile_config", *at, 40, 8, 0x1234)
    fails(errno.EFAULT, driver.call, "get_tile_config", 4096, at[1], 40, 8, driver.gpu_ids[0])
    check(driver.last[2:4] == (0, 8), str(driver.last))
    fails(errno.EFAULT, driver.call, "get_tile_config", at[0], 4096, 40, 40, driver.gpu_ids[0])
    check(driver.last[2:4] == (32, 0), str(driver.last))
    check(driver.call("get_tile_config", 0, 0, 0, 0, driver.gpu_ids[0])[2:4] == (0, 0))
