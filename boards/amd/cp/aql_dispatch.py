"""An AQL kernel dispatch packet turned into a launch."""

from __future__ import annotations

from dataclasses import replace

from boards.amd.cp import aql_layout as at
from boards.amd.cp.context import Context, bits, dwords
from boards.amd.cp.engine_types import PacketFault
from boards.amd.cp.launch import scratch_of
from boards.amd.wave.start import from_descriptor
from boards.amd.wave.types import Dispatch

_DESCRIPTOR_BYTES, _KERNARG_ALIGN = 64, 16
_GROUP_ITEMS_MAX = 1024
_SCRATCH_EN = 1
_PROPERTIES, _WAVE32 = 56, 10
_INDEX_STRIDE, _STRIDE_32, _STRIDE_64 = 3 * 32 + 21, 2, 3
_PRELOAD, _PRELOAD_SKIP_BYTES = 58, 256


class NeedsScratch(Exception):
    """The queue has too little scratch memory for this packet; `code` says so to its owner."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"insufficient scratch, code {code:#x}")


def _int(data: bytes, offset: int, nbytes: int) -> int:
    return int.from_bytes(data[offset : offset + nbytes], "little")


def _triple(data: bytes, offset: int, nbytes: int) -> tuple[int, int, int]:
    x, y, z = (_int(data, offset + nbytes * i, nbytes) for i in range(3))
    return x, y, z


class DispatchPacket:
    """The 64 bytes of a kernel dispatch, checked."""

    def __init__(self, context: Context, packet: bytes, va: int) -> None:
        self.context, self.packet, self.va = context, packet, va
        setup = _int(packet, 2, 2)
        self.group, self.grid = _triple(packet, 4, 2), _triple(packet, 12, 4)
        self.private_bytes, self.lds_bytes = _int(packet, 24, 4), _int(packet, 28, 4)
        self.kernel, self.kernarg = _int(packet, 32, 8), _int(packet, 40, 8)
        if _int(packet, 10, 2) or _int(packet, 48, 8) or setup >> 2:
            raise context.fault("reserved bits", "in a kernel dispatch packet")
        self._check_size(setup)

    def _check_size(self, dimensions: int) -> None:
        x, y, z = self.group
        sizes = (*self.group, *self.grid)
        if not 1 <= dimensions <= 3 or 0 in sizes:
            raise self._fault("invalid dimensions", f"{dimensions} of {self.grid}, {self.group}")
        if any(self.group[axis] != 1 or self.grid[axis] != 1 for axis in range(dimensions, 3)):
            raise self._fault("invalid dimensions", f"{self.grid} has more than {dimensions}")
        if x * y * z > _GROUP_ITEMS_MAX:
            raise self._fault("invalid group", f"{self.group} work-items")
        if self.lds_bytes > self.context.host.chip.lds_bytes:
            raise self._fault("invalid LDS", f"{self.lds_bytes} bytes")

    def _fault(self, kind: str, detail: str) -> PacketFault:
        return self.context.fault(kind, detail)

    def build(self, queue: bytes, queue_va: int, index: int) -> Dispatch:
        """The launch. Raises: PacketFault, MemoryFault, NeedsScratch."""
        context, chip = self.context, self.context.host.chip
        if not self.kernel or self.kernel % _DESCRIPTOR_BYTES:
            raise self._fault("invalid code", f"kernel object {self.kernel:#x}")
        if self.kernarg % _KERNARG_ALIGN:
            context.find("misaligned kernarg", f"{self.kernarg:#x}")
        descriptor = context.read(self.kernel, _DESCRIPTOR_BYTES)
        fixed = _int(descriptor, 0, 4)
        if self.lds_bytes < fixed:
            context.find("too little LDS", f"{self.lds_bytes} bytes of {fixed} the kernel has")
        if self.private_bytes < _int(descriptor, 4, 4):
            context.find("too little scratch", f"{self.private_bytes} bytes a work-item")
        groups = tuple(-(-n // size) for n, size in zip(self.grid, self.group, strict=True))
        scratch = _int(queue, at.QUEUE_SCRATCH_VA, 8)
        pointers = {
            "private_segment_buffer": self._scratch_buffer(queue, descriptor),
            "dispatch_ptr": self.va, "queue_ptr": queue_va, "kernarg": self.kernarg,
            "dispatch_id": index, "private_size": self.private_bytes,
            "flat_scratch": scratch,
        }  # fmt: skip
        plain = from_descriptor(
            descriptor, self.kernel, (groups[0], groups[1], groups[2]), self.group, pointers,
            lds_bytes=self.lds_bytes,
        )  # fmt: skip
        partial = any(n % size for n, size in zip(self.grid, self.group, strict=True))
        dispatch = replace(
            plain,
            lanes=64 if chip.family == "gfx9" else plain.lanes,
            items=self.grid if partial else None,
            shared_base=context.host.shared_base,
            private_base=context.host.private_base,
            max_steps=context.max_steps,
        )
        return self._preload(descriptor, self._scratch(dispatch, queue, scratch))

    def _scratch_buffer(self, queue: bytes, descriptor: bytes) -> int:
        """The resource of amd_queue_t, with the index stride that depends on the kernel."""
        resource = _int(queue, at.QUEUE_SCRATCH_BUFFER, 16)
        if self.context.host.chip.family == "gfx9":
            return resource
        # src: amd_aql_queue.cpp FillBufRsrcWord3_Gfx10: "filled in by CP"; word 3, bits [22:21].
        wave32 = _int(descriptor, _PROPERTIES, 2) >> _WAVE32 & 1
        return resource | (_STRIDE_32 if wave32 else _STRIDE_64) << _INDEX_STRIDE

    def _scratch(self, dispatch: Dispatch, queue: bytes, base: int) -> Dispatch:
        if not self.private_bytes and not dispatch.rsrc2 & _SCRATCH_EN:
            return dispatch
        tmpring = _int(queue, at.QUEUE_TMPRING, 4)
        wave_bytes, waves = scratch_of(self.context.host.chip, tmpring)
        if not waves or wave_bytes < self.private_bytes * dispatch.lanes:
            raise NeedsScratch(at.ERRORS[f"scratch {dispatch.lanes}"])
        return replace(
            dispatch, scratch_va=base, scratch_wave_bytes=wave_bytes, scratch_waves=waves
        )

    def _preload(self, descriptor: bytes, dispatch: Dispatch) -> Dispatch:
        """Kernel arguments in user registers, and the entry that expects them there."""
        # src: LLVM AMDGPUUsage, "Preloaded Kernel Arguments": length [6:0], offset [15:7] in
        # dwords; firmware that preloads starts 256 bytes after the entry.
        spec = _int(descriptor, _PRELOAD, 2)
        count, offset = bits(spec, 6, 0), bits(spec, 15, 7)
        if not count:
            return dispatch
        if self.context.host.chip.family != "gfx9":
            raise self._fault("invalid code", "this chip preloads no kernel arguments")
        words = dwords(self.context.waves.data.read(self.kernarg + 4 * offset, 4 * count))
        return replace(
            dispatch,
            entry=dispatch.entry + _PRELOAD_SKIP_BYTES,
            user_sgprs=dispatch.user_sgprs + words,
        )
