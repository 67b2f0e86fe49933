"""Which rows of a table `--only` asks for."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence


def select(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """The rows that `only` asks for, in table order. Raises: ValueError for a name without rows."""
    for pattern in only:
        if not fnmatch.filter(names, pattern):
            raise ValueError(f"no row is called {pattern!r}; the rows are: {', '.join(names)}")
    return [
        name
        for name in names
        if not only or any(fnmatch.fnmatchcase(name, pattern) for pattern in only)
    ]
