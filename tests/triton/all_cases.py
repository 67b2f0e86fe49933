"""Every case, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator

from tests.triton import cases, cases_products
from tests.triton.case import Case


def every() -> Iterator[Case]:
    """The same values each time: compiler and runner count them alike."""
    yield from cases.elements()
    yield from cases.rows()
    yield from cases.memory()
    yield from cases_products.products()
    yield from cases_products.quantised()
    yield from cases_products.models()
