"""The device of each case: opened once for all tests of a process, or anew for one that closes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from drivers.base.contracts import Device, Program
from tests.contract.devices import DEVICES, Entry
from tests.contract.kernels import combine

COUNT = 300
"""Work items of `program`: some workgroups, and a part of one."""


@pytest.fixture(scope="session", params=DEVICES, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    return request.param


@pytest.fixture(scope="session")
def device(entry: Entry) -> Iterator[Device]:
    """The device that tests share; at its end a board has no violations, and nothing is left."""
    with entry.open() as opened:
        yield opened


@pytest.fixture
def own(entry: Entry) -> Iterator[Device]:
    """A device that a test may close."""
    with ExitStack() as stack:
        yield stack.enter_context(entry.open())


@pytest.fixture(scope="session")
def program(entry: Entry, device: Device) -> Program:
    """c[i] = 3 * a[i] + b[i] for COUNT elements of int32."""
    return device.load(entry.build(combine(device.limits, COUNT), device))
