"""Numbers and structs of KGSL.

src: Mesa 25.0.7, src/freedreno/vulkan/msm_kgsl.h, for a 64-bit process
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.machine.records import Record

TYPE = 0x09
_WRITE, _READ_WRITE = 1, 3


@dataclass(frozen=True, slots=True)
class Call:
    """One ioctl."""

    name: str
    number: int
    direction: int
    record: Record

    @property
    def request(self) -> int:
        """_IOC(direction, 9, number, size)."""
        return self.direction << 30 | self.record.nbytes << 16 | TYPE << 8 | self.number


def _call(name: str, number: int, direction: int, members: str) -> Call:
    return Call(name, number, direction, Record(name, members))


_PROPERTY = "type:I value:Q sizebytes:Q"
CALLS = (
    _call("getproperty", 0x02, _READ_WRITE, _PROPERTY),
    _call("waittimestamp_ctxtid", 0x07, _WRITE, "context_id:I timestamp:I timeout:I"),
    _call("drawctxt_create", 0x13, _READ_WRITE, "flags:I drawctxt_id:I"),
    _call("drawctxt_destroy", 0x14, _WRITE, "drawctxt_id:I"),
    _call("map_user_mem", 0x15, _READ_WRITE,
          "fd:i gpuaddr:Q len:Q offset:Q hostptr:Q memtype:I flags:I"),
    _call("readtimestamp_ctxtid", 0x16, _READ_WRITE, "context_id:I type:I timestamp:I"),
    _call("sharedmem_free", 0x21, _WRITE, "gpuaddr:Q"),
    _call("gpumem_alloc", 0x2F, _READ_WRITE, "gpuaddr:Q size:Q flags:I"),
    _call("setproperty", 0x32, _WRITE, _PROPERTY),
    _call("timestamp_event", 0x33, _READ_WRITE,
          "type:i timestamp:I context_id:I priv:Q len:Q"),
    _call("gpumem_alloc_id", 0x34, _READ_WRITE,
          "id:I flags:I size:Q mmapsize:Q gpuaddr:Q pad:2Q"),
    _call("gpumem_free_id", 0x35, _READ_WRITE, "id:I pad:I"),
    _call("gpumem_get_info", 0x36, _READ_WRITE,
          "gpuaddr:Q id:I flags:I size:Q mmapsize:Q useraddr:Q pad:4Q"),
    _call("gpumem_sync_cache", 0x37, _WRITE, "gpuaddr:Q id:I op:I offset:Q length:Q"),
    _call("perfcounter_read", 0x3B, _READ_WRITE, "reads:Q count:I pad:2I"),
    _call("gpuobj_alloc", 0x45, _READ_WRITE,
          "size:Q flags:Q va_len:Q mmapsize:Q id:I metadata_len:I metadata:Q"),
    _call("gpuobj_free", 0x46, _WRITE, "flags:Q priv:Q id:I type:I len:I"),
    _call("gpuobj_info", 0x47, _READ_WRITE,
          "gpuaddr:Q flags:Q size:Q va_len:Q va_addr:Q id:I"),
    _call("gpuobj_import", 0x48, _READ_WRITE, "priv:Q priv_len:Q flags:Q type:I id:I"),
    _call("gpuobj_sync", 0x49, _WRITE, "objs:Q obj_len:I count:I"),
    _call("gpu_command", 0x4A, _READ_WRITE,
          "flags:Q cmdlist:Q cmdsize:I numcmds:I objlist:Q objsize:I numobjs:I "
          "synclist:Q syncsize:I numsyncs:I context_id:I timestamp:I"),
    _call("get_fault_report", 0x5E, _READ_WRITE,
          "faultlist:Q faultnents:I faultsize:I context_id:I padding:I"),
)  # fmt: skip
BY_NUMBER = {call.number: call for call in CALLS}
COMMAND_OBJECT = Record("command_object", "offset:Q gpuaddr:Q size:Q flags:I id:I")
SYNCPOINT = Record("command_syncpoint", "priv:Q size:Q type:I")
SYNC_TIMESTAMP = Record("cmd_syncpoint_timestamp", "context_id:I timestamp:I")
SYNC_OBJ = Record("gpuobj_sync_obj", "offset:Q length:Q id:I op:I")
FAULT = Record("fault", "fault:Q type:I count:I size:I padding:I")
PAGEFAULT_REPORT = Record("pagefault_report", "fault_addr:Q reserved:2Q fault_type:I pad:I")
READ_GROUP = Record("perfcounter_read_group", "groupid:I countable:I value:Q")
CONSTRAINT = Record("device_constraint", "type:I context_id:I data:Q size:Q")
DEVINFO = Record(
    "devinfo", "device_id:I chip_id:I mmu_enabled:I gmem_gpubaseaddr:Q gpu_id:I gmem_sizebytes:Q"
)

# Flags of memory
MEM_READ_ONLY, MEM_SECURE, MEM_CPU_MAP, MEM_IO_COHERENT = 1 << 24, 1 << 3, 1 << 28, 1 << 31
MEM_SPARSE = 3 << 29
CACHE_SHIFT, CACHE_MASK = 26, 3
WRITE_COMBINE, UNCACHED, WRITE_THROUGH, WRITE_BACK = 0, 1, 2, 3
ALIGN_SHIFT, ALIGN_MASK = 16, 0xFF
USER_MEM_ADDR, USER_MEM_DMABUF = 2, 3
SYNC_TO_GPU, SYNC_FROM_GPU, SYNC_RANGE = 1, 2, 1 << 31

# Contexts and submissions
CTX_SAVE_GMEM, CTX_NO_GMEM_ALLOC, CTX_PREAMBLE = 0x1, 0x2, 0x10
CTX_USER_TS, CTX_NO_FAULT_TOLERANCE = 0x80, 0x200
CTX_PER_CONTEXT_TS, CTX_SECURE, CTX_LPAC = 0x40, 0x20000, 1 << 29
CTX_INVALIDATE_ON_FAULT, CTX_FAULT_INFO = 1 << 28, 1 << 30
CTX_PRIORITY_SHIFT, CTX_PRIORITY_MASK = 12, 0xF
CMD_MARKER, CMD_SYNC, CMD_SPARSE, CMD_PROFILING = 0x2, 0x400, 0x1000, 0x10
CMDLIST_KINDS = 0x7
SYNC_TYPE_TIMESTAMP, SYNC_TYPE_FENCE = 0, 1
EVENT_FENCE = 2
TS_CONSUMED, TS_RETIRED, TS_QUEUED = 1, 2, 3
NO_ERROR, GUILTY, INNOCENT = 0, 1, 2
FAULT_PAGEFAULT, FAULT_TYPES = 1, 2
FAULT_READ, FAULT_WRITE, FAULT_TRANSLATION, FAULT_PERMISSION = 1, 2, 4, 8
