"""Architecture and features of the processor, from the World's /proc."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Limits, World
from drivers.base.errors import MalformedInput, Unsupported
from drivers.cpu.cgroup import memory_limit
from queues.cpu.packets import MAX_GRID

_CPUINFO_LIMIT_BYTES: Final = 1 << 24
_KIB: Final = 1024
_MAX_CPUS: Final = 1 << 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# src: arch/x86/include/asm/cpufeatures.h (names in /proc/cpuinfo) -> llvm/lib/Target/X86/X86.td
_X86: Final = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx_vnni": "avxvnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vnni": "avx512vnni",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
} | {
    name: name
    for name in _words(
        "sse sse2 ssse3 cx16 popcnt avx avx2 bmi2 f16c fma movbe gfni vaes vpclmulqdq avx512f "
        "avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi"
    )
}
# src: arch/arm64/kernel/cpuinfo.c (hwcap_str) -> llvm/lib/Target/AArch64/AArch64Features.td
_ARM: Final = {
    "fp": "fp-armv8",
    "asimd": "neon",
    "asimdhp": "fullfp16",
    "asimddp": "dotprod",
    "asimdrdm": "rdm",
    "asimdfhm": "fp16fml",
    "atomics": "lse",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}
_DTYPES: Final = _words(
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
)


@dataclass(frozen=True, slots=True)
class Processor:
    """The architecture's name and its limits."""

    arch: str
    limits: Limits


def read_processor(world: World, threads: int | None = None) -> Processor:
    """Architecture, features, memory and threads of this machine.

    Raises: Unsupported for another architecture; MalformedInput when /proc is not as expected.
    """
    arch, features = _features(_text(world, "/proc/cpuinfo"))
    return Processor(
        arch,
        Limits(
            dtypes=_DTYPES,
            memory_bytes=_memory_bytes(world),
            threads=threads or allowed_cpus(_text(world, "/proc/self/status")),
            vector_bytes=_vector_bytes(features),
            max_grid=(MAX_GRID, 1, 1),
            uses_host_memory=True,
            survives_fork=True,
            features=features,
        ),
    )


def _text(world: World, path: str) -> str:
    return world.read(path, _CPUINFO_LIMIT_BYTES).decode("ascii", "replace")


def _features(cpuinfo: str) -> tuple[str, frozenset[str]]:
    """Features that all processors have: a thread may run on any of them."""
    found = re.findall(r"^(flags|Features)[ \t]*:(.*)$", cpuinfo, re.MULTILINE)
    if not found:
        raise Unsupported(
            "/proc/cpuinfo lists no features", hint="the CPU device knows x86-64 and AArch64"
        )
    arch, names = ("x86_64", _X86) if found[0][0] == "flags" else ("aarch64", _ARM)
    words = frozenset.intersection(*map(_words, {text for _, text in found}))
    if arch == "x86_64" and "lm" not in words:
        raise Unsupported("a 32-bit x86 processor", hint="the CPU device needs x86-64")
    return arch, frozenset(names[word] for word in words if word in names)


def _vector_bytes(features: frozenset[str]) -> int:
    widths = {"avx512f": 64, "avx2": 32}
    return max((width for name, width in widths.items() if name in features), default=16)


def _memory_bytes(world: World) -> int:
    """The machine's memory, or what this process's control groups allow of it."""
    meminfo = _text(world, "/proc/meminfo")
    found = re.search(r"^MemTotal:\s*(\d{1,15}) kB$", meminfo, re.MULTILINE)
    if found is None:
        raise MalformedInput("/proc/meminfo has no line 'MemTotal: ... kB'")
    total_bytes = int(found[1]) * _KIB
    allowed_bytes = memory_limit(world)
    return total_bytes if allowed_bytes is None else min(total_bytes, allowed_bytes)


def allowed_cpus(status: str) -> int:
    """How many CPUs this process may run on, from the text of /proc/self/status.

    Raises: MalformedInput.
    """
    found = re.search(r"^Cpus_allowed_list:\s*([0-9,-]+)$", status, re.MULTILINE)
    if found is None:
        raise MalformedInput("/proc/self/status has no line 'Cpus_allowed_list: ...'")
    count = 0
    for part in found[1].split(","):
        bounds = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            raise MalformedInput(f"Cpus_allowed_list: {found[1][:40]!r} is not a list of CPUs")
        count += int(bounds[2] or bounds[1]) - int(bounds[1]) + 1
    if count > _MAX_CPUS:
        raise MalformedInput(f"Cpus_allowed_list names {count} CPUs")
    return count
