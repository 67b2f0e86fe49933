"""Rules of values, each broken on purpose: of buffers, compilers, pipelines, text, lanes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from drivers.base.errors import DeviceError
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Cell, Owned, text_bytes
from drivers.metal.program import make_library
from drivers.world.native import address_of
from tests.metal.messages import BYTES, LANES, ONE, SOURCE, Bench

Breaks: TypeAlias = Callable[[Bench], object]
UTF16: Final = 10
"""NSUTF16StringEncoding."""
MSL_1_1: Final = (1 << 16) + 1
MEETS: Final = """// threadgroup bytes: 0
#include <metal_stdlib>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void k_meets(device int *p0 [[buffer(0)]], uint lane [[thread_index_in_threadgroup]]) {
if (lane < 16) { threadgroup_barrier(mem_flags::mem_threadgroup); }
p0[lane] = 1;
}
"""


def _empty_buffer(b: Bench) -> None:
    b.send("newBufferWithLength:options:", b.device, 0, 0)


def _private_buffer(b: Bench) -> None:
    b.send("release", b.send("newBufferWithLength:options:", b.device, BYTES, 2 << 4))


def _odd_pages(b: Bench) -> None:
    wrap = "newBufferWithBytesNoCopy:length:options:deallocator:"
    b.send(wrap, b.device, b.send("contents", b.a), BYTES, 0, 0)


def _encoding(b: Bench) -> None:
    text, made = text_bytes("x"), b.send("alloc", b.api.class_of("NSString"))
    b.send("release", b.send("initWithCString:encoding:", made, address_of(text), UTF16))


def _options(fast: int, version: int) -> Breaks:
    """A library compiled with options of its own."""

    def broken(b: Bench) -> None:
        options, text, error = b.api.new("MTLCompileOptions"), b.api.string(SOURCE), Cell()
        b.send("setFastMathEnabled:", options.handle, fast)
        b.send("setLanguageVersion:", options.handle, version)
        make = "newLibraryWithSource:options:error:"
        b.send("release", b.send(make, b.device, text.handle, options.handle, error.at))
        for one in (options, text):
            one.release()

    return broken


def _no_function(b: Bench) -> None:
    shape, error = b.api.new("MTLComputePipelineDescriptor"), Cell()
    make = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    b.send(make, b.device, shape.handle, 0, 0, error.at)
    shape.release()


def _pipeline(b: Bench, source: str, entry: str, *, indirect: int) -> Owned:
    library, name = make_library(b.api, b.device, source), b.api.string(entry)
    function = Owned(b.api, b.send("newFunctionWithName:", library.handle, name.handle))
    shape, error = b.api.new("MTLComputePipelineDescriptor"), Cell()
    b.send("setComputeFunction:", shape.handle, function.handle)
    b.send("setSupportIndirectCommandBuffers:", shape.handle, indirect)
    make = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    made = Owned(b.api, b.send(make, b.device, shape.handle, 0, 0, error.at))
    for one in (shape, function, name, library):
        one.release()
    return made


def _not_for_indirect(b: Bench) -> None:
    made, indirect = _pipeline(b, SOURCE, "k_next", indirect=0), b.indirect()
    command = b.send("indirectComputeCommandAtIndex:", indirect.handle, 0)
    b.send("setComputePipelineState:", command, made.handle)
    made.release()
    indirect.release()


def _index(b: Bench) -> None:
    indirect = b.indirect()
    with suppress(DeviceError):
        b.send("indirectComputeCommandAtIndex:", indirect.handle, 2)
    indirect.release()


def _usage(b: Bench) -> None:
    encoder = b.send("computeCommandEncoder", b.commands())
    b.send("useResource:usage:", encoder, b.a, 0)
    b.send("endEncoding", encoder)


def _lanes_apart(b: Bench) -> None:
    made, commands = _pipeline(b, MEETS, "k_meets", indirect=1), b.commands()
    encoder = b.send("computeCommandEncoder", commands)
    b.send("setComputePipelineState:", encoder, made.handle)
    b.send("setBuffer:offset:atIndex:", encoder, b.a, 0, 0)
    b.dispatch(encoder, ONE, LANES)
    b.send("endEncoding", encoder)
    b.finish(commands)
    made.release()


VALUES: Final[dict[str, tuple[str, Breaks]]] = {
    "a buffer of no bytes": ("empty buffer", _empty_buffer),
    "a buffer with options of private memory": ("options", _private_buffer),
    "memory without a copy that is no pages": ("wrapped memory", _odd_pages),
    "text of another encoding": ("encoding", _encoding),
    "a library with fast math": ("fast math", _options(1, CONSTANTS["MTL::LanguageVersion3_0"])),
    "a library of an older language": ("version", _options(0, MSL_1_1)),
    "a pipeline without a function": ("no function", _no_function),
    "a pipeline that indirect commands may not have": (
        "pipeline without indirect commands", _not_for_indirect
    ),
    "an indirect command that there is not": ("index", _index),
    "a resource for no usage": ("usage", _usage),
    "lanes of which some meet": ("lanes do not meet", _lanes_apart),
}  # fmt: skip
