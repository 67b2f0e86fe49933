"""Random graphs: the compiled kernels against numpy, on buffers that end at an unreadable page."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from compilers.lower.choose import Target
from compilers.lower.contraction import DEFAULT_BLOCKING, Blocking
from drivers.cpu import CpuDevice
from tests.cpu_harness import open_device
from tests.graph_maker import Maker
from tests.graph_runner import differ

BLOCKINGS = (DEFAULT_BLOCKING, Blocking(kc=16, mc=24, nc=32))
STEPS = (2, 4, 8, 16, 30)
ROUNDS, GRAPHS = 20, 10
CLANG_SHARE = 0.05


@pytest.fixture(scope="module", params=[1, 2], ids=["1 thread", "2 threads"])
def device(request: pytest.FixtureRequest) -> Iterator[CpuDevice]:
    with open_device(request.param) as opened:
        yield opened


def target(random: Random, device: CpuDevice) -> Target:
    """A vector width, the features that go with it, and a blocking."""
    full = device.limits.features
    features = random.choice((full, full - {"avx512bf16"}, full & {"fma", "avx2"}, frozenset()))
    width = random.choice((16, 32, 64)) if "avx512f" in features else random.choice((16, 32))
    return Target(width, device.threads, features, random.choice(BLOCKINGS))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_graphs(number: int, device: CpuDevice) -> None:
    for seed in range(number * GRAPHS, (number + 1) * GRAPHS):
        random = Random(seed)
        goal = target(random, device)
        compiler = "CLANG" if random.random() < CLANG_SHARE else "LLVM"
        values = Maker(100_000 * device.threads + seed).roots(random.choice(STEPS))
        differ(values, device, goal, compiler)
