"""OpenCL whose LLVM is older than the processor: said by name, with what to use instead."""

from __future__ import annotations

from typing import cast

import pytest

from drivers.base.errors import CompileError
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.building import OTHER_OPENCL, Builder
from tests import opencl
from tests.support import check
from unbound import extras

LOGS = [
    # src: pocl/pocl issue 1049 (PoCL 1.8 of Ubuntu 22.04 on a Ryzen 5 5600X)
    "error: unknown target CPU 'generic'\nDevice pthread-AMD Ryzen 5 5600X 6-Core Processor failed "
    "to build the program, log: error: unknown target CPU 'generic'\n",
    # src: pocl/pocl issue 512 (PoCL 0.14 with LLVM 3.9.1 on a Ryzen 5 1600X)
    "error: <invalid loc>: unknown target CPU 'generic'",
    # src: clang 17 and later, which lists the names that it knows
    "error: unknown target CPU 'znver9'\nnote: valid target CPU values are: nocona, core2, x86-64",
]


class MadeUp:
    """The part of a library that a build needs: every build fails with this log."""

    def __init__(self, log: str) -> None:
        self.log = log
        self.functions = {"clBuildProgram": lambda *args: -11 & 0xFFFFFFFF}
        self.released = 0

    def make(self, call: str, *args: int) -> int:
        return 1

    def do(self, call: str, *args: int) -> None:
        self.released += call == "clReleaseProgram"

    def text(self, call: str, *args: int) -> str:
        check((call, args[-1]) == ("clGetProgramBuildInfo", abi.PROGRAM_BUILD_LOG), call)
        return self.log


def build(log: str) -> CompileError:
    made = MadeUp(log)
    with pytest.raises(CompileError) as caught:
        Builder(cast(Api, made), 1, 2, "arch", "").build("kernel void k() {}", 0)
    check(made.released == 1)
    return caught.value


@pytest.mark.parametrize("log", LOGS)
def test_the_reason_is_the_processor_and_the_next_step_another_opencl(log: str) -> None:
    error = build(log)
    check("does not know this machine's processor" in error.message, error.message)
    check(extras.install("cl") in error.hint and "CPU=1" in error.hint, error.hint)
    check((error.log, error.source) == (log, "kernel void k() {}"), "the facts are kept")


@pytest.mark.parametrize("log", ["", "error: use of undeclared identifier 'generic'", "target CPU"])
def test_another_reason_is_given_as_it_is(log: str) -> None:
    error = build(log)
    check("rejects the kernel" in error.message and error.hint != OTHER_OPENCL, str(error))


def test_tests_of_pocl_skip_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    opencl.need("pocl")

    def refuses(arch: str) -> Builder:
        return Builder(cast(Api, MadeUp(LOGS[0])), 1, 2, arch, "")

    monkeypatch.setattr(opencl, "builder", refuses)
    opencl.builds.cache_clear()
    with pytest.raises(pytest.skip.Exception, match="does not know this processor"):
        opencl.need("pocl")
    opencl.builds.cache_clear()
