"""20,000 mutated machines with AMD GPUs: only MalformedInput and its siblings, quickly."""

from __future__ import annotations

import json
import random
import re
import resource
import time

import pytest

from drivers.amd.chips import chip_of
from drivers.amd.kfd.cwsr import save_area
from drivers.amd.kfd.discovery import read_ip_blocks
from drivers.amd.kfd.properties import read_properties
from drivers.amd.kfd.topology import read_topology
from drivers.amd.probe import as_facts, as_table
from drivers.amd.tools.look import look
from drivers.base.errors import MalformedInput, NotFound, Unsupported
from tests.amd_trees import CACHE, GFX942, GFX1036, GFX1100, ROOT, Files, machine, text
from tests.fake_machine import X86, FakeMachine
from tests.mutation import CPU_LIMIT_S, EXTREMES, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.support import check

TREES = [machine(GFX1100), machine(GFX942), machine(GFX1100, GFX1036)]
ALLOWED = (MalformedInput, NotFound, Unsupported)
LARGEST_SAVE_AREA = 1 << 37
"""64 XCCs of what the largest sizes that are let through make."""


def change(data: bytes, rng: random.Random) -> bytes:
    """Bytes at random, or one number replaced by an extreme one, or lines moved about."""
    kind = rng.randrange(3)
    numbers = list(re.finditer(rb"\d+", data))
    if kind == 0 and numbers:
        spot = rng.choice(numbers)
        number = rng.choice((*EXTREMES, rng.getrandbits(70), -1))
        return data[: spot.start()] + b"%d" % number + data[spot.end() :]
    if kind == 1:
        lines = data.splitlines(keepends=True)
        rng.shuffle(lines)
        return b"".join(lines[rng.randrange(3) :]) * rng.choice((1, 1, 1, 2, 300))
    return mutate(data, rng)


def spoil(files: Files, rng: random.Random) -> Files:
    """One to three files changed, taken away or put where they do not belong."""
    spoilt = dict(files)
    for name in rng.sample(sorted(files), rng.randint(1, 3)):
        data, kind = spoilt[name], rng.randrange(12)
        if kind == 0:
            del spoilt[name]
        elif kind == 1:
            spoilt[re.sub(r"\d+", lambda _: str(rng.choice(EXTREMES)), name, count=1)] = data
        elif kind == 2 and isinstance(data, bytes):
            spoilt[name] = data.decode("latin-1")
        elif isinstance(data, bytes):
            spoilt[name] = change(data, rng)
    return spoilt


def use(world: FakeMachine) -> None:
    """All that a driver computes from what it read."""
    topology = read_topology(world)
    for broken in topology.broken:
        raise broken.error
    for node in topology.gpus:
        area = save_area(chip_of(node.gfx_target_version), node)
        check(0 < area.total_bytes < LARGEST_SAVE_AREA, str(area))
        check(area.total_bytes % 4096 == 0 and area.ctl_stack_bytes < area.context_bytes)
        check(re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", node.pci_address))
        check(sum(len(block.bases) for block in read_ip_blocks(world, node)) < 5000)


def test_only_our_errors_escape() -> None:
    rng, accepted, refused, slowest_s = random.Random(31), 0, 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(MUTATIONS):
        world = FakeMachine(spoil(TREES[turn % len(TREES)], rng))
        start_s = time.process_time()
        try:
            use(world)
        except ALLOWED as error:
            refused += 1
            message = str(error)
            check(message.isascii() and message.isprintable() and len(message) < 600, message)
        else:
            accepted += 1
        slowest_s = max(slowest_s, time.process_time() - start_s)
        check(not world.touched, "it only looks")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(min(accepted, refused) > MUTATIONS // 20, f"{accepted} accepted, {refused} refused")
    check(slowest_s < CPU_LIMIT_S, f"the slowest took {slowest_s} s")
    check(grown < MEMORY_LIMIT_KIB, f"{grown} KiB")


def test_the_probe_tells_every_error_as_a_reason() -> None:
    rng = random.Random(32)
    for turn in range(MUTATIONS // 10):
        found = look(FakeMachine({**X86, **spoil(TREES[turn % len(TREES)], rng)}))
        shown = as_table(found)
        check(shown.isascii() and len(shown) < 20_000 and "\0" not in shown, ascii(shown)[:300])
        json.dumps(as_facts(found))


def test_mutated_property_files() -> None:
    rng, path = random.Random(33), f"{ROOT}/nodes/1/properties"
    data, refused = text(GFX1100), 0
    for turn in range(MUTATIONS):
        spoilt = change(CACHE if turn % 4 == 0 else data, rng)
        try:
            found = read_properties(FakeMachine({path: spoilt}), path)
            values = [found.u64(name) for name in (*found.values, *found.wrong)]
        except MalformedInput:
            refused += 1
        else:
            check(all(0 <= value < 1 << 64 for value in values))
            check(len(values) <= 256)
    check(MUTATIONS // 20 < refused < MUTATIONS, str(refused))


@pytest.mark.parametrize("lines", [257, 60_000])
def test_long_files_are_refused_at_once(lines: int) -> None:
    path = f"{ROOT}/nodes/1/properties"
    world = FakeMachine({path: b"a 1\n" * lines})
    with pytest.raises(MalformedInput):
        read_properties(world, path)
