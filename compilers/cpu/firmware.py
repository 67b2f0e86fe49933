"""The CPU device's command processor, in LLVM IR: walks packets, runs kernels on worker threads.

`command_processor(state, words, n)` executes the `n` words of packets at `words` and returns how
many words are done: `n`, or the offset of a WAIT that is not satisfied yet (or of a word that is
no packet). With `words` null the caller becomes worker number `n` until STOP is set.
"""

from __future__ import annotations

from string import Template
from typing import Final

from compilers.cpu import firmware_ir as cpu_firmware_ir
from compilers.toolchains import compile_ir
from drivers.base.contracts import Binary
from drivers.base.errors import Unsupported
from queues.cpu import packets, state

FIRMWARE_KIND: Final = "cpu-command-processor"
ENTRY_NAME: Final = "command_processor"

# src: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (futex)
_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_RELAX: Final = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}
_TRIAL_SHIFT: Final = 6
_TRIAL_WORTH_NS: Final = 40_000
"""Estimated run time from which other threads are woken."""


def source(arch: str) -> str:
    """The firmware as LLVM IR. Raises: Unsupported for an architecture it was not written for."""
    if arch not in _FUTEX:
        raise Unsupported(
            f"no command processor for {arch!r}", hint=f"written for: {', '.join(_FUTEX)}"
        )
    numbers = {
        name: getattr(module, name)
        for module in (state, packets)
        for name in dir(module)
        if name.isupper() and isinstance(getattr(module, name), int)
    }
    return Template(cpu_firmware_ir.TEXT).substitute(
        numbers,
        futex=_FUTEX[arch],
        relax=_RELAX[arch],
        trial_shift=_TRIAL_SHIFT,
        worth_ns=_TRIAL_WORTH_NS,
        opcode_mask=packets.OPCODE_MASK,
        length_shift=packets.LENGTH_SHIFT,
    )


def command_processor(arch: str, features: frozenset[str] = frozenset()) -> Binary:
    """The compiled command processor, through the cache. Raises: Unsupported, CompileError."""
    return compile_ir(source(arch), ENTRY_NAME, arch, features)


def firmware(kind: str, arch: str) -> Binary:
    """A `contracts.Firmware` with the CPU device's command processor. Raises: Unsupported."""
    if kind != FIRMWARE_KIND:
        raise Unsupported(f"no firmware of kind {kind!r}", hint=f"known: {FIRMWARE_KIND}")
    return command_processor(arch)
