"""What /proc says about a processor, and what it must not say."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.base.errors import DeviceError, MalformedInput, NotFound, Unsupported
from drivers.cpu.features import allowed_cpus, read_processor
from drivers.world.linux import LinuxWorld
from tests.support import check

X86 = b"processor\t: 0\nflags\t\t: fpu lm sse4_1 pni avx2 fma f16c avx512f avx512_bf16 abm bmi1\n"
ARM = b"processor\t: 0\nFeatures\t: fp asimd asimdhp atomics i8mm\n"
MEM = b"MemTotal:       16384 kB\nMemFree: 1 kB\n"
STATUS = b"Name:\tx\nCpus_allowed_list:\t0-3,8\n"


class Proc(LinuxWorld):
    """A World whose /proc is a dictionary."""

    def __init__(self, cpuinfo: bytes = X86, meminfo: bytes = MEM, status: bytes = STATUS) -> None:
        super().__init__()
        self.files = {
            "/proc/cpuinfo": cpuinfo,
            "/proc/meminfo": meminfo,
            "/proc/self/status": status,
        }

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        if path not in self.files:
            raise NotFound(f"there is no {path}")
        return self.files[path]


def test_an_x86_processor() -> None:
    processor = read_processor(Proc())
    np.testing.assert_equal(processor.arch, "x86_64")
    expected = {"sse4.1", "sse3", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "lzcnt", "bmi"}
    np.testing.assert_equal(processor.limits.features, frozenset(expected))
    np.testing.assert_equal(processor.limits.vector_bytes, 64)
    np.testing.assert_equal(processor.limits.memory_bytes, 16384 * 1024)
    np.testing.assert_equal(processor.limits.threads, 5)
    np.testing.assert_equal(read_processor(Proc(), 2).limits.threads, 2)


def test_an_arm_processor() -> None:
    processor = read_processor(Proc(ARM))
    np.testing.assert_equal(processor.arch, "aarch64")
    expected = {"fp-armv8", "neon", "fullfp16", "lse", "i8mm"}
    np.testing.assert_equal(processor.limits.features, frozenset(expected))
    np.testing.assert_equal(processor.limits.vector_bytes, 16)


def test_only_what_every_processor_has() -> None:
    """The kernel prints each x86 processor's own flags; a thread may run on any of them."""
    mixed = X86 + X86.replace(b" avx512f avx512_bf16", b"")
    processor = read_processor(Proc(mixed))
    np.testing.assert_equal(processor.limits.vector_bytes, 32)
    check(not any("avx512" in name for name in processor.limits.features))


def test_this_machine() -> None:
    processor = read_processor(LinuxWorld())
    np.testing.assert_equal(processor.arch, os.uname().machine)
    np.testing.assert_equal(processor.limits.threads, len(os.sched_getaffinity(0)))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    check(0 < processor.limits.memory_bytes <= pages)


@pytest.mark.parametrize(
    ("world", "error"),
    [
        (Proc(cpuinfo=b"isa : rv64\n"), Unsupported),
        (Proc(cpuinfo=b"flags : sse\n"), Unsupported),
        (Proc(meminfo=b"MemTotal: many kB\n"), MalformedInput),
        (Proc(status=b""), MalformedInput),
        (Proc(status=b"Cpus_allowed_list:\t3-0\n"), MalformedInput),
        (Proc(status=b"Cpus_allowed_list:\t0--1\n"), MalformedInput),
        (Proc(status=b"Cpus_allowed_list:\t0-99999\n"), MalformedInput),
    ],
)
def test_what_cannot_be_a_processor(world: Proc, error: type[DeviceError]) -> None:
    with pytest.raises(error):
        read_processor(world)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_of_cpus(cpus: set[int]) -> None:
    text = f"Cpus_allowed_list:\t{','.join(map(str, sorted(cpus)))}\n"
    np.testing.assert_equal(allowed_cpus(text), len(cpus))


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_only_our_errors_escape(cpuinfo: bytes, meminfo: bytes, status: bytes) -> None:
    try:
        read_processor(Proc(b"flags : lm " + cpuinfo, meminfo, status))
    except DeviceError as error:
        check(error.message)
