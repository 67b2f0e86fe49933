"""The corpus of CUDA kernels on the executor: numpy's results, no violation.

`python -m tests.boards.nv_corpus` runs all of it, too, and prints a table.
"""

from __future__ import annotations

import pytest

from tests.boards.nv_corpus import ARCHES, KERNELS, sm_of
from tests.boards.nv_corpus.kernel import Kernel
from tests.boards.nv_corpus.runner import REFUSED, RIGHT, outcome
from tests.nv_cubins import needs_nvrtc
from tests.support import check

LEAST = 100
NOT_EXECUTED = {
    "sm_75": set[str](),
    "sm_86": {
        "mma 168256 of bits",
        "a barrier in shared memory",
        "a barrier that copies arrive at",
    },
    "sm_90a": {
        "a barrier in shared memory",
        "a barrier that copies arrive at",
        "makers and takers",
        "bytes that a barrier expects",
        "eight bits",
        "mma 16832 of eight bits",
    },
    "sm_120": {
        "a barrier in shared memory",
        "a barrier that copies arrive at",
        "makers and takers",
        "bytes that a barrier expects",
        "eight bits",
        "mma 16832 of eight bits",
    },
}
"""Kernels with an instruction that the executor refuses by name: BMMA; ATOMS.ARRIVE, ARRIVES and
SYNCS of barriers in shared memory; numbers of eight bits."""
CASES = [(arch, kernel) for arch in ARCHES for kernel in KERNELS if kernel.on(sm_of(arch))]


@needs_nvrtc
@pytest.mark.parametrize(("arch", "kernel"), CASES, ids=lambda x: getattr(x, "name", x))
def test_a_kernel_leaves_what_numpy_says(arch: str, kernel: Kernel) -> None:
    found = outcome(kernel, arch)
    wanted = REFUSED if kernel.name in NOT_EXECUTED[arch] else RIGHT
    check(found.kind == wanted, f"{found.kind}: {found.why}")


def test_there_are_many_kernels_and_each_has_a_name_of_its_own() -> None:
    names = [kernel.name for kernel in KERNELS]
    check(len(set(names)) == len(names) >= LEAST, str(len(names)))
    check(all(set(NOT_EXECUTED[arch]) <= set(names) for arch in ARCHES))
