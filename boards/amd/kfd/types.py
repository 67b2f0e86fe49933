"""Arguments of KFD's ioctls: fields in order, as the C compiler lays them out.

src: include/uapi/linux/kfd_ioctl.h of Linux 6.12 (KFD 1.17)
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

MAJOR = 1
_CODES = {"u64": "Q", "u32": "I", "i32": "i"}


class CStruct:
    """A C struct of 32- and 64-bit members without padding: "u64 size, u32 gpu_id"."""

    def __init__(self, members: str) -> None:
        pairs = [member.split() for member in members.split(",")]
        self.names = [name for _, name in pairs]
        self._struct = struct.Struct("<" + "".join(_CODES[kind] for kind, _ in pairs))
        self.size = self._struct.size
        self.offsets: dict[str, int] = {}
        offset = 0
        for kind, name in pairs:
            self.offsets[name] = offset
            offset += struct.calcsize(_CODES[kind])

    def unpack(self, data: bytes) -> SimpleNamespace:
        """Members by name; bytes that are missing count as zero, as the kernel extends them."""
        values = self._struct.unpack(data[: self.size].ljust(self.size, b"\0"))
        return SimpleNamespace(**dict(zip(self.names, values, strict=True)))

    def pack(self, args: SimpleNamespace) -> bytes:
        """The struct again."""
        return self._struct.pack(*(getattr(args, name) for name in self.names))

    def make(self, **values: int) -> bytes:
        """A struct with these members, the others zero."""
        return self._struct.pack(*(values.get(name, 0) for name in self.names))


IOCTLS = {
    0x01: ("get_version", CStruct("u32 major_version, u32 minor_version")),
    0x02: (
        "create_queue",
        CStruct(
            "u64 ring_base_address, u64 write_pointer_address, u64 read_pointer_address,"
            "u64 doorbell_offset, u32 ring_size, u32 gpu_id, u32 queue_type,"
            "u32 queue_percentage, u32 queue_priority, u32 queue_id, u64 eop_buffer_address,"
            "u64 eop_buffer_size, u64 ctx_save_restore_address, u32 ctx_save_restore_size,"
            "u32 ctl_stack_size, u32 sdma_engine_id, u32 pad"
        ),
    ),
    0x03: ("destroy_queue", CStruct("u32 queue_id, u32 pad")),
    0x04: (
        "set_memory_policy",
        CStruct(
            "u64 alternate_aperture_base, u64 alternate_aperture_size, u32 gpu_id,"
            "u32 default_policy, u32 alternate_policy, u32 pad"
        ),
    ),
    0x05: (
        "get_clock_counters",
        CStruct(
            "u64 gpu_clock_counter, u64 cpu_clock_counter, u64 system_clock_counter,"
            "u64 system_clock_freq, u32 gpu_id, u32 pad"
        ),
    ),
    0x07: (
        "update_queue",
        CStruct(
            "u64 ring_base_address, u32 queue_id, u32 ring_size, u32 queue_percentage,"
            "u32 queue_priority"
        ),
    ),
    0x08: (
        "create_event",
        CStruct(
            "u64 event_page_offset, u32 event_trigger_data, u32 event_type, u32 auto_reset,"
            "u32 node_id, u32 event_id, u32 event_slot_index"
        ),
    ),
    0x09: ("destroy_event", CStruct("u32 event_id, u32 pad")),
    0x0A: ("set_event", CStruct("u32 event_id, u32 pad")),
    0x0B: ("reset_event", CStruct("u32 event_id, u32 pad")),
    0x0C: (
        "wait_events",
        CStruct("u64 events_ptr, u32 num_events, u32 wait_for_all, u32 timeout, u32 wait_result"),
    ),
    0x11: ("set_scratch_backing_va", CStruct("u64 va_addr, u32 gpu_id, u32 pad")),
    0x12: (
        "get_tile_config",
        CStruct(
            "u64 tile_config_ptr, u64 macro_tile_config_ptr, u32 num_tile_configs,"
            "u32 num_macro_tile_configs, u32 gpu_id, u32 gb_addr_config, u32 num_banks,"
            "u32 num_ranks"
        ),
    ),
    0x13: ("set_trap_handler", CStruct("u64 tba_addr, u64 tma_addr, u32 gpu_id, u32 pad")),
    0x14: (
        "get_process_apertures_new",
        CStruct("u64 kfd_process_device_apertures_ptr, u32 num_of_nodes, u32 pad"),
    ),
    0x15: ("acquire_vm", CStruct("u32 drm_fd, u32 gpu_id")),
    0x16: (
        "alloc_memory_of_gpu",
        CStruct("u64 va_addr, u64 size, u64 handle, u64 mmap_offset, u32 gpu_id, u32 flags"),
    ),
    0x17: ("free_memory_of_gpu", CStruct("u64 handle")),
    0x18: (
        "map_memory_to_gpu",
        CStruct("u64 handle, u64 device_ids_array_ptr, u32 n_devices, u32 n_success"),
    ),
    0x19: (
        "unmap_memory_from_gpu",
        CStruct("u64 handle, u64 device_ids_array_ptr, u32 n_devices, u32 n_success"),
    ),
    0x1A: ("set_cu_mask", CStruct("u32 queue_id, u32 num_cu_mask, u64 cu_mask_ptr")),
    0x1C: (
        "get_dmabuf_info",
        CStruct(
            "u64 size, u64 metadata_ptr, u32 metadata_size, u32 gpu_id, u32 flags, u32 dmabuf_fd"
        ),
    ),
    0x1D: ("import_dmabuf", CStruct("u64 va_addr, u64 handle, u32 gpu_id, u32 dmabuf_fd")),
    0x20: ("svm", CStruct("u64 start_addr, u64 size, u32 op, u32 nattr")),
    0x21: ("set_xnack_mode", CStruct("i32 xnack_enabled")),
    0x23: ("available_memory", CStruct("u64 available, u32 gpu_id, u32 pad")),
    0x24: ("export_dmabuf", CStruct("u64 handle, u32 flags, u32 dmabuf_fd")),
    0x25: ("runtime_enable", CStruct("u64 r_debug, u32 mode_mask, u32 capabilities_mask")),
}
"""nr -> (name without AMDKFD_IOC_, arguments). The others are refused."""
APERTURES = CStruct(
    "u64 lds_base, u64 lds_limit, u64 scratch_base, u64 scratch_limit, u64 gpuvm_base,"
    "u64 gpuvm_limit, u32 gpu_id, u32 pad"
)
EVENT_DATA_BYTES, EVENT_ID_OFFSET = 48, 40
MEMORY_EXCEPTION = CStruct(
    "u32 not_present, u32 read_only, u32 no_execute, u32 imprecise, u64 va, u32 gpu_id,"
    "u32 error_type"
)
HW_EXCEPTION = CStruct("u32 reset_type, u32 reset_cause, u32 memory_lost, u32 gpu_id")
# src: KFD_IOC_ALLOC_MEM_FLAGS_*
VRAM, GTT, USERPTR, DOORBELL, MMIO_REMAP = 1, 2, 4, 8, 16
WRITABLE, EXECUTABLE, PUBLIC, AQL_QUEUE_MEM = 1 << 31, 1 << 30, 1 << 29, 1 << 27
COHERENT, UNCACHED, EXT_COHERENT = 1 << 26, 1 << 25, 1 << 24
# src: KFD_IOC_QUEUE_TYPE_*
COMPUTE, SDMA, COMPUTE_AQL, SDMA_XGMI, SDMA_BY_ENG_ID = range(5)
# src: KFD_IOC_EVENT_*, KFD_IOC_WAIT_RESULT_*, KFD_HW_EXCEPTION_*, KFD_MEM_ERR_*
EVENT_SIGNAL, EVENT_HW_EXCEPTION, EVENT_DEBUG, EVENT_MEMORY = 0, 3, 5, 8
WAIT_COMPLETE, WAIT_TIMEOUT, WAIT_FAIL = 0, 1, 2
RESET_WHOLE_GPU, RESET_PER_ENGINE = 0, 1
CAUSE_GPU_HANG, CAUSE_ECC = 0, 1
MEM_ERR_NONE, MEM_ERR_SRAM_ECC, MEM_ERR_POISON = 0, 1, 2
# src: amdkfd/kfd_priv.h KFD_MMAP_TYPE_*, KFD_MMAP_GPU_ID_SHIFT
MMAP_TYPE_SHIFT, MMAP_DOORBELL, MMAP_EVENTS, MMAP_MMIO, MMAP_GPU_SHIFT = 62, 3, 2, 0, 46
