"""Small kernels, compiled by LLVM, and the words that launch them on a queue of the board."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tests.boards.engine_harness import Rig
from tests.boards.wave_harness import Loaded, compile_object, kernel

CODE, ARGUMENTS, OUT, SCRATCH = 0x7F_4000_0000, 0x7F_5000_0000, 0x7F_6000_0000, 0x7F_7000_0000
OUT_WORDS = 4096
_TOP = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
@lds = internal addrspace(3) global [64 x i32] undef, align 4
"""
_HEAD = """
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %b = mul i32 %g, %block
  %n = or i32 %b, %i
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %n
"""
_PARAMS = "ptr addrspace(1) noalias %out, i32 %block"
BODIES = {
    # out[n] = 1000 * group + item
    "ids": _HEAD + """
  %t = mul i32 %g, 1000
  %v = add i32 %t, %i
  store i32 %v, ptr addrspace(1) %p
  ret void""",
    # out[n + 512] = out[n]
    "copy": _HEAD + """
  %v = load volatile i32, ptr addrspace(1) %p
  %q = getelementptr i32, ptr addrspace(1) %p, i32 512
  store i32 %v, ptr addrspace(1) %q
  ret void""",
    # out[n] += 1
    "both": _HEAD + """
  %v = load volatile i32, ptr addrspace(1) %p
  %w = add i32 %v, 1
  store volatile i32 %w, ptr addrspace(1) %p
  ret void""",
    "fault": _HEAD + """
  %q = inttoptr i64 93458488360960 to ptr addrspace(1)
  store i32 1, ptr addrspace(1) %q
  ret void""",
    "endless": _HEAD + """
  br label %loop
loop:
  store volatile i32 1, ptr addrspace(1) %p
  br label %loop""",
    # out[n] = scratch[(item + 3) % 8] where scratch[k] = 10 * k + item
    "scratch": _HEAD + """
  %a = alloca [8 x i32], align 4, addrspace(5)
  br label %fill
fill:
  %k = phi i32 [ 0, %0 ], [ %k2, %fill ]
  %e = getelementptr i32, ptr addrspace(5) %a, i32 %k
  %ten = mul i32 %k, 10
  %val = add i32 %ten, %i
  store volatile i32 %val, ptr addrspace(5) %e
  %k2 = add i32 %k, 1
  %c = icmp ult i32 %k2, 8
  br i1 %c, label %fill, label %done
done:
  %i3 = add i32 %i, 3
  %m = and i32 %i3, 7
  %f = getelementptr i32, ptr addrspace(5) %a, i32 %m
  %r = load volatile i32, ptr addrspace(5) %f
  store i32 %r, ptr addrspace(1) %p
  ret void""",
    # out[n] = the item number of the mirrored lane of a workgroup of 32
    "mirror": _HEAD + """
  %e = getelementptr i32, ptr addrspace(3) @lds, i32 %i
  store i32 %i, ptr addrspace(3) %e
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %o = xor i32 %i, 31
  %f = getelementptr i32, ptr addrspace(3) @lds, i32 %o
  %r = load i32, ptr addrspace(3) %f
  store i32 %r, ptr addrspace(1) %p
  ret void""",
}  # fmt: skip


BODIES["preload"] = BODIES["ids"]
_OTHER_PARAMS = {"preload": "ptr addrspace(1) noalias inreg %out, i32 inreg %block"}


@lru_cache(maxsize=32)
def load(name: str, cpu: str = "gfx1100", features: str = "") -> Loaded:
    params = _OTHER_PARAMS.get(name, _PARAMS)
    return Loaded(compile_object(kernel(BODIES[name], params, top=_TOP), cpu, features))


class Work:
    """A kernel in the memory of a rig, with its arguments and room for its results."""

    def __init__(self, rig: Rig, name: str, block: int = 32, cpu: str = "gfx1100") -> None:
        loaded = load(name, cpu)
        image = np.frombuffer(bytes(loaded.image) + bytes(512), np.uint8)
        self.out = np.zeros(OUT_WORDS, np.uint32)
        arguments = OUT.to_bytes(8, "little") + block.to_bytes(4, "little") + bytes(268)
        rig.memory.place(CODE, image)
        rig.memory.place(ARGUMENTS, np.frombuffer(arguments, np.uint8))
        rig.memory.place(OUT, self.out)
        self.descriptor = bytes(image[loaded.descriptor : loaded.descriptor + 64])
        self.descriptor_va = CODE + loaded.descriptor
        self.entry = CODE + loaded.entry
        words = np.frombuffer(self.descriptor, np.uint32)
        self.lds, self.private = int(words[0]), int(words[1])
        self.rsrc3, self.rsrc1, self.rsrc2 = int(words[11]), int(words[12]), int(words[13])
        self.block = block

    def user_data(self) -> list[int]:
        return user_data(self.descriptor, ARGUMENTS)

    def pm4(self, dims: tuple[int, int, int], initiator: int = 0x8005, **changes) -> list[int]:
        """SET_SH_REG of everything, then DISPATCH_DIRECT; `changes` replace or drop registers."""
        # src: gc_11_0_0_offset.h; offsets are from SH register 0x2c00.
        data = self.user_data()
        registers = {
            "pgm": (0x20C, [self.entry >> 8 & 0xFFFFFFFF, self.entry >> 40]),
            "rsrc": (0x212, [self.rsrc1, self.rsrc2 | -(-self.lds // 512) << 15]),
            "rsrc3": (0x228, [self.rsrc3]),
            "tmpring": (0x218, [0]),
            "scratch": (0x210, [SCRATCH >> 8 & 0xFFFFFFFF, SCRATCH >> 40]),
            "restart": (0x21B, [0, 0, 0]),
            "user": (0x240, data),
            "limits": (0x215, [0]),
            "start": (0x204, [0, 0, 0, self.block, 1, 1, 0, 0]),
        } | changes
        words: list[int] = []
        for item in registers.values():
            if item is not None:
                offset, values = item
                words += [0xC0007600 | len(values) << 16, offset, *values]
        return [*words, 0xC0031500, *dims, initiator]


def user_data(descriptor: bytes, arguments: int) -> list[int]:
    """User registers with the kernel arguments' address where the kernel wants it."""
    # src: AMDGPUUsage, kernel_code_properties: which pointers come in which order.
    properties = descriptor[56] | descriptor[57] << 8
    sizes = [(1, 4), (2, 2), (4, 2), (8, 2), (16, 2), (32, 2), (64, 1)]
    values = {8: [arguments & 0xFFFFFFFF, arguments >> 32]}
    present = [values.get(bit, [0] * count) for bit, count in sizes if properties & bit]
    return [word for words in present for word in words]


def ids(groups: int, block: int) -> np.ndarray:
    """What "ids" stores."""
    group, item = np.divmod(np.arange(groups * block), block)
    return (1000 * group + item).astype(np.uint32)
