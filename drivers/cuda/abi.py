"""What is called of libcuda: functions with their types, constants, results, structs.

`tests/cuda/test_abi.py` compares all of it with cuda.h. Names are those of the library's symbols:
cuda.h renames cuMemAlloc to cuMemAlloc_v2, for example.
# src: cuda.h of CUDA 13.0 (wheel nvidia-cuda-runtime)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

LIBRARY: Final = "libcuda.so.1"
LEAST_VERSION: Final = 12000
"""Of cuDriverGetVersion: the first with cuGraphAddKernelNode_v2, cuGraphExecKernelNodeSetParams_v2
and cuGetProcAddress_v2. # src: CUDA 12.0 release notes; cuda.h, `#if __CUDA_API_VERSION >= 12000`
"""


def _function(args: str) -> str:
    """A function type from its arguments: p pointer or handle, z size_t, u and i 32 bits."""
    kinds = {"p": "uint64_t", "z": "uint64_t", "u": "unsigned int", "i": "int"}
    return f"int(*)({', '.join(kinds[one] for one in args) or 'void'})"


FUNCTIONS: Final[Mapping[str, str]] = {
    name: _function(args)
    for name, args in {
        "cuInit": "u",
        "cuDriverGetVersion": "p",
        "cuGetErrorName": "ip",
        # devices and contexts
        "cuDeviceGetCount": "p",
        "cuDeviceGet": "pi",
        "cuDeviceGetName": "pii",
        "cuDeviceTotalMem_v2": "pi",
        "cuDeviceGetAttribute": "pii",
        "cuDevicePrimaryCtxRetain": "pi",
        "cuDevicePrimaryCtxRelease_v2": "i",
        "cuCtxPushCurrent_v2": "p",
        "cuCtxPopCurrent_v2": "p",
        "cuDeviceCanAccessPeer": "pii",
        "cuCtxEnablePeerAccess": "pu",
        # memory
        "cuMemAlloc_v2": "pz",
        "cuMemFree_v2": "p",
        "cuMemHostRegister_v2": "pzu",
        "cuMemHostUnregister": "p",
        "cuMemHostGetDevicePointer_v2": "ppu",
        "cuPointerGetAttributes": "uppp",
        "cuMemcpyHtoDAsync_v2": "ppzp",
        "cuMemcpyDtoHAsync_v2": "ppzp",
        "cuMemcpyDtoDAsync_v2": "ppzp",
        "cuMemcpyPeerAsync": "ppppzp",
        # streams and events
        "cuStreamCreate": "pu",
        "cuStreamDestroy_v2": "p",
        "cuStreamQuery": "p",
        "cuStreamWaitEvent": "ppu",
        "cuEventCreate": "pu",
        "cuEventDestroy_v2": "p",
        "cuEventRecord": "pp",
        "cuEventQuery": "p",
        "cuEventElapsedTime": "ppp",
        # modules and launches
        "cuModuleLoadData": "pp",
        "cuModuleUnload": "p",
        "cuModuleGetFunction": "ppp",
        "cuFuncGetAttribute": "pip",
        "cuFuncSetAttribute": "pii",
        "cuLaunchKernel": "puuuuuuuppp",
        # graphs
        "cuGraphCreate": "pu",
        "cuGraphDestroy": "p",
        "cuGraphAddKernelNode_v2": "pppzp",
        "cuGraphInstantiateWithFlags": "ppz",
        "cuGraphExecKernelNodeSetParams_v2": "ppp",
        "cuGraphExecDestroy": "p",
        "cuGraphLaunch": "pp",
    }.items()
}
RELEASES: Final = frozenset({
    "cuDevicePrimaryCtxRelease_v2", "cuMemFree_v2", "cuMemHostUnregister",
    "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload", "cuGraphDestroy",
    "cuGraphExecDestroy", "cuCtxPopCurrent_v2",
})  # fmt: skip
"""What gives something back: on a lost context they fail, and everything is gone with it."""

# CUdevice_attribute
MAX_THREADS_PER_BLOCK: Final = 1
MAX_GRID_DIM_X: Final = 5
MAX_GRID_DIM_Y: Final = 6
MAX_GRID_DIM_Z: Final = 7
MAX_SHARED_MEMORY_PER_BLOCK: Final = 8
WARP_SIZE: Final = 10
MULTIPROCESSOR_COUNT: Final = 16
UNIFIED_ADDRESSING: Final = 41
COMPUTE_CAPABILITY_MAJOR: Final = 75
COMPUTE_CAPABILITY_MINOR: Final = 76
MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Final = 97
# CUfunction_attribute
FUNC_MAX_THREADS_PER_BLOCK: Final = 0
FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES: Final = 8
# CUpointer_attribute and CUmemorytype
POINTER_MEMORY_TYPE: Final = 2
POINTER_IS_MANAGED: Final = 8
POINTER_DEVICE_ORDINAL: Final = 9
POINTER_RANGE_START_ADDR: Final = 11
POINTER_RANGE_SIZE: Final = 12
MEMORYTYPE_DEVICE: Final = 2
# flags
STREAM_NON_BLOCKING: Final = 1
EVENT_DEFAULT: Final = 0
EVENT_DISABLE_TIMING: Final = 2
HOST_PORTABLE: Final = 1
"""CU_MEMHOSTREGISTER_PORTABLE: without it, pages are pinned for the registering context alone."""
HOST_DEVICEMAP: Final = 2
"""CU_MEMHOSTREGISTER_DEVICEMAP."""
PARAM_END: Final = 0
PARAM_BUFFER_POINTER: Final = 1
PARAM_BUFFER_SIZE: Final = 2
"""CU_LAUNCH_PARAM_*: the `extra` list of a launch."""
STREAM_LEGACY: Final = 1
STREAM_PER_THREAD: Final = 2
"""CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: handles of the default streams."""

SUCCESS: Final = 0
NOT_READY: Final = 600
OUT_OF_MEMORY: Final = 2
PEER_ALREADY: Final = 704
NO_DEVICE: Final = 100
RESULTS: Final[Mapping[int, str]] = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED",
    34: "STUB_LIBRARY", 36: "CALL_REQUIRES_NEWER_DRIVER", 46: "DEVICE_UNAVAILABLE",
    100: "NO_DEVICE", 101: "INVALID_DEVICE", 102: "DEVICE_NOT_LICENSED", 200: "INVALID_IMAGE",
    201: "INVALID_CONTEXT", 205: "MAP_FAILED", 209: "NO_BINARY_FOR_GPU",
    214: "ECC_UNCORRECTABLE", 217: "PEER_ACCESS_UNSUPPORTED", 218: "INVALID_PTX",
    220: "NVLINK_UNCORRECTABLE", 221: "JIT_COMPILER_NOT_FOUND",
    222: "UNSUPPORTED_PTX_VERSION", 223: "JIT_COMPILATION_DISABLED", 226: "CONTAINED",
    300: "INVALID_SOURCE", 304: "OPERATING_SYSTEM", 400: "INVALID_HANDLE", 401: "ILLEGAL_STATE",
    500: "NOT_FOUND", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS",
    701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT", 704: "PEER_ACCESS_ALREADY_ENABLED",
    708: "PRIMARY_CONTEXT_ACTIVE", 709: "CONTEXT_IS_DESTROYED", 710: "ASSERT",
    711: "TOO_MANY_PEERS", 712: "HOST_MEMORY_ALREADY_REGISTERED",
    713: "HOST_MEMORY_NOT_REGISTERED", 714: "HARDWARE_STACK_ERROR", 715: "ILLEGAL_INSTRUCTION",
    716: "MISALIGNED_ADDRESS", 717: "INVALID_ADDRESS_SPACE", 718: "INVALID_PC",
    719: "LAUNCH_FAILED", 721: "TENSOR_MEMORY_LEAK", 800: "NOT_PERMITTED",
    801: "NOT_SUPPORTED", 802: "SYSTEM_NOT_READY",
    803: "SYSTEM_DRIVER_MISMATCH", 804: "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "MPS_CONNECTION_FAILED", 806: "MPS_RPC_FAILURE", 807: "MPS_SERVER_NOT_READY",
    808: "MPS_MAX_CLIENTS_REACHED", 809: "MPS_MAX_CONNECTIONS_REACHED",
    810: "MPS_CLIENT_TERMINATED", 900: "STREAM_CAPTURE_UNSUPPORTED",
    901: "STREAM_CAPTURE_INVALIDATED", 905: "STREAM_CAPTURE_ISOLATION",
    906: "STREAM_CAPTURE_IMPLICIT", 907: "CAPTURED_EVENT", 908: "STREAM_CAPTURE_WRONG_THREAD",
    910: "GRAPH_EXEC_UPDATE_FAILURE", 911: "EXTERNAL_DEVICE",
    999: "UNKNOWN",
}  # fmt: skip
"""CUresult, without CUDA_ERROR_. Others are named by cuGetErrorName."""
FAULTS: Final = frozenset({214, 226, 700, 710, 714, 715, 716, 717, 718, 719, 721, 911})
"""Errors of work, after which the context refuses everything until the process ends.
# src: cuda.h, CUresult: "This leaves the process in an inconsistent state and any further CUDA work
# will return the same error. To continue using CUDA, the process must be terminated and relaunched"
"""
HANGS: Final = frozenset({702})
"""The same, of a kernel that ran too long."""
DEVICE_UNAVAILABLE: Final = 46
GONE: Final = frozenset({4, 201, 220, 709, 810})
"""The device or the context is no longer there."""
RESET: Final = frozenset({201, 709})
"""Another library of the process destroyed the primary context (cudaDeviceReset())."""

KERNEL_NODE: Final = struct.Struct("<Q7I4xQQQQ")
"""CUDA_KERNEL_NODE_PARAMS_v2: func, grid, block, shared bytes, kernelParams, extra, kern, ctx."""
