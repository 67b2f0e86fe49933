"""The architectures code is generated for on a host CPU, and the names LLVM knows there.

An unknown CPU name ends the whole process inside LLVM, so every name is looked up here first.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivers.base.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Target:
    """One host architecture: its names in LLVM and ELF, and the layout of its image."""

    arch: str
    triple: str
    machine: str
    """e_machine, as pyelftools spells it."""
    page_bytes: int
    """The largest page size of its kernels: data starts at a multiple of it."""
    levels: tuple[tuple[str, frozenset[str]], ...]
    """CPU names, best first, with the features that allow them."""
    features: frozenset[str]
    """Feature names that may be passed to the compiler."""
    tuning: tuple[str, ...] = ()
    """LLVM settings always added: 512-bit registers are used freely."""

    def cpu(self, features: frozenset[str]) -> str:
        """The best CPU name whose features are all present."""
        return next(name for name, needs in self.levels if needs <= features)

    def known(self, features: frozenset[str]) -> list[str]:
        """The features the compiler knows, sorted; a name it does not know is left out."""
        return sorted(features & self.features)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_X86_V2 = _words("cx16 popcnt sse3 sse4.1 sse4.2 ssse3")
_X86_V3 = _words("avx avx2 bmi bmi2 f16c fma lzcnt movbe")
_X86_V4 = _words("avx512f avx512bw avx512cd avx512dq avx512vl")
_X86_MORE = _words(
    "avx512bf16 avx512fp16 avx512vnni avx512ifma avx512vbmi avx512vbmi2 avx512bitalg "
    "avx512vpopcntdq avxvnni gfni vaes vpclmulqdq amx-tile amx-bf16 amx-int8 sse sse2"
)
_ARM = _words("neon fp-armv8 fullfp16 dotprod bf16 i8mm lse rdm sve sve2 fp16fml")

TARGETS = {
    target.arch: target
    for target in (
        # src: psABI x86-64 1.0, table 3.1 (micro-architecture levels)
        Target(
            "x86_64",
            "x86_64-unknown-linux-gnu",
            "EM_X86_64",
            4096,
            (
                ("x86-64-v4", _X86_V4),
                ("x86-64-v3", _words("avx2 fma bmi2")),
                ("x86-64-v2", _words("sse4.2")),
                ("x86-64", frozenset()),
            ),
            _X86_V2 | _X86_V3 | _X86_V4 | _X86_MORE,
            ("-prefer-256-bit",),
        ),
        Target(
            "aarch64",
            "aarch64-unknown-linux-gnu",
            "EM_AARCH64",
            65536,
            (("generic", frozenset()),),
            _ARM,
        ),
    )
}


def target(arch: str) -> Target:
    """The host architecture of that name. Raises: Unsupported, with the names there are."""
    found = TARGETS.get(arch)
    if found is None:
        raise Unsupported(f"no CPU compiler for {arch!r}", hint=f"Known: {', '.join(TARGETS)}")
    return found
