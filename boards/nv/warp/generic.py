"""Generic addresses: LD, ST, and the windows through which they reach shared and local memory.

src: open-gpu-doc, clc7c0: SET_SHADER_SHARED_MEMORY_WINDOW, SET_SHADER_LOCAL_MEMORY_WINDOW; both
are 4 GiB of addresses here, as the front end asks for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.access import data_of, data_register, global_address, put_numbers, shape
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.shared import Own, check_aligned
from boards.nv.warp.state import Threads

GLOBAL, SHARED, LOCAL = range(3)
_WINDOW = 32
_LOW = 0xFFFFFFFF
Report = Callable[[str], None]


def split(t: Threads, addresses: Array) -> Iterator[tuple[int, Array]]:
    """(where, which addresses)."""
    upper = addresses >> _WINDOW
    shared, local = upper == t.launch.shared_window >> _WINDOW, (
        upper == t.launch.local_window >> _WINDOW
    )  # fmt: skip
    for where, part in ((GLOBAL, ~(shared | local)), (SHARED, shared), (LOCAL, local)):
        if part.any():
            yield where, part


def own(build: Builder, report: Report, nbytes: int) -> dict[int, Own]:
    """Both memories that are not global."""
    return {
        SHARED: Own(local=False, nbytes=nbytes, offset=build.offset, report=report),
        LOCAL: Own(local=True, nbytes=nbytes, offset=build.offset, report=report),
    }


def low(addresses: Array) -> Array:
    """An address inside its window."""
    return addresses & _LOW


def ld(build: Builder, memory: GlobalMemory, report: Report) -> Action:
    """LD: memory of any kind to registers."""
    kind, address = shape(build), global_address(build, 32)
    build.only(81, 3, 0, 7)
    number, owns = build.gpr_out(count=kind.registers), own(build, report, kind.nbytes)

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        addresses = address(t, lanes)
        check_aligned(t, addresses, kind.nbytes, build.offset)
        for where, part in split(t, addresses):
            at, some = addresses[part], lanes[part]
            if where == GLOBAL:
                values = memory.load(at, kind.nbytes)
            else:
                values = owns[where].load(t, some, low(at))
            put_numbers(t, number, values, kind, some)

    return run


def st(build: Builder, memory: GlobalMemory, report: Report) -> Action:
    """ST: registers to memory of any kind."""
    kind, address = shape(build), global_address(build, 64)
    number, owns = data_register(build, kind), own(build, report, kind.nbytes)

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        addresses = address(t, lanes)
        check_aligned(t, addresses, kind.nbytes, build.offset)
        for where, part in split(t, addresses):
            at, some = addresses[part], lanes[part]
            values = data_of(t, number, kind, some)
            if where == GLOBAL:
                memory.store(at, values, kind.nbytes)
            else:
                owns[where].store(t, some, low(at), values)

    return run
