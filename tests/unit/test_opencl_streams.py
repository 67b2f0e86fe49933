"""Large results go past the caches of a processor; names of architectures last longer than a
process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tensor as xp
from compilers import dtype as dt
from compilers import graph
from compilers.lower.choose import Target
from compilers.opencl.common import STREAM
from compilers.opencl.render_host import render
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.limits import Limits
from tensor import engine
from tests.compilers.lowering import leaf
from tests.opencl import PLATFORMS, opencl
from tests.support import check

NAME = "CL:7"
LARGE = 4 << 20
"""Elements of float32 that are 16 MiB: the least that is written past the caches."""
LIMITS = """
from drivers.base.limits import Limits
print(Limits(frozenset(f"float{n}" for n in range(40)), 5, features=frozenset("abcdefgh")).text)
"""


def written(source: str, hashed: str) -> str:
    """What a program prints where sets are in the order that this seed of hashes gives."""
    environ = {**os.environ, "PYTHONHASHSEED": hashed}
    command = [sys.executable, "-c", source]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_limits_have_one_text_in_every_process() -> None:
    first, second = (written(LIMITS, seed) for seed in ("1", "2"))
    check(first == second, "the cache of kernels is found by it")
    one, two = Limits(frozenset({"int8"}), 5), Limits(frozenset({"int8"}), 6)
    check(one.text != two.text and "int8" in one.text, one.text)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_architectures_have_one_name_in_every_process(platform: str) -> None:
    with opencl(platform) as device:
        arch, title = device.arch, device.facts.found.title
    source = f"""
import os
from drivers.cl.facts import read_facts
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
one = next(one for one in find(LinuxWorld())[0] if one.title == {title!r})
print(read_facts(one, lanes=False).arch, flush=True)
os._exit(0)  # a vendor's threads may still begin: the end of the process is not the question
"""
    check({written(source, seed).strip() for seed in ("1", "2")} == {arch}, arch)


def source_of(count: int, vector_bytes: int, dtype: dt.DType = dt.float32) -> str:
    """The kernel of a sum of two arrays on a processor with vectors of that many bytes."""
    x = leaf(np.broadcast_to(np.zeros(1, dtype.storage), count))
    (step,) = plan(
        rebuild(signature([graph.binary("add", x, x)])[0]).roots, Target(vector_bytes)
    ).steps
    return render(step.kernel, frozenset())


@pytest.mark.parametrize(
    ("count", "vector_bytes", "streams"),
    [(LARGE, 32, True), (LARGE, 64, True), (LARGE + 5, 32, True), (LARGE - 1, 32, False),
     (LARGE, 16, False)],
)  # fmt: skip
def test_large_results_are_written_past_the_caches(
    count: int, vector_bytes: int, streams: bool
) -> None:
    text = source_of(count, vector_bytes)
    check((f" {STREAM}(" in text) == streams, text)
    check(("__builtin_nontemporal_store" in text) == streams, text)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("count", [LARGE, LARGE + 13])
def test_what_is_written_past_the_caches_is_there(platform: str, count: int) -> None:
    x = np.arange(count, dtype=np.float32)
    with opencl(platform) as device, engine.adopted(NAME, device):
        on = xp.asarray(x, device=NAME)
        np.testing.assert_array_equal((on + on).numpy(), x + x)
        turned = xp.flip(on).numpy()
        np.testing.assert_array_equal(turned, x[::-1])
