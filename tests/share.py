"""`pytest --share=0.2`: a part of every family of tests, in minutes instead of half an hour.

Of each test function that part of its cases runs, at least one, so every function does; a test that
loops by itself asks `part()` how often. Which cases, changes from day to day: the seed is
printed, and `--share-seed` repeats a choice. Without `--share` everything runs.
"""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from datetime import date

import pytest

LEAST_CASES = 1
_VARIABLE = "UNBOUND_TESTS_SHARE"
"""How modules read the choice during import, in every process of a run."""


def part(whole: int, of_a_share: int) -> int:
    """How often a test's own loop runs: `whole`, or `of_a_share` under `--share`."""
    return of_a_share if os.environ.get(_VARIABLE) else whole


class Share:
    """The plugin of `--share`."""

    def __init__(self, share: float, seed: int) -> None:
        self.share, self.seed = share, seed
        os.environ[_VARIABLE] = str(share)

    @staticmethod
    def register(config: pytest.Config) -> None:
        """Read the options; workers of xdist get the seed of the process that started them."""
        share = config.getoption("share")
        if not 0 < share <= 1:
            raise pytest.UsageError(f"--share {share}: a part of all tests, above 0 and at most 1")
        if share < 1:
            if config.option.share_seed is None:
                config.option.share_seed = date.today().toordinal()
            plugin = Share(share, config.option.share_seed)
            config.pluginmanager.register(plugin, "share")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"{self.share:.0%} of the cases of each test, chosen by --share-seed {self.seed}; "
            "make test-all runs all"
        )

    @pytest.hookimpl(trylast=True)  # the share is of what -k and -m leave
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        families = defaultdict(list)
        for item in items:
            families[item.nodeid.partition("[")[0]].append(item)
        kept = {item for name, family in families.items() for item in self._chosen(name, family)}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]

    def _chosen(self, name: str, family: list[pytest.Item]) -> list[pytest.Item]:
        count = max(LEAST_CASES, math.ceil(len(family) * self.share))
        if count >= len(family):
            return family
        return random.Random(f"{self.seed} {name}").sample(family, count)
