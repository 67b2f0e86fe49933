"""VM_BIND: the process says itself what is mapped where.

src: Linux 7.3, include/uapi/drm/msm_drm.h, drivers/gpu/drm/msm/msm_gem_vma.c msm_ioctl_vm_bind(),
vm_bind_job_lookup_ops(), lookup_op()
"""

from __future__ import annotations

import errno
from types import SimpleNamespace

from boards.qcom.hardware import AdrenoHardware
from boards.qcom.memory import PAGE_BYTES
from boards.qcom.msm import abi
from boards.qcom.msm.gem import VA_START, Gem
from boards.qcom.space import Mapping, Space
from boards.qcom.user import UserMemory

_UNMAP, _MAP, _MAP_NULL = 0, 1, 2
_MOST_OPS = 1 << 12


class VmBind:
    """The address space of an open file that has chosen VM_BIND."""

    def __init__(self, hardware: AdrenoHardware, gem: Gem, user: UserMemory, va_bytes: int) -> None:
        self._hardware, self._gem, self._user = hardware, gem, user
        self._end = VA_START + va_bytes
        self.space = Space(hardware.forgive)
        self.unusable = False
        """After a fault that reset the GPU. # src: msm_gpu.c recover_worker()"""

    def check(self) -> None:
        """Raises: OSError EPIPE for an address space that was given up."""
        if self.unusable:
            raise OSError(errno.EPIPE, "the address space is unusable after a fault")

    def bind(self, args: SimpleNamespace) -> None:
        """All operations, or none where one is not allowed.

        Raises: OSError EINVAL, ENOENT, EPIPE.
        """
        self.check()
        if args.nr_ops > _MOST_OPS:
            raise OSError(errno.EINVAL, f"{args.nr_ops} operations")
        ops = [self._op(args)] if args.nr_ops == 1 else self._ops(args)
        for op in ops:
            self._check(op)
        for op in ops:
            self._clear(op.iova, op.iova + op.range)
            if op.op == _MAP:
                bo = self._gem.get(op.handle)
                self.space.map(Mapping(
                    op.iova, op.range, bo.memory, op.obj_offset,
                    writable=not bo.flags & abi.BO_READ_ONLY,
                ))  # fmt: skip

    @staticmethod
    def _op(args: SimpleNamespace) -> SimpleNamespace:
        names = [member.name for member in abi.VM_BIND_OP.members]
        return SimpleNamespace(**{name: getattr(args, f"op_{name}") for name in names})

    def _ops(self, args: SimpleNamespace) -> list[SimpleNamespace]:
        size = abi.VM_BIND_OP.nbytes
        va = args.op_op | args.op_handle << 32
        data = self._user.load(va, size * args.nr_ops) if args.nr_ops else b""
        return [abi.VM_BIND_OP.load(data[at : at + size]) for at in range(0, len(data), size)]

    def _check(self, op: SimpleNamespace) -> None:
        if op.op > _MAP_NULL or op.flags & ~1:
            raise OSError(errno.EINVAL, f"operation {op.op} of flags {op.flags:#x}")
        if (op.iova | op.range | op.obj_offset) % PAGE_BYTES or not op.range:
            raise OSError(errno.EINVAL, f"{op.range:#x} bytes at {op.iova:#x}")
        if op.iova < VA_START or op.iova + op.range > self._end:
            raise OSError(errno.EINVAL, f"address {op.iova:#x}")
        if op.op == _MAP_NULL:
            raise OSError(errno.EINVAL, "this SMMU has no PRR")
        if op.op == _MAP:
            bo = self._gem.get(op.handle, errno.EINVAL)
            if op.obj_offset + op.range > bo.memory.nbytes:
                raise OSError(errno.EINVAL, f"{op.range:#x} bytes of {bo.memory.name}")
        elif op.handle:
            raise OSError(errno.EINVAL, "UNMAP with an object")

    def _clear(self, low: int, high: int) -> None:
        """What is mapped in a range goes; a mapping that reaches out of it keeps its ends."""
        for old in self.space.mappings:
            if old.end <= low or old.va >= high:
                continue
            self.space.unmap(old.va)
            if old.va < low:
                self._keep(old, old.va, low)
            if old.end > high:
                self._keep(old, high, old.end)
            self._hardware.memory.drop(old.memory)

    def _keep(self, old: Mapping, low: int, high: int) -> None:
        offset = old.offset + low - old.va
        self.space.map(Mapping(low, high - low, old.memory, offset, writable=old.writable))

    def end(self) -> None:
        """The file is closed."""
        self._clear(0, 1 << 64)
