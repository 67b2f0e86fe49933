"""AQL packets: the words of the vendor's structs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from drivers.base.errors import BadArgument
from queues.amd import aql
from tests.packet_golden import Golden
from tests.packet_golden_aql import AQL


@pytest.mark.parametrize("golden", AQL, ids=lambda golden: golden.name)
def test_words_of_the_vendors_structs(golden: Golden) -> None:
    words = golden.encode()
    np.testing.assert_equal(" ".join(f"{word:08x}" for word in words), golden.words)
    np.testing.assert_equal(4 * len(words), aql.PACKET_BYTES)


def dispatch(**changes: object) -> list[int]:
    arguments = {"workgroup_size": (64,), "grid_size": (64,), "kernel_object": 64, **changes}
    return aql.kernel_dispatch(**arguments)


def test_the_rest_of_a_grid_is_one_wide() -> None:
    words = dispatch(workgroup_size=(8, 4), grid_size=(32, 16))
    np.testing.assert_equal(words[0] >> 16, 2, "dimensions")
    np.testing.assert_equal(words[1:6], [8 | 4 << 16, 1, 32, 16, 1])


REFUSED: dict[str, Callable[[], object]] = {
    "no dimensions": lambda: dispatch(workgroup_size=(), grid_size=()),
    "four dimensions": lambda: dispatch(workgroup_size=(1,) * 4, grid_size=(1,) * 4),
    "other dimensions": lambda: dispatch(workgroup_size=(1, 1), grid_size=(1,)),
    "workgroup": lambda: dispatch(workgroup_size=(1 << 16,)),
    "grid": lambda: dispatch(grid_size=(1 << 32,)),
    "descriptor alignment": lambda: dispatch(kernel_object=32),
    "kernarg alignment": lambda: dispatch(kernarg_address=8),
    "segment": lambda: dispatch(group_segment_size=1 << 32),
    "signal": lambda: dispatch(completion_signal=4),
    "scope": lambda: dispatch(acquire=4),
    "six signals": lambda: aql.barrier_and(dep_signals=[64] * 6),
    "signal alignment": lambda: aql.barrier_or(dep_signals=[1]),
    "signal value": lambda: aql.barrier_value(signal=64, value=1 << 64),
    "buffer address": lambda: aql.pm4_ib(ib_base=1 << 48, ib_size=1),
    "buffer size": lambda: aql.pm4_ib(ib_base=0, ib_size=1 << 20),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()
