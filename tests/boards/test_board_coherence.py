"""What agents of a board see of each other's writes: caches that were not flushed or dropped."""

from __future__ import annotations

import numpy as np

from boards.amd.cp.engine_types import Scope
from tests.boards.board_driver import Driver
from tests.support import check


def _kinds(driver: Driver) -> list[str]:
    return [violation.kind for violation in driver.world.violations]


def test_stale_reads_between_agents() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    waves, cp, copier = (driver.space(name) for name in ("waves", "CP", "SDMA0"))
    waves.write(buffer.va, bytes(4096))
    check(cp.read(buffer.va, 4) == bytes(4))
    check(_kinds(driver) == ["stale read"])
    waves.release()
    copier.read(buffer.va + 256, 4)
    check(_kinds(driver) == ["stale read"] * 2, "a release alone is enough for nobody")
    driver.world.hardware.forget_violations()
    cp.acquire()
    cp.read(buffer.va, 4096)
    waves.read(buffer.va, 4096)
    check(not driver.world.violations)
    waves.write(buffer.va + 128, b"more")
    cp.acquire()
    cp.read(buffer.va, 128)
    cp.read(buffer.va + 256, 64)
    check(not driver.world.violations, "other lines are not stale")
    cp.load(np.array([buffer.va + 252, buffer.va + 160], np.uint64), 4)
    check(_kinds(driver) == ["stale read"])
    check("waves" in driver.world.violations[0].what and "CP" in driver.world.violations[0].what)


def test_what_sdma_wrote_reaches_kernels_in_agent_scope_and_not_the_other_way_round() -> None:
    """src: AMDGPUUsage.rst: no acquire drops local lines of an L2; a system release writes back."""
    driver = Driver()
    buffer = driver.buffer(4096)
    waves, copier = driver.space("waves"), driver.space("SDMA0")
    copier.write(buffer.va, bytes(4096))
    copier.release()
    waves.acquire(Scope.L2)
    waves.read(buffer.va, 4096)
    check(_kinds(driver) == ["stale read"], "another L2's users are not asked")
    driver.world.hardware.forget_violations()
    waves.acquire(Scope.AGENT)
    waves.read(buffer.va, 4096)
    check(not driver.world.violations)
    waves.write(buffer.va, bytes(4096))
    waves.release(Scope.AGENT)
    copier.acquire()
    copier.read(buffer.va, 4096)
    check(_kinds(driver) == ["stale read"], "the L2 has it still")
    driver.world.hardware.forget_violations()
    copier.write(buffer.va, bytes(4096))
    check(_kinds(driver) == ["dirty line"])
    driver.world.hardware.forget_violations()
    waves.release()
    copier.acquire()
    copier.read(buffer.va, 4096)
    copier.write(buffer.va, bytes(4096))
    check(not driver.world.violations)


def test_elements_across_lines_are_in_both() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    waves = driver.space("waves")  # an agent that is gone has written everything back
    waves.write(buffer.va, bytes(128))
    buffer.region.write(0, bytes(4096))
    driver.space("CP").load(np.array([buffer.va + 120, buffer.va + 1000], np.uint64), 16)
    check(_kinds(driver) == ["stale read"])
