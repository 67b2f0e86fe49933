"""Kernels and devices for the tests of the CPU device."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import drivers
from compilers.cpu.firmware import firmware
from compilers.toolchains import compile_ir
from drivers.base.contracts import Binary, Resources
from drivers.cpu import CpuDevice
from drivers.cpu.buffer import CpuBuffer
from drivers.world.linux import LinuxWorld
from queues.cpu.kernel_code import CpuCode

ARCH = os.uname().machine

_HEAD = """
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %p1 = getelementptr i64, ptr %args, i64 1
  %p2 = getelementptr i64, ptr %args, i64 2
  %a0 = load ptr, ptr %args
  %a1 = load i64, ptr %p1
"""
_LOOP = """
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %done
body:
{body}
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""
_BODIES = {
    # int64 out[i] += a1
    "bump": """
  %at = getelementptr i64, ptr %a0, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, %a1
  store i64 %new, ptr %at""",
    # int64 out[i] = i * a1 + in[i]
    "ramp": """
  %source = load ptr, ptr %p2
  %from = getelementptr i64, ptr %source, i64 %i
  %in = load i64, ptr %from
  %scaled = mul i64 %i, %a1
  %new = add i64 %scaled, %in
  %at = getelementptr i64, ptr %a0, i64 %i
  store i64 %new, ptr %at""",
    # out[i] = address of the worker's scratch block, of which a1 bytes are written
    "scratch": """
  call void @llvm.memset.p0.i64(ptr %scratch, i8 7, i64 %a1, i1 false)
  %va = ptrtoint ptr %scratch to i64
  %at = getelementptr i64, ptr %a0, i64 %i
  store volatile i64 %va, ptr %at""",
    # out[i] += 1 after a1 dependent multiplications: slow on purpose
    "slow": """
  br label %spin
spin:
  %k = phi i64 [ 0, %body ], [ %k1, %spin ]
  %v = phi i64 [ %i, %body ], [ %v2, %spin ]
  %v1 = mul i64 %v, 6364136223846793005
  %v2 = xor i64 %v1, %k
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %a1
  br i1 %again, label %spin, label %out
out:
  %same = icmp eq i64 %v2, 1
  %extra = zext i1 %same to i64
  %at = getelementptr i64, ptr %a0, i64 %i
  %old = load i64, ptr %at
  %one = add i64 %old, 1
  %never = mul i64 %extra, 0
  %new = add i64 %one, %never
  store volatile i64 %v2, ptr %scratch
  store i64 %new, ptr %at""",
    # a1 dependent multiplications, and only scratch is written
    "spin": """
  br label %spin
spin:
  %k = phi i64 [ 0, %body ], [ %k1, %spin ]
  %v = phi i64 [ %i, %body ], [ %v1, %spin ]
  %v1 = mul i64 %v, 6364136223846793005
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %a1
  br i1 %again, label %spin, label %out
out:
  store volatile i64 %v1, ptr %scratch""",
}


def kernel(
    name: str, *, scratch_bytes: int = 0, chunk_items: int = 0, long: bool = False
) -> Binary:
    """One of the kernels above, compiled."""
    text = _HEAD.format(name=name) + _LOOP.format(body=_BODIES[name])
    if name in ("slow", "spin"):
        text = text.replace("[ %next, %body ]", "[ %next, %out ]")
    if name == "scratch":
        text += "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    made = compile_ir(text, name, ARCH, frozenset())
    code = CpuCode(chunk_items, long)
    return replace(made, resources=Resources(scratch_bytes=scratch_bytes, vendor=code.encode()))


def open_device(threads: int = 1, *, native: bool = True) -> CpuDevice:
    """A CPU device in a world of its own."""
    device = drivers.open(
        "CPU",
        world=LinuxWorld(),
        environ={"CPU_THREADS": str(threads)},
        firmware=firmware if native else None,
    )
    if not isinstance(device, CpuDevice):
        raise TypeError(f"{device!r} is no CpuDevice")
    return device


def int64s(device: CpuDevice, values: object) -> CpuBuffer:
    """A buffer that holds `values` as int64."""
    array = np.ascontiguousarray(values, dtype=np.int64)
    buffer = device.alloc(array.nbytes)
    buffer.view()[:] = array.tobytes()
    return buffer


def read(buffer: CpuBuffer) -> np.ndarray:
    """A copy of a buffer's int64 values."""
    return np.frombuffer(buffer.view(), dtype=np.int64).copy()


both = pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
"""Run a test on the compiled and on the Python command processor."""
