"""Faults on the GPU by our own driver, one after the other in one process; what it reports.

python3 faults.py KIND ...     # a line of JSON for each, and one in the kernel's log before it
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from compilers.toolchains import compile_source
from drivers.amd.aql_ring import AqlRing
from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.base.contracts import Binary
from drivers.base.errors import DeviceError
from drivers.choice import choose
from drivers.world.linux import LinuxWorld
from queues.amd.kernel_code import AmdCode

LANES = 64
NOWHERE = 0x1000_0000
"""Below everything that the driver maps."""
_WORKGROUP = f'attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{LANES}" }}'
ADD = f"""
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %q = getelementptr float, ptr addrspace(1) %b, i32 %i
  %r = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %p
  %y = load float, ptr addrspace(1) %q
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %r
  ret void
}}
declare i32 @llvm.amdgcn.workitem.id.x()
{_WORKGROUP}
"""
ATOMIC = f"""
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {{
  %old = atomicrmw add ptr addrspace(1) %a, i32 1 syncscope("agent") monotonic, align 4
  ret void
}}
{_WORKGROUP}
"""
ENDLESS = f"""
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {{
  br label %loop
loop:
  store volatile i32 1, ptr addrspace(1) %a
  br label %loop
}}
{_WORKGROUP}
"""
_GFX9 = {
    "illegal": (0xFFFF_FFFF,), "trap": (0xBF92_0002,),
    "execute": (0xBE80_00FF, NOWHERE, 0xBE81_0080, 0xBE80_1D00),
}  # fmt: skip
_LATER = {
    "illegal": (0xFFFF_FFFF,), "trap": (0xBF90_0002,),
    "execute": (0xBE80_00FF, NOWHERE, 0xBE81_0080, 0xBE80_4800),
}  # fmt: skip
"""First instructions of a kernel: s_trap 2; s_mov_b32 s0, NOWHERE, s_mov_b32 s1, 0, s_setpc_b64
s[0:1]. src: CDNA3 ISA, RDNA3 ISA (RDNA4's are the same): SOPP, SOP1, opcodes"""
_NO_PACKET, _PACKET_BYTES = 9, 64
HANG_S, OTHERWISE_S = "4", "60"
"""AMD_HANG_S: of a hang, and of faults that are to be reported before it."""
MARK = "fault:"
"""Begins the line in the kernel's log."""


def built(text: str, arch: str) -> Binary:
    """A kernel with workgroups of `LANES`."""
    return compile_source(text, "k", "LLVM", arch, frozenset()).in_blocks_of(LANES)


def patched(binary: Binary, at: int, data: bytes) -> Binary:
    """The binary with other bytes in its image."""
    image = bytearray(binary.image)
    image[at : at + len(data)] = data
    return replace(binary, image=bytes(image))


def broken(kind: str, good: Binary, arch: str) -> Binary:
    """The kernel that makes the fault; the good one where its arguments do."""
    words = (_GFX9 if arch.startswith("gfx9") else _LATER).get(kind)
    if words is not None:
        return patched(good, AmdCode.of(good).code_offset, struct.pack(f"<{len(words)}I", *words))
    text = {"misaligned": ATOMIC, "hang": ENDLESS}.get(kind)
    return built(text, arch) if text else good


class Bench:
    """A device with a kernel that adds, those that make faults, and buffers."""

    def __init__(self, device: AmdDevice, kinds: Sequence[str]) -> None:
        self.device = device
        good = built(ADD, device.arch)
        self.good = device.load(good)
        self.bad = {kind: device.load(broken(kind, good, device.arch)) for kind in kinds}
        self.values = np.arange(LANES, dtype=np.float32)
        self.x, self.out = device.alloc(4 * LANES), device.alloc(4 * LANES)
        device.copy_in(self.x, memoryview(self.values).cast("B"))

    def right(self) -> bool:
        """Whether the next launch is."""
        got = np.zeros_like(self.values)
        self.device.launch(self.good, [self.x, self.x, self.out], 1)
        self.device.copy_out(memoryview(got).cast("B"), self.out)
        return bool(np.array_equal(got, 2 * self.values))

    def fault(self, kind: str) -> None:
        """Make it, and wait. Raises: what the driver reports."""
        x = self.x.gpu_va
        if kind == "packet":
            self._packet()
        else:
            a = {"read": NOWHERE, "misaligned": x + 2, "hang": self.out.gpu_va}.get(kind, x)
            out = NOWHERE if kind == "write" else self.out.gpu_va
            self.device.launch(self.bad[kind], [a, x, out], 1)
        self.device.synchronize()

    def report(self, kind: str) -> dict[str, object]:
        """The fault, then the same process's next launch."""
        before, said = self.right(), None
        Path("/dev/kmsg").write_text(f"{MARK} {kind}", encoding="ascii")
        try:
            self.fault(kind)
        except DeviceError as error:
            said = error
        try:
            after = "right" if self.right() else "wrong"
        except DeviceError as error:
            after = type(error).__name__
        return {"fault": kind, "before": before, **described(said), "after": after}

    def _packet(self) -> None:
        """A packet of a type that there is not."""
        ring = self.device.compute
        if not isinstance(ring, AqlRing):
            raise TypeError("not a queue of AQL packets")
        with ring.lock:
            ring.play(memoryview(_NO_PACKET.to_bytes(_PACKET_BYTES, "little")))


def described(error: DeviceError | None) -> dict[str, object]:
    """Its class and fields."""
    if error is None:
        return {"error": "nothing"}
    names = ("kind", "gpu_va", "access", "queue", "kernel")
    fields = {name: getattr(error, name) for name in names if hasattr(error, name)}
    return {"error": type(error).__name__, **fields, "said": str(error)}


def run(kinds: Sequence[str], environ: Mapping[str, str]) -> None:
    """All of them on one device."""
    hang_s = HANG_S if "hang" in kinds else OTHERWISE_S
    wanted = {**environ, "AMD_HANG_S": hang_s, "AMD_AQL": str(int("packet" in kinds))}
    with open_amd(LinuxWorld(), choose(wanted)) as device:
        bench = Bench(device, kinds)
        for kind in kinds:
            print(json.dumps(bench.report(kind)), flush=True)


def main() -> None:
    """The kinds that the command line names."""
    run(sys.argv[1:], os.environ)


if __name__ == "__main__":
    main()
