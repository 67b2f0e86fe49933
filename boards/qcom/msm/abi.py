"""Numbers and structs of DRM and of its msm driver.

src: Linux 7.3, include/uapi/drm/msm_drm.h, drm.h. What changed from release to release is in
behaviour.txt.
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.machine.records import Record

TYPE, COMMAND_BASE = 0x64, 0x40
_NONE, _WRITE, _READ_WRITE = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Call:
    """One ioctl."""

    name: str
    number: int
    direction: int
    record: Record

    @property
    def request(self) -> int:
        """_IOC(direction, 'd', number, size)."""
        return self.direction << 30 | self.record.nbytes << 16 | TYPE << 8 | self.number


def _call(name: str, number: int, direction: int, members: str) -> Call:
    return Call(name, number, direction, Record(name, members))


_SUBMIT = (
    "flags:I fence:I nr_bos:I nr_cmds:I bos:Q cmds:Q fence_fd:i queueid:I in_syncobjs:Q "
    "out_syncobjs:Q nr_in_syncobjs:I nr_out_syncobjs:I syncobj_stride:I pad:I"
)
_WAIT = "handles:Q timeout_nsec:q count_handles:I flags:I first_signaled:I pad:I deadline_nsec:Q"
_TIMELINE_WAIT = (
    "handles:Q points:Q timeout_nsec:q count_handles:I flags:I first_signaled:I pad:I "
    "deadline_nsec:Q"
)
_OP = "op:I handle:I obj_offset:Q iova:Q range:Q flags:I pad:I"
_VM_BIND = (
    "flags:I nr_ops:I fence_fd:i queue_id:I in_syncobjs:Q out_syncobjs:Q nr_in_syncobjs:I "
    "nr_out_syncobjs:I syncobj_stride:I op_stride:I "
) + " ".join(f"op_{member}" for member in _OP.split())
"""With one operation inside; or, in its first 8 bytes, the address of several."""
CALLS = (
    _call("version", 0x00, _READ_WRITE,
          "major:i minor:i patch:i name_len:Q name:Q date_len:Q date:Q desc_len:Q desc:Q"),
    _call("gem_close", 0x09, _WRITE, "handle:I pad:I"),
    _call("get_cap", 0x0C, _READ_WRITE, "capability:Q value:Q"),
    _call("prime_handle_to_fd", 0x2D, _READ_WRITE, "handle:I flags:I fd:i"),
    _call("prime_fd_to_handle", 0x2E, _READ_WRITE, "handle:I flags:I fd:i"),
    _call("syncobj_create", 0xBF, _READ_WRITE, "handle:I flags:I"),
    _call("syncobj_destroy", 0xC0, _READ_WRITE, "handle:I pad:I"),
    _call("syncobj_handle_to_fd", 0xC1, _READ_WRITE, "handle:I flags:I fd:i pad:I"),
    _call("syncobj_fd_to_handle", 0xC2, _READ_WRITE, "handle:I flags:I fd:i pad:I"),
    _call("syncobj_wait", 0xC3, _READ_WRITE, _WAIT),
    _call("syncobj_reset", 0xC4, _READ_WRITE, "handles:Q count_handles:I pad:I"),
    _call("syncobj_signal", 0xC5, _READ_WRITE, "handles:Q count_handles:I pad:I"),
    _call("syncobj_timeline_wait", 0xCA, _READ_WRITE, _TIMELINE_WAIT),
    _call("syncobj_query", 0xCB, _READ_WRITE, "handles:Q points:Q count_handles:I flags:I"),
    _call("syncobj_timeline_signal", 0xCD, _READ_WRITE,
          "handles:Q points:Q count_handles:I flags:I"),
    _call("get_param", 0x40, _READ_WRITE, "pipe:I param:I value:Q len:I pad:I"),
    _call("set_param", 0x41, _WRITE, "pipe:I param:I value:Q len:I pad:I"),
    _call("gem_new", 0x42, _READ_WRITE, "size:Q flags:I handle:I"),
    _call("gem_info", 0x43, _READ_WRITE, "handle:I info:I value:Q len:I pad:I"),
    _call("gem_cpu_prep", 0x44, _WRITE, "handle:I op:I tv_sec:q tv_nsec:q"),
    _call("gem_cpu_fini", 0x45, _WRITE, "handle:I"),
    _call("gem_submit", 0x46, _READ_WRITE, _SUBMIT),
    _call("wait_fence", 0x47, _WRITE, "fence:I flags:I tv_sec:q tv_nsec:q queueid:I pad:I"),
    _call("gem_madvise", 0x48, _READ_WRITE, "handle:I madv:I retained:I"),
    _call("submitqueue_new", 0x4A, _READ_WRITE, "flags:I prio:I id:I"),
    _call("submitqueue_close", 0x4B, _WRITE, "id:I"),
    _call("vm_bind", 0x4D, _READ_WRITE, _VM_BIND),
    _call("submitqueue_query", 0x4C, _WRITE, "data:Q id:I param:I len:I pad:I"),
)  # fmt: skip
BY_NUMBER = {call.number: call for call in CALLS}
SUBMIT_BO = Record("gem_submit_bo", "flags:I handle:I presumed:Q")
SUBMIT_CMD = Record(
    "gem_submit_cmd", "type:I submit_idx:I submit_offset:I size:I pad:I nr_relocs:I relocs:Q"
)
VM_BIND_OP = Record("vm_bind_op", _OP)
SUBMIT_SYNCOBJ = Record("gem_submit_syncobj", "handle:I flags:I point:Q")

PIPE_3D0, PIPE_MASK = 0x10, 0xFFFF
BO_READ_ONLY, BO_FLAGS = 0x2, 0xF0003
BO_CACHE_MASK, BO_CACHED, BO_WC = 0xF0000, 0x10000, 0x20000
BO_UNCACHED, BO_CACHED_COHERENT = 0x40000, 0x80000
SUBMIT_FLAGS = 0xFC00_0000
FENCE_FD_IN, FENCE_FD_OUT, SUDO = 0x4000_0000, 0x2000_0000, 0x1000_0000
SYNCOBJ_IN, SYNCOBJ_OUT, FENCE_SN_IN = 0x0800_0000, 0x0400_0000, 0x0200_0000
BO_SUBMIT_MANDATORY, QUEUE_VM_BIND = 0x3, 0x2
BO_NO_SHARE = 0x4
CMD_BUF, CMD_IB_TARGET, CMD_CTX_RESTORE = 1, 2, 3
