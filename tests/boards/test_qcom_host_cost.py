"""What a launch and a copy cost the host of an Adreno, counted: Python calls, most of the time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from benchmarks.host_cost import BUFFER_BYTES, alone
from boards.front import Setup
from compilers.qcom.smoke import firmware
from drivers.qcom.unread import Unread
from tests.boards.test_host_cost_calls import TIMES, calls
from tests.support import check

MOST = 15


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_calls_of_a_launch_with_its_submission(iface: str) -> None:
    """Eleven, and four of the world that takes the submission; its struct is not built anew."""
    setup = Setup("a630", iface=iface)
    with alone(setup) as (device, unread):
        code = firmware("smoke", setup.chip)
        program = device.load(code)
        buffers = [device.alloc(BUFFER_BYTES) for _ in range(3)]
        arguments: list[Any] = [*buffers, code.resources.block]
        if not isinstance(unread, Unread):
            pytest.fail(f"{unread!r}")
        before = unread.submitted
        launch = calls(partial(device.launch, program, arguments, 1))
        check(unread.submitted - before == TIMES + 1)
    check(0 < launch <= MOST, f"{launch} calls of a launch")
