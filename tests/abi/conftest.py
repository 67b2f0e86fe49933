"""Header tests see every kernel header that a compiler of this machine comes with."""

from __future__ import annotations

import pytest

from tests.c_compiler import COMPILERS, LACKING, CCompiler


@pytest.fixture(params=sorted(COMPILERS))
def c_compiler(request: pytest.FixtureRequest) -> CCompiler:
    """A C compiler with kernel headers; skips, by name, where this machine has none."""
    found = COMPILERS[request.param]
    if found is None:
        pytest.skip(LACKING[request.param])
    if not (found.include / "linux/types.h").exists():
        pytest.skip("no kernel headers: install linux-libc-dev")
    return found
