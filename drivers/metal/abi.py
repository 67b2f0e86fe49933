"""What is called of Metal: libraries, C functions, messages with their types, constants.

`tests/metal/test_messages.py` compares every message with Apple's own headers, as
`generators/metal_messages.py` reads them.
# src: Apple's metal-cpp (bkaradzic/metal-cpp, macOS 14.2), Metal/*.hpp, Foundation/*.hpp;
# Apple, "Objective-C Runtime": objc/runtime.h, objc/message.h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OBJC: Final = "/usr/lib/libobjc.A.dylib"
FOUNDATION: Final = "/System/Library/Frameworks/Foundation.framework/Foundation"
METAL: Final = "/System/Library/Frameworks/Metal.framework/Metal"
GRAPHICS: Final = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"
"""Without it MTLCreateSystemDefaultDevice gives none on macOS.
# src: Apple, MTLCreateSystemDefaultDevice: "link to the Core Graphics framework" """
FUNCTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "objc_getClass": (OBJC, "uint64_t(*)(uint64_t)"),
    "sel_registerName": (OBJC, "uint64_t(*)(uint64_t)"),
    "object_getClass": (OBJC, "uint64_t(*)(uint64_t)"),
    "objc_getClassList": (OBJC, "int(*)(uint64_t, int)"),
    "class_respondsToSelector": (OBJC, "uint8_t(*)(uint64_t, uint64_t)"),
    "MTLCopyAllDevices": (METAL, "uint64_t(*)(void)"),
}
SEND: Final = "objc_msgSend"
SEND_STRUCT: Final = "objc_msgSend_stret"
"""For structs returned in memory, on x86-64 alone.
# src: objc/message.h, objc_msgSend_stret: OBJC_ARM64_UNAVAILABLE"""
STRUCT_BY_STRET: Final = ("x86_64", "amd64")

