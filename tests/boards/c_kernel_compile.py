"""Bitcode of any clang to an object of an AMD chip: `python -m ... bitcode chip object`.

A process of its own, because LLVM ends the process when it meets one of its own bugs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import llvmlite.binding as llvm

from tests.support import run_limited

_CHIP_WORDS = re.compile(r'"target-(cpu|features)"="[^"]*"')
_TIMEOUT_S = 120


def compile_bitcode(bitcode: Path, chip: str) -> bytes:
    """The object, made in a child process."""
    target = bitcode.with_suffix(f".{chip}.o")
    done = run_limited(
        [sys.executable, "-m", __name__, str(bitcode), chip, str(target)],
        capture_output=True, text=True, cpu_s=_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"LLVM does not compile {bitcode.name} for {chip}: {done.stderr}")
    return target.read_bytes()


def main(bitcode: str, chip: str, target: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = _CHIP_WORDS.sub("", str(llvm.parse_bitcode(Path(bitcode).read_bytes())))
    found = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    # LLVM 22 aborts on one gfx1030 kernel in 25 at level 2.
    machine = found.create_target_machine(cpu=chip, opt=1 if chip == "gfx1030" else 2)
    module = llvm.parse_assembly(text)
    module.verify()
    Path(target).write_bytes(machine.emit_object(module))


if __name__ == "__main__":
    main(*sys.argv[1:])
