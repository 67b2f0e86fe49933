"""A process as the kernel driver knows it: its ioctls, and what becomes of its faults.

src: amdkfd/kfd_chardev.c, kfd_process.c, kfd_debug.c
"""

from __future__ import annotations

import errno
import struct
from types import SimpleNamespace

import numpy as np

from boards.amd.chip_data import GB_ADDR_CONFIG
from boards.amd.cp.engine_types import PacketFault, QueueSpec
from boards.amd.hardware import Gpu, Hardware
from boards.amd.kfd import types as k
from boards.amd.kfd.device import Device, ProcessHost
from boards.amd.kfd.events import Events
from boards.amd.kfd.memory import Memory
from boards.amd.kfd.queue import Queue, Queues
from boards.amd.wave.types import MemoryFault, WaveFault
from boards.machine import host

_GPUVM_BASE, _GPUVM_LIMIT = 1 << 16, (1 << 47) - 1
"""src: kfd_flat_memory.c kfd_init_apertures_v9(), AMDGPU_VA_RESERVED_BOTTOM"""
_APERTURE_BYTES = 1 << 32
_PAGE_MASK = ~0xFFF
_NS_PER_S = 1_000_000_000
_HEADER_PAYLOAD, _HEADER_EVENT, _HEADER_BYTES = 24, 32, 40
"""src: kfd_ioctl.h struct kfd_context_save_area_header"""
# src: kfd_ioctl.h enum kfd_dbg_trap_exception_code, KFD_EC_MASK
_EC_ABORT, _EC_TRAP, _EC_ILLEGAL, _EC_VIOLATION = 1, 2, 4, 5
_EC_PACKET_RESERVED, _EC_PACKET = 19, 20
_WAVE_CODES = {"illegal instruction": _EC_ILLEGAL, "trap": _EC_TRAP}
_ABORT = "trap 2"
"""src: ROCr trap_handler.s TRAP_ID_ABORT: llvm.trap's s_trap 2 is sent as EC_QUEUE_WAVE_ABORT"""
_RUNTIME_ENABLE = 1
_TILE_MODES, _MACRO_TILE_MODES = 32, 16
"""src: amdgpu_gfx.h struct amdgpu_gfx_config, sizes of the arrays"""


