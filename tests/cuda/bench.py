"""A client of the made-up libcuda that calls its functions itself: right, or wrong on purpose."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from boards.cuda.library import MadeUpCuda
from drivers.cuda import abi
from drivers.cuda.api import Words
from drivers.world.native import address_of
from tests.cuda.made_up import Functions
from tests.nv_cubins import cubin
from tests.support import check

BYTES: Final = 256
KERNEL: Final = b"second\0"
"""p[blockIdx.x] = first + last: (unsigned short first, double *p, unsigned char last)."""
SOURCE: Final = """
extern "C" __global__ void second(int first, int *p, int last) { p[blockIdx.x] = first + last; }
"""
"""The same of words."""
ONE: Final = (1, 1, 1)
LANES: Final = (32, 1, 1)


class Bench:
    """A context, a stream, an event, two buffers, pages of the host, a kernel and a graph."""

    def __init__(self, made: MadeUpCuda, image: bytes = b"", layout: str = "<H6xQB") -> None:
        self.made, self._library = made, Functions(made)
        self.do("cuInit", 0)
        self.context = self.make("cuDevicePrimaryCtxRetain", 0)
        self.other = self.make("cuDevicePrimaryCtxRetain", 1)
        self.popped = Words()
        self.do("cuCtxPushCurrent_v2", self.context)
        self.stream = self.make("cuStreamCreate", abi.STREAM_NON_BLOCKING)
        self.event = self.make("cuEventCreate", 0)
        self.a, self.b = (self.make("cuMemAlloc_v2", BYTES) for _ in range(2))
        self.image = image or cubin("sm_86")
        self.module = self.make("cuModuleLoadData", address_of(self.image))
        self.name = bytearray(KERNEL)
        self.kernel = self.make("cuModuleGetFunction", self.module, address_of(self.name))
        self.args = bytearray(struct.pack(layout, 3, self.a, 4))
        self.size = Words([struct.calcsize(layout)])
        self.extra = Words([1, address_of(self.args), 2, self.size.at, 0])
        self.graph = self.make("cuGraphCreate", 0)
        self.pages = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.page = address_of(self.pages)

    def call(self, name: str, *args: int) -> int:
        """The result of a call."""
        return self._library.function(name, abi.FUNCTIONS[name])(*args)

    def do(self, name: str, *args: int) -> None:
        """A call that succeeds."""
        code = self.call(name, *args)
        check(not code, f"{name}: {code}, {self.made.state.violations}")

    def make(self, name: str, *args: int) -> int:
        """What a call that succeeds makes."""
        cell = Words()
        self.do(name, cell.at, *args)
        return cell.word

    def launch(self, extra: int | None = None, *, params: int = 0, grid=ONE, block=LANES) -> int:
        """The result of a launch."""
        given = self.extra.at if extra is None else extra
        return self.call(
            "cuLaunchKernel", self.kernel, *grid, *block, 0, self.stream, params, given
        )

    def node(self, function: int | None = None, kern: int = 0) -> bytes:
        """CUDA_KERNEL_NODE_PARAMS."""
        found = self.kernel if function is None else function
        return abi.KERNEL_NODE.pack(found, *ONE, *LANES, 0, 0, self.extra.at, kern, 0)

    def add(self, graph: int, *before: int) -> int:
        """A node of a graph."""
        node, after = self.node(), Words(before)
        return self.make(
            "cuGraphAddKernelNode_v2", graph, after.at, len(before), address_of(node)
        )  # fmt: skip

    def settle(self) -> None:
        """Wait for the stream."""
        for _ in range(1000):
            code = self.call("cuStreamQuery", self.stream)
            if code != abi.NOT_READY:
                check(not code, f"{code}: {self.made.state.notes}")
                return
        raise AssertionError("the stream is never done")

    def pop(self) -> int:
        """The result of cuCtxPopCurrent."""
        return self.call("cuCtxPopCurrent_v2", self.popped.at)

    def close(self) -> None:
        """Give everything back."""
        self.settle()
        self.do("cuGraphDestroy", self.graph)
        self.do("cuModuleUnload", self.module)
        for va in (self.a, self.b):
            self.do("cuMemFree_v2", va)
        self.do("cuEventDestroy_v2", self.event)
        self.do("cuStreamDestroy_v2", self.stream)
        self.pop()
        for ordinal in (0, 1):
            self.do("cuDevicePrimaryCtxRelease_v2", ordinal)


@contextmanager
def bench() -> Iterator[Bench]:
    """A client whose mistakes are its own."""
    yield Bench(MadeUpCuda())
