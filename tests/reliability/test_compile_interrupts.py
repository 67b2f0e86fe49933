"""Ctrl-C at any instruction of a compilation: LLVM's objects go in the order that LLVM needs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import run_limited

# In a process of its own: what this guards against ends the process.
SWEEP = """
import faulthandler, gc, signal, sys
from compilers.{module} import llvm as toolchain
from drivers.base.errors import CompileError
import llvmlite.binding
faulthandler.enable()
PLACES = "compilers/{module}/llvm.py", "compilers/cpu/llvm.py", "binding/module.py", \\
    "binding/targets.py", "binding/newpassmanagers.py", "binding/context.py"
SOURCE = {source!r}
left = None

def trace(frame, event, argument):
    global left
    if not frame.f_code.co_filename.endswith(PLACES):
        return None
    frame.f_trace_lines, frame.f_trace_opcodes = False, True
    if event == "opcode":
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
    return trace

def compiled(at, source):
    global left
    left = at
    sys.settrace(trace)
    try:
        toolchain.compile_object(source, {arch!r}, frozenset())
    except (KeyboardInterrupt, CompileError) as error:
        kept = [error]
        kept.append(kept)  # a cycle: the collector frees what the frames hold, in its own order
        return isinstance(error, KeyboardInterrupt)
    finally:
        sys.settrace(None)
    return False

toolchain.compile_object(SOURCE, {arch!r}, frozenset())
gc.disable()
for source in SOURCE, SOURCE.replace("ret void", "ret i32 %none"):
    hits = 0
    while compiled(hits + 1, source):
        hits += 1
        if hits % 64 == 0:
            gc.collect()
    gc.collect()
    print(hits > 200)
"""
CPU = ("cpu", "x86_64", "define void @k() { ret void }")
GPU = ("amd", "gfx1100", "define amdgpu_kernel void @k() { ret void }")


@pytest.mark.parametrize(("module", "arch", "source"), [CPU, GPU], ids=["cpu", "gpu"])
def test_an_interrupt_at_any_instruction_leaves_the_process_alive(
    module: str, arch: str, source: str
) -> None:
    done = run_limited(
        [sys.executable, "-c", SWEEP.format(module=module, arch=arch, source=source)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        cpu_s=300,
        check=False,
    )
    np.testing.assert_equal((done.returncode, done.stdout.split()), (0, ["True", "True"]))