TYPES: Final[Mapping[str, str]] = {
    "void": "void",
    "id": "uint64_t",
    "pointer": "uint64_t",
    "u64": "uint64_t",
    "i64": "int64_t",
    "bool": "uint8_t",
    "f64": "double",
    "size": "words3",
    "range": "words2",
}
"""Kinds of arguments and results -> as `Library.function` spells them.

NSUInteger and NSInteger have 64 bits; BOOL is one byte, signed or not. MTLSize is three and NSRange
two NSUIntegers, by value."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    classes: tuple[str, ...]
    """Which objects take it."""
    returns: str
    args: tuple[str, ...] = ()


def _message(classes: str, returns: str, args: str = "") -> Message:
    return Message(tuple(classes.split()), returns, tuple(args.split()))


_DEVICE, _QUEUE, _BUFFERS = "MTLDevice", "MTLCommandQueue", "MTLCommandBuffer"
_COMPUTE, _PIPELINE = "MTLComputeCommandEncoder", "MTLComputePipelineState"
_DESCRIPTOR, _INDIRECT = "MTLComputePipelineDescriptor", "MTLIndirectComputeCommand"
_INDIRECT_DESCRIPTOR = "MTLIndirectCommandBufferDescriptor"
MESSAGES: Final[Mapping[str, Message]] = {
    # memory of objects
    "alloc": _message("NSObject", "id"),
    "init": _message("NSObject", "id"),
    "retain": _message("NSObject", "id"),
    "release": _message("NSObject", "void"),
    "drain": _message("NSAutoreleasePool", "void"),
    # Foundation
    "count": _message("NSArray", "u64"),
    "objectAtIndex:": _message("NSArray", "id", "u64"),
    "initWithCString:encoding:": _message("NSString", "id", "pointer u64"),
    "UTF8String": _message("NSString", "pointer"),
    "code": _message("NSError", "i64"),
    "localizedDescription": _message("NSError", "id"),
    # the device
    "name": _message(_DEVICE, "id"),
    "supportsFamily:": _message(_DEVICE, "bool", "i64"),
    "maxThreadsPerThreadgroup": _message(_DEVICE, "size"),
    "maxThreadgroupMemoryLength": _message(_DEVICE, "u64"),
    "maxBufferLength": _message(_DEVICE, "u64"),
    "registryID": _message(_DEVICE, "u64"),
    "recommendedMaxWorkingSetSize": _message(_DEVICE, "u64"),
    "newCommandQueueWithMaxCommandBufferCount:": _message(_DEVICE, "id", "u64"),
    "newSharedEvent": _message(_DEVICE, "id"),
    "newBufferWithLength:options:": _message(_DEVICE, "id", "u64 u64"),
    "newBufferWithBytesNoCopy:length:options:deallocator:": _message(
        _DEVICE, "id", "pointer u64 u64 pointer"
    ),
    "newLibraryWithSource:options:error:": _message(_DEVICE, "id", "id id pointer"),
    "newComputePipelineStateWithDescriptor:options:reflection:error:": _message(
        _DEVICE, "id", "id u64 pointer pointer"
    ),
    "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:": _message(
        _DEVICE, "id", "id u64 u64"
    ),
    # libraries and pipelines
    "setFastMathEnabled:": _message("MTLCompileOptions", "void", "bool"),
    "setLanguageVersion:": _message("MTLCompileOptions", "void", "u64"),
    "newFunctionWithName:": _message("MTLLibrary", "id", "id"),
    "setComputeFunction:": _message(_DESCRIPTOR, "void", "id"),
    "setSupportIndirectCommandBuffers:": _message(_DESCRIPTOR, "void", "bool"),
    "maxTotalThreadsPerThreadgroup": _message(_PIPELINE, "u64"),
    "threadExecutionWidth": _message(_PIPELINE, "u64"),
    "staticThreadgroupMemoryLength": _message(_PIPELINE, "u64"),
    # buffers and events
    "contents": _message("MTLBuffer", "pointer"),
    "gpuAddress": _message("MTLBuffer", "u64"),
    "length": _message("MTLBuffer", "u64"),
    "device": _message("MTLResource", "id"),
    "storageMode": _message("MTLResource", "u64"),
    "setSignaledValue:": _message("MTLSharedEvent", "void", "u64"),
    "signaledValue": _message("MTLSharedEvent", "u64"),
    # command buffers and encoders
    "commandBuffer": _message(_QUEUE, "id"),
    "computeCommandEncoder": _message(_BUFFERS, "id"),
    "blitCommandEncoder": _message(_BUFFERS, "id"),
    "encodeSignalEvent:value:": _message(_BUFFERS, "void", "id u64"),
    "encodeWaitForEvent:value:": _message(_BUFFERS, "void", "id u64"),
    "commit": _message(_BUFFERS, "void"),
    "status": _message(_BUFFERS, "u64"),
    "error": _message(_BUFFERS, "id"),
    "GPUStartTime": _message(_BUFFERS, "f64"),
    "GPUEndTime": _message(_BUFFERS, "f64"),
    "endEncoding": _message("MTLCommandEncoder", "void"),
    "setComputePipelineState:": _message(f"{_COMPUTE} {_INDIRECT}", "void", "id"),
    "setBuffer:offset:atIndex:": _message(_COMPUTE, "void", "id u64 u64"),
    "dispatchThreadgroups:threadsPerThreadgroup:": _message(_COMPUTE, "void", "size size"),
    "useResource:usage:": _message(_COMPUTE, "void", "id u64"),
    "executeCommandsInBuffer:withRange:": _message(_COMPUTE, "void", "id range"),
    "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": _message(
        "MTLBlitCommandEncoder", "void", "id u64 id u64 u64"
    ),
    # indirect command buffers
    "setCommandTypes:": _message(_INDIRECT_DESCRIPTOR, "void", "u64"),
    "setInheritBuffers:": _message(_INDIRECT_DESCRIPTOR, "void", "bool"),
    "setInheritPipelineState:": _message(_INDIRECT_DESCRIPTOR, "void", "bool"),
    "setMaxKernelBufferBindCount:": _message(_INDIRECT_DESCRIPTOR, "void", "u64"),
    "indirectComputeCommandAtIndex:": _message("MTLIndirectCommandBuffer", "id", "u64"),
    "setKernelBuffer:offset:atIndex:": _message(_INDIRECT, "void", "id u64 u64"),
    "concurrentDispatchThreadgroups:threadsPerThreadgroup:": _message(
        _INDIRECT, "void", "size size"
    ),
    "setBarrier": _message(_INDIRECT, "void"),
}
MAYBE_NOTHING: Final = frozenset({
    "newBufferWithLength:options:", "newBufferWithBytesNoCopy:length:options:deallocator:",
    "newLibraryWithSource:options:error:", "newFunctionWithName:", "error",
    "newComputePipelineStateWithDescriptor:options:reflection:error:",
})  # fmt: skip
"""Messages that give 0 where something is wrong, which their callers look at."""

CONSTANTS: Final[Mapping[str, int]] = {
    "NS::UTF8StringEncoding": 4,
    "MTL::ResourceStorageModeShared": 0,
    "MTL::StorageModeShared": 0,
    "MTL::StorageModeManaged": 1,
    "MTL::StorageModePrivate": 2,
    "MTL::GPUFamilyApple6": 1006,
    "MTL::GPUFamilyApple7": 1007,
    "MTL::GPUFamilyApple8": 1008,
    "MTL::GPUFamilyApple9": 1009,
    "MTL::GPUFamilyMac2": 2002,
    "MTL::GPUFamilyMetal3": 5001,
    "MTL::LanguageVersion3_0": 3 << 16,
    "MTL::CommandBufferStatusCompleted": 4,
    "MTL::CommandBufferStatusError": 5,
    "MTL::CommandBufferErrorInternal": 1,
    "MTL::CommandBufferErrorTimeout": 2,
    "MTL::CommandBufferErrorPageFault": 3,
    "MTL::CommandBufferErrorAccessRevoked": 4,
    "MTL::CommandBufferErrorNotPermitted": 7,
    "MTL::CommandBufferErrorOutOfMemory": 8,
    "MTL::CommandBufferErrorInvalidResource": 9,
    "MTL::CommandBufferErrorMemoryless": 10,
    "MTL::CommandBufferErrorDeviceRemoved": 11,
    "MTL::CommandBufferErrorStackOverflow": 12,
    "MTL::IndirectCommandTypeConcurrentDispatch": 32,
    "MTL::ResourceUsageRead": 1,
    "MTL::ResourceUsageWrite": 2,
    "MTL::PipelineOptionNone": 0,
}
"""Compared with the same headers."""
