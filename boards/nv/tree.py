"""Objects that stand for a GPU, a part of it, or what watches it."""

from __future__ import annotations

from boards.nv.channel import ChannelGroup
from boards.nv.hardware import NvGpu
from boards.nv.objects import Object
from boards.nv.space import GpuSpace


class Device(Object):
    """NV01_DEVICE_0."""

    def __init__(self, gpu: NvGpu) -> None:
        super().__init__()
        self.gpu = gpu


class Subdevice(Object):
    """NV20_SUBDEVICE_0. The reservation that its client has of the GPU goes with it."""

    def freed(self) -> None:
        gpu = self.ancestor(Device).gpu
        if gpu.reserved_by == self.client.handle:
            gpu.reserved_by = 0


class Usermode(Object):
    """Doorbells and the clock of one GPU."""

    def __init__(self, gpu: NvGpu) -> None:
        super().__init__()
        self.gpu = gpu


class VirtualRange(Object):
    """NV01_MEMORY_VIRTUAL: addresses of RM's own space, apart from those that UVM has."""

    def __init__(self, space: GpuSpace, limit: int) -> None:
        super().__init__()
        self.space, self.limit = space, limit


class Debugger(Object):
    """GT200_DEBUGGER: reads the errors of a channel group."""

    def __init__(self, group: ChannelGroup) -> None:
        super().__init__()
        self.group = group
