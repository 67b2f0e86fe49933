"""Numbers of files, libraries and the environment that int() and float() take badly."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from drivers.amd import doctor
from drivers.base.errors import BadArgument, MalformedInput
from drivers.base.moments import nanoseconds
from drivers.cl import facts, platforms
from drivers.qcom import system
from drivers.qcom.msm import prime
from drivers.webgpu import adapters
from tests.fake_machine import X86, FakeMachine
from tests.support import check

ODD = ("9" * 5000, "\u00b2", "\u0661", "-1", "1e3", "0x10", "", "nan")
"""int() refuses the first two with ValueError; str.isdigit() takes the first three."""


def machine(path: str, text: str) -> Any:
    return FakeMachine({**X86, path: text.encode()})


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, 0), (1.5, 1_500_000_000), (-2.0, -2_000_000_000), (nan, 0), (inf, 0), (-inf, 0),
     (1e300, 0), (2.0**40, 0), (-(2.0**40), 0), (5e-324, 0)],
)  # fmt: skip
def test_times(seconds: float, expected: int) -> None:
    check(nanoseconds(seconds) == expected, f"{nanoseconds(seconds)}")


@pytest.mark.parametrize("text", ODD)
def test_memory_of_a_machine(text: str) -> None:
    made = machine("/proc/meminfo", f"MemTotal: {text} kB\n")
    with pytest.raises(MalformedInput, match="no MemTotal"):
        doctor._total(made)
    with pytest.raises(MalformedInput, match="no MemTotal"):
        system.memory_bytes(made)


@pytest.mark.parametrize("text", ODD)
def test_the_size_of_a_dmabuf(text: str) -> None:
    with pytest.raises(BadArgument, match="dma-buf"):
        prime.size_of(machine("/proc/self/fdinfo/7", f"size: {text}\n"), 7)


@pytest.mark.parametrize("text", ODD)
def test_versions_and_choices_of_libraries(text: str) -> None:
    check(facts._version(f"OpenCL {text}.0 x") == (0, 0))
    other: Any = type("Other", (), {"matches": lambda self, wanted: False})()
    check(not platforms._is(other, 3, text) and not adapters._is(other, 3, text))
    check(platforms._is(other, 3, "3") and adapters._is(other, 3, "3"))
