"""Messages sent by hand, for tests that break a rule of the made-up Metal on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api, Owned
from drivers.metal.facts import devices
from drivers.metal.program import make_pipeline
from tests.metal.made_up import MadeUpMac, runtime
from tests.support import check

SOURCE: Final = """// threadgroup bytes: 0
#include <metal_stdlib>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void k_next(const device int *p0 [[buffer(0)]], device int *p1 [[buffer(1)]],
uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_threadgroup]]) {
p1[group * 64 + lane] = p0[group * 64 + lane] + 1;
}
"""
LANES: Final = (64, 1, 1)
ONE: Final = (1, 1, 1)
BYTES: Final = 256


@dataclass
class Bench:
    """A device with a queue, two buffers and a pipeline."""

    api: Api
    device: int
    queue: int
    a: int
    b: int
    pipeline: int

    def send(self, selector: str, *args: Any) -> Any:
        """A message, as the driver sends it."""
        return self.api.send[selector](*args)

    def commands(self) -> int:
        """A command buffer, autoreleased."""
        found: int = self.send("commandBuffer", self.queue)
        return found

    def compute(self, commands: int) -> int:
        """A compute encoder with pipeline and buffers."""
        encoder: int = self.send("computeCommandEncoder", commands)
        self.send("setComputePipelineState:", encoder, self.pipeline)
        self.send("setBuffer:offset:atIndex:", encoder, self.a, 0, 0)
        self.send("setBuffer:offset:atIndex:", encoder, self.b, 0, 1)
        return encoder

    def dispatch(self, encoder: int, grid: Any = ONE, block: Any = LANES) -> None:
        """Run the pipeline."""
        self.send("dispatchThreadgroups:threadsPerThreadgroup:", encoder, grid, block)

    def finish(self, commands: int) -> None:
        """Commit, and wait."""
        self.send("commit", commands)
        for _ in range(100_000):
            if self.send("status", commands) >= CONSTANTS["MTL::CommandBufferStatusCompleted"]:
                return
            self.api.world.sleep(1e-4)
        raise AssertionError("a command buffer does not end")

    def indirect(self, most: int = 2) -> Owned:
        """An indirect command buffer of two commands."""
        shape = self.api.new("MTLIndirectCommandBufferDescriptor")
        kind = CONSTANTS["MTL::IndirectCommandTypeConcurrentDispatch"]
        self.send("setCommandTypes:", shape.handle, kind)
        self.send("setInheritBuffers:", shape.handle, 0)
        self.send("setInheritPipelineState:", shape.handle, 0)
        self.send("setMaxKernelBufferBindCount:", shape.handle, most)
        make = "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:"
        made = Owned(self.api, self.send(make, self.device, shape.handle, 2, 0))
        shape.release()
        return made

    def command(self, indirect: Owned, place: int, *, barrier: bool) -> int:
        """One of its commands, encoded."""
        found: int = self.send("indirectComputeCommandAtIndex:", indirect.handle, place)
        self.send("setComputePipelineState:", found, self.pipeline)
        self.send("setKernelBuffer:offset:atIndex:", found, self.a, 0, 0)
        self.send("setKernelBuffer:offset:atIndex:", found, self.b, 0, 1)
        if barrier:
            self.send("setBarrier", found)
        send = "concurrentDispatchThreadgroups:threadsPerThreadgroup:"
        self.send(send, found, ONE, LANES)
        return found

    def execute(self, encoder: int, indirect: Owned, *resources: int) -> None:
        """Run both commands."""
        for resource in resources:
            self.send("useResource:usage:", encoder, resource, 3)
        self.send("executeCommandsInBuffer:withRange:", encoder, indirect.handle, (0, 2))


@contextmanager
def bench() -> Iterator[Bench]:
    """What messages are sent to, inside a pool."""
    api = Api(MadeUpMac())
    found = devices(api)
    device = found[0].handle
    with api.pool():
        make = "newCommandQueueWithMaxCommandBufferCount:"
        queue = Owned(api, api.send[make](device, 8))
        buffers = [
            Owned(api, api.send["newBufferWithLength:options:"](device, BYTES, 0)) for _ in range(2)
        ]
        pipeline = make_pipeline(api, device, SOURCE, "k_next")
        a, b = (one.handle for one in buffers)
        yield Bench(api, device, queue.handle, a, b, pipeline.handle)
    for one in (*found, queue, *buffers, pipeline):
        one.release()


def clean() -> None:
    """Raises where a test before left something."""
    check(runtime().report() == [], "violations from before")
