"""A few lines of driver for tests of the board: structs by the C header's order, ioctl numbers."""

from __future__ import annotations

import errno
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from boards.amd.cp.engine_types import Host, QueueSpec, Space
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from tests.support import check

# src: include/uapi/linux/kfd_ioctl.h, written down by hand: (request, struct format)
CALLS = {
    "get_version": (0x80084B01, "II"),
    "create_queue": (0xC0604B02, "QQQQIIIIIIQQQIIII"),
    "destroy_queue": (0xC0084B03, "II"),
    "set_memory_policy": (0x40204B04, "QQIIII"),
    "get_clock_counters": (0xC0284B05, "QQQQII"),
    "update_queue": (0x40184B07, "QIIII"),
    "create_event": (0xC0204B08, "QIIIIII"),
    "destroy_event": (0x40084B09, "II"),
    "set_event": (0x40084B0A, "II"),
    "reset_event": (0x40084B0B, "II"),
    "wait_events": (0xC0184B0C, "QIIII"),
    "get_tile_config": (0xC0284B12, "QQIIIIII"),
    "get_process_apertures_new": (0xC0104B14, "QII"),
    "acquire_vm": (0x40084B15, "II"),
    "alloc_memory_of_gpu": (0xC0284B16, "QQQQII"),
    "free_memory_of_gpu": (0x40084B17, "Q"),
    "map_memory_to_gpu": (0xC0184B18, "QQII"),
    "unmap_memory_from_gpu": (0xC0184B19, "QQII"),
    "get_dmabuf_info": (0xC0204B1C, "QQIIII"),
    "import_dmabuf": (0xC0184B1D, "QQII"),
    "svm": (0xC0184B20, "QQII"),
    "set_xnack_mode": (0xC0044B21, "i"),
    "available_memory": (0xC0104B23, "QII"),
    "export_dmabuf": (0xC0104B24, "QII"),
    "runtime_enable": (0xC0104B25, "QII"),
}
VRAM, GTT, USERPTR, DOORBELL = 1, 2, 4, 8
WRITABLE, EXECUTABLE, PUBLIC = 1 << 31, 1 << 30, 1 << 29
AQL_QUEUE_MEM, COHERENT, UNCACHED = 1 << 27, 1 << 26, 1 << 25
DEVICE_MEMORY = VRAM | WRITABLE | EXECUTABLE | PUBLIC
SIGNALS = GTT | WRITABLE | EXECUTABLE | COHERENT | UNCACHED
PAGE = 4096


class FakeEngines:
    """Remembers what it was told; a doorbell calls `on_doorbell`, if there is one."""

    def __init__(self, host: Host) -> None:
        self.host, self.hung, self.endless, self.rung = host, set(), set(), []
        self.specs: dict[int, QueueSpec] = {}
        self.space: Space | None = None
        self.on_pump = None

    def create(self, spec: QueueSpec, space: Space) -> None:
        self.specs[spec.queue_id], self.space = spec, space

    def destroy(self, queue_id: int) -> None:
        del self.specs[queue_id]

    def doorbell(self, queue_id: int, value: int) -> None:
        self.rung.append((queue_id, value))

    def pump(self) -> bool:
        return bool(self.on_pump and self.on_pump())

    def idle(self, queue_id: int) -> bool:
        return True


