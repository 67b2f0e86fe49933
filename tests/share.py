"""`pytest --share=0.125`: a part of the tests, by the processor time that they cost.

The share is of recorded seconds (`tests/costs.txt`), so an eighth costs an eighth. Of each test
function that part of its cases is a sample, other cases each day. Half of the time goes to the
functions whose samples are the cheapest: they run every day. The costly ones take turns in the
other half. `--share-seed` repeats a day's choice. What costs less than half a minute runs whole.

`--turns=0.3` is for long runs: everything, but of each costly function only that part of its cases.

A test that loops by itself asks `part()` how often. Without these options everything runs.
"""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import pytest

from tests.costs import Cost, function_of, read

T = TypeVar("T")
Family: TypeAlias = list[pytest.Item]
"""The cases of one test function."""

WHOLE_S: Final = 30.0
"""Tests that cost less than this together run whole."""
COSTLY_S: Final = 8.0
"""A function that costs more takes turns under `--turns`."""
DAILY: Final = 0.5
"""The part of a share for functions that run every day."""
_VARIABLE: Final = "UNBOUND_TESTS_SHARE"
"""How modules read the choice during import, in every process of a run."""


def part(whole: int, of_a_share: int) -> int:
    """How often a test's own loop runs: `whole`, or `of_a_share` under `--share`."""
    return of_a_share if os.environ.get(_VARIABLE) else whole


def turn(things: Sequence[T], count: int, day: int, salt: str) -> list[T]:
    """The `count` of some things whose turn it is on a day: all of them in `len / count` days."""
    mixed = random.Random(salt).sample(things, len(things))
    first = day * count % max(len(things), 1)
    return (mixed + mixed)[first : first + min(count, len(things))]


@dataclass(frozen=True)
class Sample:
    """Some cases of one function, and the seconds that they are expected to cost."""

    items: Family
    seconds: float


@dataclass(frozen=True)
class Share:
    """A part of some tests, chosen for a day."""

    share: float
    day: int
    costs: Callable[[str], Cost]

    def of(self, items: Iterable[pytest.Item]) -> set[pytest.Item]:
        """The tests that run."""
        families = by_function(items)
        whole_s = sum(self.costs(name).full_s(len(family)) for name, family in families.items())
        if whole_s < WHOLE_S:
            return {item for family in families.values() for item in family}
        samples = sorted(
            (self.sample(name, family) for name, family in families.items()),
            key=lambda sample: sample.seconds,
        )
        spent_s, daily = 0.0, 0
        while (
            daily < len(samples)
            and spent_s + samples[daily].seconds <= DAILY * self.share * whole_s
        ):
            spent_s, daily = spent_s + samples[daily].seconds, daily + 1
        costly = self._in_turn(samples[daily:], self.share * whole_s - spent_s)
        return {item for sample in [*samples[:daily], *costly] for item in sample.items}

    def sample(self, name: str, family: Family) -> Sample:
        """The cases of a function whose turn it is, at least one."""
        count = max(1, round(len(family) * self.share))
        return Sample(turn(family, count, self.day, name), self.costs(name).short_s(count))

    def _in_turn(self, samples: list[Sample], budget_s: float) -> list[Sample]:
        """Those that begin in today's part of a circle on which all stand, in mixed order."""
        mixed = random.Random(0).sample(samples, len(samples))
        circle_s = sum(sample.seconds for sample in mixed)
        if circle_s <= budget_s:
            return mixed
        chosen, place_s, today_s = [], 0.0, self.day * budget_s % circle_s
        for sample in mixed:
            if (place_s - today_s) % circle_s < budget_s:
                chosen.append(sample)
            place_s += sample.seconds
        return chosen


@dataclass(frozen=True)
class Turns:
    """Everything, but of a costly function a part of its cases, chosen for a day."""

    part: float
    day: int
    costs: Callable[[str], Cost]

    def of(self, items: Iterable[pytest.Item]) -> set[pytest.Item]:
        """The tests that run."""
        chosen = set()
        for name, family in by_function(items).items():
            costly = self.costs(name).full_s(len(family)) > COSTLY_S
            count = math.ceil(len(family) * self.part) if costly else len(family)
            chosen.update(turn(family, count, self.day, name))
        return chosen


def by_function(items: Iterable[pytest.Item]) -> dict[str, Family]:
    """The cases of each test function."""
    families = defaultdict(list)
    for item in items:
        families[function_of(item.nodeid)].append(item)
    return families


@dataclass(eq=False)  # pytest keeps plugins in sets
class Selection:
    """The plugin of `--share` and `--turns`."""

    choice: Share | Turns
    says: str

    @staticmethod
    def register(config: pytest.Config) -> None:
        """Read the options; workers of xdist get the seed of the process that started them."""
        share, turns = config.getoption("share"), config.getoption("turns")
        for name, given in (("share", share), ("turns", turns)):
            if not 0 < given <= 1:
                raise pytest.UsageError(f"--{name} {given}: a part of all, above 0 and at most 1")
        if config.option.share_seed is None:
            config.option.share_seed = date.today().toordinal()
        day: int = config.option.share_seed
        costs = read(config.getoption("costs"))
        if share < 1:
            os.environ[_VARIABLE] = str(share)
            says = f"{share:.1%} of the tests by processor time, the choice of"
            choice: Share | Turns = Share(share, day, costs)
        elif turns < 1:
            says = f"everything, but {turns:.0%} of the cases of each costly test, the choice of"
            choice = Turns(turns, day, costs)
        else:
            return
        says += f" --share-seed {day}; make test-all FULL=1 runs all"
        config.pluginmanager.register(Selection(choice, says), "selection")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(self.says)

    @pytest.hookimpl(trylast=True)  # the share is of what -k and -m leave
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept = self.choice.of(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


COSTS: Final = Path(__file__).with_name("costs.txt")
