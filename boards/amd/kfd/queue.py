"""Queues of a KFD process, with every check that Linux 6.12 makes.

src: amdkfd/kfd_chardev.c, kfd_queue.c, kfd_process_queue_manager.c, kfd_device_queue_manager.c
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

from boards.amd.chip import EOP_BYTES
from boards.amd.cp.engine_types import QueueSpec
from boards.amd.hardware import Hardware
from boards.amd.kfd import types as k
from boards.amd.kfd.device import DOORBELL_BYTES, Device, Mapping
from boards.machine.behaviour import Rules

_MAX_PERCENT, _MAX_PRIORITY, _MIN_RING_BYTES = 100, 15, 0x400
_TARGET_XCC_SHIFT = 8
_MAX_QUEUES, _MAX_QUEUES_GFX942 = 127, 255
_MAX_PER_PROCESS = 1024
_MAX_ROUNDS = 1 << 20
"""GPUs that wake each other more often than this in one go are pumped again later."""
_PAGE = 4096
_USER_END = 1 << 47
_ENOTSUPP = 524
"""src: include/linux/errno.h; not an errno that user space has a name for"""
_KINDS = {k.COMPUTE: "pm4", k.COMPUTE_AQL: "aql", k.SDMA: "sdma"}
_SDMA_KINDS = (k.SDMA, k.SDMA_XGMI, k.SDMA_BY_ENG_ID)


@dataclass(eq=False, slots=True)
class Queue:
    """A queue as the kernel keeps it."""

    spec: QueueSpec
    device: Device
    doorbell: int
    needs: list[Mapping] = field(default_factory=list)
    sdma: tuple[int, int] | None = None
    """Of a copy queue: which set of ids, and the id."""


class Queues:
    """All queues of a process."""

    def __init__(self, hardware: Hardware, device: Callable[[int], Device]) -> None:
        self._hardware, self._device = hardware, device
        self.by_id: dict[int, Queue] = {}
        self._late: dict[int, int] = {}
        """Doorbells that the engines have not heard of yet."""
        self.destroyed_hung: Callable[[Queue], None] = lambda queue: None

    def create(self, args: SimpleNamespace) -> None:
        """CREATE_QUEUE. Raises: OSError as the kernel does."""
        rules = self._hardware.rules
        _check_properties(args, rules)
        kind = "sdma" if args.queue_type in _SDMA_KINDS else _KINDS.get(args.queue_type)
        by_engine = args.queue_type == k.SDMA_BY_ENG_ID
        if kind is None or (by_engine and "sdma_by_engine" not in rules):
            raise OSError(_ENOTSUPP, f"queue type {args.queue_type}")
        device = self._device(args.gpu_id)
        if device.table is None:
            raise OSError(errno.ESRCH, "the process has no VM here: ACQUIRE_VM comes first")
        chip = device.gpu.chip
        engines = chip.sdma_engines + chip.sdma_xgmi_engines
        if by_engine and args.sdma_engine_id >= engines:
            raise OSError(errno.EINVAL, f"no copy engine {args.sdma_engine_id}")
        needs = self._buffers(device, args, kind) if "queue_buffers" in rules else []
        if "wptr_page" in rules and chip.family == "gfx11":
            _check_wptr(device, args)
        limit = _MAX_QUEUES_GFX942 if chip.gc == (9, 4, 3) else _MAX_QUEUES
        if sum(queue.device is device for queue in self.by_id.values()) >= limit:
            raise OSError(errno.ENOSPC, "no room for another queue")
        queue_id = next((n for n in range(_MAX_PER_PROCESS) if n not in self.by_id), -1)
        if queue_id < 0:
            raise OSError(errno.ENOMEM, "no queue id left")
        wptr = device.find_mapping(args.write_pointer_address)
        if chip.family in ("gfx11", "gfx12") and wptr and wptr.buffer.device is not device:
            raise OSError(errno.EINVAL, "the write pointer is in memory of another GPU")
        if chip.family in ("gfx11", "gfx12") and wptr and wptr.buffer.kind == "USERPTR":
            # src: init_user_queue(), amdgpu_bo_pin(): MES has the write pointer pinned in GART
            raise OSError(errno.EPERM, "the write pointer is in memory of the process itself")
        queue = self._place(device, args, kind, queue_id)
        queue.needs = needs
        for mapping in needs:
            mapping.queues += 1
        device.engines.create(queue.spec, device.space)
        self._hardware.event("create queue", gpu=device.gpu.index, queue=queue_id, kind=kind)
        self.by_id[queue_id] = queue
        args.queue_id = queue_id
        args.doorbell_offset = (
            k.MMAP_DOORBELL << k.MMAP_TYPE_SHIFT
            | args.gpu_id << k.MMAP_GPU_SHIFT
            | queue.doorbell * DOORBELL_BYTES
        )

    def _buffers(self, device: Device, args: SimpleNamespace, kind: str) -> list[Mapping]:
        """src: kfd_queue_acquire_buffers(). Raises: OSError EINVAL."""
        needs = [
            device.exact_mapping(args.write_pointer_address, _PAGE),
            device.exact_mapping(args.read_pointer_address, _PAGE),
            device.exact_mapping(args.ring_base_address, args.ring_size),
        ]
        if kind == "sdma":
            return needs
        sizes, xccs = device.gpu.sizes, device.gpu.chip.xccs
        if args.eop_buffer_address:
            eop_bytes = args.eop_buffer_size & 0xFFFFFFFF  # the kernel keeps 32 bits of it
            if eop_bytes < EOP_BYTES:
                raise OSError(errno.EINVAL, f"EOP buffer of {eop_bytes:#x} bytes")
            whole = -(-eop_bytes // _PAGE) * _PAGE
            needs.append(device.exact_mapping(args.eop_buffer_address, whole))
        if args.ctl_stack_size != sizes.ctl_stack:
            what = f"control stack of {args.ctl_stack_size:#x}, not {sizes.ctl_stack:#x} bytes"
            raise OSError(errno.EINVAL, what)
        exact = self._hardware.options.old_save_area
        if args.ctx_save_restore_size < sizes.cwsr or (
            exact and args.ctx_save_restore_size != sizes.cwsr
        ):
            what = f"save area of {args.ctx_save_restore_size:#x} of {sizes.cwsr:#x} bytes"
            raise OSError(errno.EINVAL, what)
        total = (args.ctx_save_restore_size + sizes.debug) * xccs
        total = -(-total // _PAGE) * _PAGE
        needs.append(device.exact_mapping(args.ctx_save_restore_address, total))
        return needs

    def _place(self, device: Device, args: SimpleNamespace, kind: str, queue_id: int) -> Queue:
        """Give a queue its engine and doorbell. Raises: OSError ENOMEM, EBUSY."""
        sdma, engine = None, 0
        if kind == "sdma":
            which, number, engine, position = _copy_slot(device, args)
            device.gpu.sdma_ids[which].remove(number)
            sdma = (which, number)
            doorbell = device.sdma_doorbell(engine, position)
        else:
            doorbell = device.new_doorbell()
        spec = QueueSpec(
            queue_id, kind, args.ring_base_address, args.ring_size, args.read_pointer_address,
            args.write_pointer_address, args.eop_buffer_address, args.eop_buffer_size,
            args.ctx_save_restore_address, args.ctx_save_restore_size, engine, trap=device.trap,
            active=bool(args.queue_percentage & 0xFF) and not device.evicted,
        )  # fmt: skip
        return Queue(spec, device, doorbell, sdma=sdma)

    def find(self, queue_id: int, number: int = errno.EINVAL) -> Queue:
        """Raises: OSError `number`."""
        queue = self.by_id.get(queue_id)
        if queue is None:
            raise OSError(number, f"no queue {queue_id}")
        return queue

    def destroy(self, args: SimpleNamespace) -> None:
        """DESTROY_QUEUE. Raises: OSError EINVAL."""
        self._remove(self.find(args.queue_id))

    def _remove(self, queue: Queue) -> None:
        queue_id, device = queue.spec.queue_id, queue.device
        # src: kfd_mqd_manager_v11.c KFD_PREEMPT_TYPE_WAVEFRONT_SAVE, remove_queue_mes(): waves of
        # an endless kernel are saved like any others, and the queue is gone without a reset
        hung = queue_id in device.engines.hung and queue_id not in device.engines.endless
        device.engines.destroy(queue_id)
        self._hardware.event("destroy queue", gpu=device.gpu.index, queue=queue_id)
        device.engines.hung.discard(queue_id)
        del self.by_id[queue_id]
        self._late.pop(queue_id, None)
        for mapping in queue.needs:
            mapping.queues -= 1
        if queue.sdma is None:
            device.doorbells.discard(queue.doorbell)
        else:
            device.gpu.sdma_ids[queue.sdma[0]].add(queue.sdma[1])
        if hung:
            self.destroyed_hung(queue)

    def update(self, args: SimpleNamespace) -> None:
        """UPDATE_QUEUE. src: pqm_update_queue_properties(). Raises: OSError EINVAL, EFAULT."""
        _check_share(args, self._hardware.rules)
        queue = self.find(args.queue_id, errno.EFAULT)
        if args.ring_base_address and not queue.needs:
            queue.spec.ring_va, queue.spec.ring_bytes = args.ring_base_address, args.ring_size
        elif args.ring_base_address:
            try:
                ring = queue.device.exact_mapping(args.ring_base_address, args.ring_size)
            except OSError as error:
                raise OSError(errno.EFAULT, "the ring is not mapped") from error
            queue.needs[2].queues -= 1
            ring.queues += 1
            queue.needs[2] = ring
            queue.spec.ring_va, queue.spec.ring_bytes = args.ring_base_address, args.ring_size
        wanted = bool(args.queue_percentage & 0xFF) and bool(args.ring_base_address)
        queue.spec.active = wanted and not queue.device.evicted
        queue.device.engines.pump()

    def ring(self, device: Device, offset: int, value: int) -> Queue | None:
        """A store to a doorbell; None when no queue has it."""
        for queue in self.by_id.values():
            if queue.device is device and queue.doorbell * DOORBELL_BYTES == offset:
                if self._hardware.options.late:
                    self._late[queue.spec.queue_id] = value
                else:
                    device.engines.doorbell(queue.spec.queue_id, value)
                return queue
        return None

    def pump(self) -> bool:
        """Let all engines run until nothing moves on any GPU; whether anything did."""
        moved = False
        for _ in range(_MAX_ROUNDS):
            late, self._late = self._late, {}
            for queue_id, value in late.items():
                self.by_id[queue_id].device.engines.doorbell(queue_id, value)
            again = [device.engines.pump() for device in self._devices()]
            if not late and not any(again):
                break
            moved = True
        return moved

    def _devices(self) -> Iterator[Device]:
        seen: set[int] = set()
        for queue in list(self.by_id.values()):
            if id(queue.device) not in seen:
                seen.add(id(queue.device))
                yield queue.device

    def release_all(self) -> None:
        """The process is gone."""
        for queue in list(self.by_id.values()):
            queue.device.engines.hung.discard(queue.spec.queue_id)
            self._remove(queue)


def _check_wptr(device: Device, args: SimpleNamespace) -> None:
    """What 6.1 asks of a queue that MES schedules. Raises: OSError EINVAL."""
    found = device.find_mapping(args.write_pointer_address)
    if found is None or found.buffer.nbytes > _PAGE:
        what = "nothing" if found is None else str(found.buffer)
        raise OSError(errno.EINVAL, f"the write pointer is in {what}, not in one page")


def _check_share(args: SimpleNamespace, rules: Rules) -> None:
    """What CREATE_QUEUE and UPDATE_QUEUE check alike. Raises: OSError EINVAL, EFAULT."""
    share = args.queue_percentage & (0xFF if "target_xcc" in rules else 0xFFFF_FFFF)
    if share > _MAX_PERCENT:
        raise OSError(errno.EINVAL, "queue percentage above 100")
    if args.queue_percentage >> _TARGET_XCC_SHIFT & 0xFF:
        raise OSError(errno.EINVAL, "on a board the first XCC alone processes PM4 queues")
    if args.queue_priority > _MAX_PRIORITY:
        raise OSError(errno.EINVAL, "queue priority above 15")
    if args.ring_base_address >= _USER_END:
        raise OSError(errno.EFAULT, "the ring is not in user space")
    if args.ring_size & (args.ring_size - 1) and args.ring_size:
        raise OSError(errno.EINVAL, "ring size is no power of two")
    args.ring_size = max(args.ring_size, _MIN_RING_BYTES)


def _check_properties(args: SimpleNamespace, rules: Rules) -> None:
    """src: set_queue_properties_from_user(). Raises: OSError EINVAL, EFAULT."""
    _check_share(args, rules)
    if "metadata_ring" in rules and args.pad & (args.pad - 1):
        raise OSError(errno.EINVAL, "the metadata ring's size is no power of two")
    for name in (
        "read_pointer_address", "write_pointer_address", "eop_buffer_address",
        "ctx_save_restore_address",
    ):  # fmt: skip
        if getattr(args, name) >= _USER_END:
            raise OSError(errno.EFAULT, f"{name} is not in user space")


def _copy_slot(device: Device, args: SimpleNamespace) -> tuple[int, int, int, int]:
    """(set of ids, id, engine, queue of the engine). src: allocate_sdma_queue()

    Raises: OSError ENOMEM.
    """
    chip = device.gpu.chip
    plain, xgmi = chip.sdma_engines, chip.sdma_xgmi_engines
    which = int(args.queue_type == k.SDMA_XGMI)
    wanted = -1
    if args.queue_type == k.SDMA_BY_ENG_ID:
        which = int(args.sdma_engine_id >= plain)
        wanted = args.sdma_engine_id - (plain if which else 0)
    engines = xgmi if which else plain
    free = sorted(device.gpu.sdma_ids[which])
    fitting = [n for n in free if wanted < 0 or n % engines == wanted]
    if not fitting:
        raise OSError(errno.ENOMEM, "no copy queue left")
    number = fitting[0]
    return which, number, number % engines + (plain if which else 0), number // engines