class Driver:
    """One open board: descriptors, calls, buffers. Nothing is undone but on request."""

    def __init__(self, name: str = "gfx1100", *, acquire: bool = True, **more: object) -> None:
        more.setdefault("vram_bytes", 64 << 20)
        more.setdefault("options", Options(gtt_bytes=32 << 20))
        self.places: list = []
        self.world = open_board(name, engines=FakeEngines, **more)
        self.start(acquire)

    def start(self, acquire: bool = True) -> None:
        self.kfd = self.world.open("/dev/kfd", 2)
        self.gpu_ids = [gpu.gpu_id for gpu in self.world.gpus]
        self.render = [self.world.open(gpu.node, 2) for gpu in self.world.gpus]
        if acquire:
            for fd, gpu_id in zip(self.render, self.gpu_ids, strict=True):
                self.call("acquire_vm", fd, gpu_id)

    def close(self) -> None:
        """Close descriptors and reservations; leave the rest to the kernel."""
        for fd in (self.kfd, *self.render):
            self.world.close(fd)
        for place in self.places:
            place.close()
        self.places.clear()

    def call(self, name: str, *values: int) -> tuple[int, ...]:
        """An ioctl with its members in order, missing ones zero; returns all members."""
        request, layout = CALLS[name]
        filled = list(values) + [0] * (len(layout) - len(values))
        data = bytearray(struct.pack("<" + layout, *filled))
        try:
            self.world.ioctl(self.kfd, request, data)
        finally:
            self.last = struct.unpack("<" + layout, data)
        return self.last

    def device(self, number: int = 0):
        return self.world.process.device(self.gpu_ids[number])

    def space(self, agent: str = "CP", number: int = 0):
        return self.device(number).space.agent(agent)

    def buffer(
        self, nbytes: int, flags: int = DEVICE_MEMORY, *, gpu: int = 0, map_to=None, host=True
    ) -> SimpleNamespace:
        """Reserve, allocate, map for the host, map to GPUs."""
        whole = 2 * nbytes if flags & AQL_QUEUE_MEM else nbytes
        place = self.world.reserve(whole + (2 << 20))
        self.places.append(place)
        at = -place.cpu_va % (2 << 20)
        va = place.cpu_va + at
        answer = self.call("alloc_memory_of_gpu", va, whole, 0, 0, self.gpu_ids[gpu], flags)
        handle, offset = answer[2], answer[3]
        region = None
        if host:
            region = self.world.mmap(self.render[gpu], nbytes, offset, within=place, at=at)
            self.places.append(region)
        found = SimpleNamespace(va=va, handle=handle, region=region, place=place, nbytes=nbytes)
        self.map(found, *([gpu] if map_to is None else map_to))
        return found

    def map(self, buffer: SimpleNamespace, *gpus: int, call: str = "map_memory_to_gpu") -> int:
        ids = np.array([self.gpu_ids[gpu] for gpu in gpus], np.uint32)
        if len(ids):
            return self.call(call, buffer.handle, ids.ctypes.data, len(ids), 0)[3]
        return 0

    def unmap(self, buffer: SimpleNamespace, *gpus: int) -> int:
        return self.map(buffer, *gpus, call="unmap_memory_from_gpu")

    def free(self, buffer: SimpleNamespace) -> None:
        self.call("free_memory_of_gpu", buffer.handle)
        if buffer.region is not None:
            buffer.region.close()
        buffer.place.close()

    def queue_parts(self, *, ring_bytes: int = 1 << 16, gpu: int = 0) -> SimpleNamespace:
        """Everything a compute queue needs."""
        sizes = self.world.gpus[gpu].sizes
        xccs = self.world.gpus[gpu].chip.xccs
        save = -(-(sizes.cwsr + sizes.debug) * xccs // PAGE) * PAGE
        return SimpleNamespace(
            ring=self.buffer(ring_bytes, SIGNALS, gpu=gpu),
            rptr=self.buffer(PAGE, SIGNALS, gpu=gpu),
            wptr=self.buffer(PAGE, SIGNALS, gpu=gpu),
            eop=self.buffer(PAGE, gpu=gpu),
            save=self.buffer(save, gpu=gpu, host=False),
            sizes=sizes,
        )

    def create_queue(self, parts: SimpleNamespace, kind: int = 0, **other: int) -> tuple[int, int]:
        """CREATE_QUEUE; `other` replaces members. Returns (queue id, doorbell offset)."""
        gpu = other.pop("gpu", 0)
        values = {
            "ring": parts.ring.va, "wptr": parts.wptr.va, "rptr": parts.rptr.va, "doorbell": 0,
            "ring_bytes": parts.ring.nbytes, "gpu_id": self.gpu_ids[gpu], "type": kind,
            "percent": 100, "priority": 7, "queue_id": 0, "eop": parts.eop.va,
            "eop_bytes": PAGE, "save": parts.save.va, "save_bytes": parts.sizes.cwsr,
            "ctl_stack": parts.sizes.ctl_stack, "engine": 0, "pad": 0,
        }  # fmt: skip
        answer = self.call("create_queue", *(values | other).values())
        return answer[9], answer[3]

    def doorbells(self, doorbell_offset: int):
        return self.world.mmap(self.kfd, 8192, doorbell_offset & ~0x1FFF)


def fails(number: int, function, *args, **named) -> None:
    """A call must raise OSError with this errno."""
    with pytest.raises(OSError, match=r".") as error:
        function(*args, **named)
    check(error.value.errno == number, f"{error.value}, expected {errno.errorcode[number]}")


class Waiting:
    """Events of a board with their page: create, wait, look at what came."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.page = driver.buffer(0x8000, SIGNALS)

    def create(self, kind: int, auto_reset: int = 1) -> int:
        handle = 0 if self.driver.world.process.events.page_handle else self.page.handle
        return self.driver.call("create_event", handle, 0, kind, auto_reset)[5]

    def wait(self, *events: int, every: int = 0, timeout: int = 1000) -> tuple[int, list[bytes]]:
        data = np.zeros(48 * len(events), np.uint8)
        for number, event in enumerate(events):
            data[48 * number + 40 : 48 * number + 44].view(np.uint32)[0] = event
        values = (data.ctypes.data, len(events), every, timeout, 0)
        result = self.driver.call("wait_events", *values)[4]
        return result, [data[48 * i : 48 * i + 48].tobytes() for i in range(len(events))]


def words(region) -> np.ndarray:
    """A mapping as dwords."""
    return np.frombuffer(region.view(), np.uint32)


__all__ = ["BoardWorld", "Driver", "FakeEngines", "Options", "Waiting", "fails", "words"]