class Process:
    """One process that has /dev/kfd open."""

    def __init__(self, hardware: Hardware, pid: int) -> None:
        self.hardware, self.pid = hardware, pid
        self.devices = {gpu.gpu_id: self._new_device(gpu) for gpu in hardware.gpus}
        self.queues = Queues(hardware, self.device)
        self.queues.destroyed_hung = self.reset_queue
        self.events = Events(hardware.clock, self.queues.pump, hardware.rules)
        self.memory = Memory(hardware, self.device)
        self.runtime_enabled = self.xnack = False
        self.muted: set[Queue] = set()
        """Queues whose doorbells the fault panel loses."""
        self.alive = True

    def _new_device(self, gpu: Gpu) -> Device:
        holder: list[Device] = []

        def fault(spec: QueueSpec, error: Exception) -> None:
            self.queue_fault(holder[0], spec, error)

        host_side = ProcessHost(self.hardware, gpu.chip, self.interrupt, fault)
        holder.append(Device(self.hardware, gpu, self.pid, host_side))
        return holder[0]

    def device(self, gpu_id: int) -> Device:
        """This process on a GPU. Raises: OSError EINVAL."""
        found = self.devices.get(gpu_id)
        if found is None:
            raise OSError(errno.EINVAL, f"no GPU {gpu_id:#x}")
        return found

    def interrupt(self, context_id: int) -> None:
        """An end-of-pipe or trap interrupt of one of the queues."""
        if not self.events.interrupt(context_id):
            self.hardware.find("interrupt of no event", f"context id {context_id:#x}")

    def ring(self, device: Device, offset: int, nbytes: int, value: int) -> None:
        """A store to the doorbell page."""
        if nbytes != 8:
            self.hardware.find("doorbell", "a 32-bit store to a 64-bit doorbell")
        for queue in self.queues.by_id.values():
            if queue in self.muted and queue.device is device and queue.doorbell * 8 == offset:
                return
        if self.queues.ring(device, offset, value) is None:
            self.hardware.find("doorbell", "a store to a doorbell that no queue has", hex(offset))

    # Faults

    def queue_fault(self, device: Device, spec: QueueSpec, error: Exception) -> None:
        """What the kernel makes of a queue that stopped."""
        access = getattr(error, "access", "")
        kind = getattr(error, "kind", "")
        if access in ("read", "write", "execute") and kind != "misaligned":
            self.memory_fault(device, int(getattr(error, "va", 0)), kind, access)
        elif isinstance(error, PacketFault):
            self._exception(spec, _EC_PACKET_RESERVED if "reserved" in kind else _EC_PACKET)
        elif isinstance(error, WaveFault):
            code = _WAVE_CODES.get(kind, _EC_VIOLATION)
            self._exception(spec, _EC_ABORT if error.detail == _ABORT else code)
        elif isinstance(error, MemoryFault):
            self._exception(spec, _EC_VIOLATION)
        else:
            self._exception(spec, _EC_ABORT)

    def memory_fault(self, device: Device, va: int, kind: str, access: str) -> None:
        """A page fault. src: kfd_int_process_v11.c event_interrupt_wq_v11()

        The kernel reports the page alone, and a missing execute permission sets no bit. A store to
        an unmapped page lacks both what makes it valid and what makes it writable.
        """
        data = k.MEMORY_EXCEPTION.make(
            not_present=int(kind == "unmapped"),
            read_only=int(access == "write"),
            va=va & _PAGE_MASK,
            gpu_id=device.gpu.gpu_id,
        )
        options, rules = self.hardware.options, self.hardware.rules
        if "silent_page_faults" in rules and device.gpu.chip.family == "gfx11":
            return
        if options.evict_on_fault or options.kernel:
            self._evict(device)
        self.events.raise_all(k.EVENT_MEMORY, data)

    def _exception(self, spec: QueueSpec, code: int) -> None:
        """Report to the runtime through the header of the save area.

        src: kfd_debug.c kfd_set_dbg_ev_from_interrupt(), send_exception_work_handler()
        """
        queue = self.queues.by_id.get(spec.queue_id)
        if not self.runtime_enabled or queue is None or not spec.save_va:
            return
        if not host.readable(spec.save_va, _HEADER_BYTES):
            return
        header = host.view(spec.save_va, _HEADER_BYTES)
        (payload,) = struct.unpack_from("<Q", header, _HEADER_PAYLOAD)
        (event_id,) = struct.unpack_from("<I", header, _HEADER_EVENT)
        if payload and host.readable(payload, 8):
            memory = host.view(payload, 8)
            (old,) = struct.unpack("<Q", memory)
            memory[:] = struct.pack("<Q", old | 1 << (code - 1))
            self.events.find(event_id).set()

    def reset_queue(self, queue: Queue) -> None:
        """A hung queue was destroyed: the kernel resets it, or else the GPU, and says so.

        src: kfd_device_queue_manager.c reset_queues_on_hws_hang(), remove_queue_mes()
        """
        gpu = queue.device.gpu
        if self._resets_alone(queue):
            self._report_reset(gpu, k.CAUSE_GPU_HANG)
        else:
            self.reset_gpu(gpu, k.CAUSE_GPU_HANG)

    def _resets_alone(self, queue: Queue) -> bool:
        """Whether the kernel resets a queue, and not the GPU."""
        options, rules = self.hardware.options, self.hardware.rules
        if not options.kernel:
            return options.queue_reset
        gfx9 = queue.device.gpu.chip.family == "gfx9" and queue.sdma is None
        return "resets_queues" in rules or ("resets_gfx9" in rules and gfx9)

    def reset_gpu(self, gpu: Gpu, cause: int) -> None:
        """The whole GPU is reset: VRAM is lost, and no queue of this process runs on it again.

        src: kfd_device.c kgd2kfd_pre_reset(), and the comment above kgd2kfd_post_reset()
        """
        device = self.devices[gpu.gpu_id]
        if "zaps_doorbells" in self.hardware.rules:
            device.zapped += 1
        self._evict(device)
        for queue in self.queues.by_id.values():
            if queue.device is device:
                device.engines.hung.add(queue.spec.queue_id)
        for buffer in self.memory.buffers:
            if buffer.kind == "VRAM" and buffer.device is device:
                for piece in buffer.pieces:
                    gpu.vram.forget(piece.start, piece.nbytes)
                    gpu.vram.prepare(piece.start, piece.nbytes)
        self._report_reset(gpu, cause)

    def _report_reset(self, gpu: Gpu, cause: int) -> None:
        """src: kfd_events.c kfd_signal_reset_event(): of one queue it says just the same."""
        gone = k.HW_EXCEPTION.make(
            reset_type=k.RESET_WHOLE_GPU, reset_cause=cause, memory_lost=1, gpu_id=gpu.gpu_id
        )
        self.events.raise_all(k.EVENT_HW_EXCEPTION, gone)
        if cause == k.CAUSE_ECC:
            data = k.MEMORY_EXCEPTION.make(
                imprecise=1, error_type=k.MEM_ERR_SRAM_ECC, gpu_id=gpu.gpu_id
            )
            self.events.raise_all(k.EVENT_MEMORY, data)

    def _evict(self, device: Device) -> None:
        """Queues stop, and new ones do not run either, until the process ends."""
        device.evicted = True
        for queue in self.queues.by_id.values():
            if queue.device is device:
                queue.spec.active = False

    # Ioctls, by the names of kfd_types

    def get_version(self, args: SimpleNamespace) -> None:
        """GET_VERSION."""
        args.major_version, args.minor_version = k.MAJOR, self.hardware.rules.number("minor")

    def set_memory_policy(self, args: SimpleNamespace) -> None:
        """SET_MEMORY_POLICY. Raises: OSError EINVAL, ESRCH."""
        if args.default_policy > 1 or args.alternate_policy > 1:
            raise OSError(errno.EINVAL, "no such cache policy")
        if self.device(args.gpu_id).table is None:
            raise OSError(errno.ESRCH, "the process has no VM here")

    def get_clock_counters(self, args: SimpleNamespace) -> None:
        """GET_CLOCK_COUNTERS."""
        now, known = self.hardware.clock.now_ns(), args.gpu_id in self.devices
        args.gpu_clock_counter = self.hardware.clock.ticks() if known else 0
        args.cpu_clock_counter = args.system_clock_counter = now
        args.system_clock_freq = _NS_PER_S

    def create_event(self, args: SimpleNamespace) -> None:
        """CREATE_EVENT. Raises: OSError EINVAL, ENODEV, ENOSPC."""
        if args.event_page_offset:
            self._set_event_page(args.event_page_offset)
        event = self.events.create(args.event_type, args.auto_reset != 0)
        args.event_page_offset = 0
        if args.event_type in (k.EVENT_SIGNAL, k.EVENT_DEBUG):
            args.event_page_offset = k.MMAP_EVENTS << k.MMAP_TYPE_SHIFT
            args.event_slot_index = event.event_id
        args.event_id = args.event_trigger_data = event.event_id

    def _set_event_page(self, handle: int) -> None:
        """src: kfd_kmap_event_page(). Raises: OSError EINVAL, ENODEV."""
        if self.events.has_page:
            raise OSError(errno.EINVAL, "there is an event page")
        self.device(handle >> 32).bound()
        buffer = self.memory.find(handle)
        if buffer.kind != "GTT" or buffer.pool is None or len(buffer.pieces) != 1:
            raise OSError(errno.EINVAL, f"{buffer} cannot hold the event page")
        start = buffer.pieces[0].start
        slots = buffer.pool.bytes[start : start + buffer.nbytes].view(np.uint64)
        self.events.set_page(slots, handle)
        self.memory.page_handle = handle

    def get_process_apertures_new(self, args: SimpleNamespace) -> None:
        """GET_PROCESS_APERTURES_NEW. Raises: OSError EINVAL, EFAULT."""
        if not args.num_of_nodes:
            args.num_of_nodes = len(self.devices)
            return
        if args.num_of_nodes > len(self.devices) + 1:
            raise OSError(errno.EINVAL, "more nodes than the machine has")
        data = b""
        for device in list(self.devices.values())[: args.num_of_nodes]:
            lds, scratch = ProcessHost.shared_base, ProcessHost.private_base
            data += k.APERTURES.make(
                lds_base=lds, lds_limit=lds | _APERTURE_BYTES - 1, scratch_base=scratch,
                scratch_limit=scratch | _APERTURE_BYTES - 1, gpuvm_base=_GPUVM_BASE,
                gpuvm_limit=_GPUVM_LIMIT, gpu_id=device.gpu.gpu_id,
            )  # fmt: skip
        args.num_of_nodes = len(data) // k.APERTURES.size
        host.copy_to_user(args.kfd_process_device_apertures_ptr, data)

    def set_scratch_backing_va(self, args: SimpleNamespace) -> None:
        """SET_SCRATCH_BACKING_VA. Raises: OSError EINVAL, ENODEV."""
        self.device(args.gpu_id).bound()

    def get_tile_config(self, args: SimpleNamespace) -> None:
        """GET_TILE_CONFIG. src: kfd_chardev.c kfd_ioctl_get_tile_config(), 5.15 to 7.3.

        The kernel's arrays have 32 and 16 entries, which nothing sets since gfx9; what does not fit
        is left out. Raises: OSError EINVAL, EFAULT with the array's count 0.
        """
        gpu = self.device(args.gpu_id).gpu
        args.gb_addr_config = GB_ADDR_CONFIG[gpu.chip.family]
        args.num_banks = args.num_ranks = 0
        for pointer, count, entries in (
            ("tile_config_ptr", "num_tile_configs", _TILE_MODES),
            ("macro_tile_config_ptr", "num_macro_tile_configs", _MACRO_TILE_MODES),
        ):
            given = min(getattr(args, count), entries)
            setattr(args, count, 0)
            host.copy_to_user(getattr(args, pointer), bytes(4 * given))
            setattr(args, count, given)

    def set_trap_handler(self, args: SimpleNamespace) -> None:
        """SET_TRAP_HANDLER. Raises: OSError EINVAL, ESRCH.

        For all queues, at once: kfd_process_set_trap_handler() writes what the kernel's handler
        reads. Of a runtime's handler, which sends doorbell numbers, `_exception` is the effect.
        """
        device = self.device(args.gpu_id)
        if device.table is None:
            raise OSError(errno.ESRCH, "the process has no VM here")
        device.trap = (0, 0) if self.runtime_enabled else (args.tba_addr, args.tma_addr)
        for queue in self.queues.by_id.values():
            if queue.device is device:
                queue.spec.trap = device.trap

    def set_cu_mask(self, args: SimpleNamespace) -> None:
        """SET_CU_MASK: checked, and without effect on a board. Raises: OSError EINVAL, EFAULT."""
        if args.num_cu_mask % 32 or not args.num_cu_mask:
            raise OSError(errno.EINVAL, "a mask has whole dwords")
        host.user_bytes(args.cu_mask_ptr, min(args.num_cu_mask, 1024) // 8)
        self.queues.find(args.queue_id, errno.EFAULT)

    def svm(self, args: SimpleNamespace) -> None:
        """SVM: as a kernel without CONFIG_HSA_AMD_SVM refuses it."""
        raise OSError(errno.EPERM, "this kernel has no shared virtual memory")

    def set_xnack_mode(self, args: SimpleNamespace) -> None:
        """SET_XNACK_MODE: the same, or as with CONFIG_HSA_AMD_SVM. Raises: OSError EPERM, EBUSY.

        src: kfd_chardev.c kfd_ioctl_set_xnack_mode(), kfd_process.c kfd_process_xnack_mode():
        below 0 asks; retry is off by default (amdgpu_gmc_noretry_set()), and on for gfx942 alone.
        """
        if not self.hardware.options.xnack_mode:
            raise OSError(errno.EPERM, "this kernel has no shared virtual memory")
        if args.xnack_enabled < 0:
            args.xnack_enabled = int(self.xnack)
            return
        if self.queues.by_id:
            raise OSError(errno.EBUSY, "the process has queues")
        wanted = bool(args.xnack_enabled)
        if wanted and any(gpu.chip.family != "gfx9" for gpu in self.hardware.gpus):
            raise OSError(errno.EPERM, "a GPU here cannot retry page faults")
        self.xnack = wanted

    def runtime_enable(self, args: SimpleNamespace) -> None:
        """RUNTIME_ENABLE. Raises: OSError EBUSY, EEXIST."""
        if not args.mode_mask & _RUNTIME_ENABLE:
            self.runtime_enabled = False
            return
        if self.runtime_enabled:
            raise OSError(errno.EBUSY, "the runtime is enabled")
        if self.queues.by_id:
            raise OSError(errno.EEXIST, "there are queues already")
        self.runtime_enabled = True

    def end(self) -> None:
        """The process is gone; everything it had is released."""
        if self.alive:
            self.alive = False
            self.queues.release_all()
            self.memory.release_all()
            for device in self.devices.values():
                device.close()
