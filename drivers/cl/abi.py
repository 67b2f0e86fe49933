"""OpenCL's functions and numbers, as far as this driver uses them.

# src: KhronosGroup/OpenCL-Headers 15b536b, CL/cl.h (constants, prototypes), CL/cl_icd.h (the order
# of the dispatch table), CL/cl_ext.h (cl_khr_icd, cl_khr_command_buffer)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

POINTER_BYTES: Final = 8
_TYPES: Final = {"a": "uint64_t", "u": "unsigned int"}
_RESULTS: Final = {"i": "int", "p": "uint64_t", "v": "void"}


@dataclass(frozen=True, slots=True)
class Call:
    """One function: its place in the dispatch table, and its type.

    `kind`: "result:arguments"; i is cl_int, p a handle or pointer, v nothing; of the arguments u
    is cl_uint or cl_bool, a everything of 64 bits: handles, pointers, sizes, bit fields.
    """

    place: int
    kind: str

    @property
    def signature(self) -> str:
        """As `Library.function` takes it."""
        result, _, args = self.kind.partition(":")
        return f"{_RESULTS[result]}(*)({', '.join(_TYPES[arg] for arg in args)})"

    @property
    def nargs(self) -> int:
        """How many arguments it has."""
        return len(self.kind) - 2

    @property
    def returns_status(self) -> bool:
        """Whether the result is a cl_int."""
        return self.kind[0] == "i"


CALLS: Final = {
    "clGetPlatformIDs": Call(0, "i:uaa"),
    "clGetPlatformInfo": Call(1, "i:auaaa"),
    "clGetDeviceIDs": Call(2, "i:aauaa"),
    "clGetDeviceInfo": Call(3, "i:auaaa"),
    "clCreateContext": Call(4, "p:auaaaa"),
    "clReleaseContext": Call(7, "i:a"),
    "clCreateCommandQueue": Call(9, "p:aaaa"),
    "clReleaseCommandQueue": Call(11, "i:a"),
    "clCreateBuffer": Call(14, "p:aaaaa"),
    "clRetainMemObject": Call(17, "i:a"),
    "clReleaseMemObject": Call(18, "i:a"),
    "clGetSupportedImageFormats": Call(19, "i:aauuaa"),
    "clGetMemObjectInfo": Call(20, "i:auaaa"),
    "clCreateProgramWithSource": Call(26, "p:auaaa"),
    "clCreateProgramWithBinary": Call(27, "p:auaaaaa"),
    "clReleaseProgram": Call(29, "i:a"),
    "clBuildProgram": Call(30, "i:auaaaa"),
    "clGetProgramInfo": Call(32, "i:auaaa"),
    "clGetProgramBuildInfo": Call(33, "i:aauaaa"),
    "clCreateKernel": Call(34, "p:aaa"),
    "clReleaseKernel": Call(37, "i:a"),
    "clSetKernelArg": Call(38, "i:auaa"),
    "clGetKernelInfo": Call(39, "i:auaaa"),
    "clGetKernelWorkGroupInfo": Call(40, "i:aauaaa"),
    "clGetEventInfo": Call(42, "i:auaaa"),
    "clReleaseEvent": Call(44, "i:a"),
    "clGetEventProfilingInfo": Call(45, "i:auaaa"),
    "clFlush": Call(46, "i:a"),
    "clEnqueueReadBuffer": Call(48, "i:aauaaauaa"),
    "clEnqueueWriteBuffer": Call(49, "i:aauaaauaa"),
    "clEnqueueCopyBuffer": Call(50, "i:aaaaaauaa"),
    "clEnqueueNDRangeKernel": Call(59, "i:aauaaauaa"),
    "clGetExtensionFunctionAddress": Call(65, "p:a"),
    "clCreateSubBuffer": Call(82, "p:aauaa"),
    "clCreateImage": Call(96, "p:aaaaaa"),
    "clEnqueueMarkerWithWaitList": Call(105, "i:auaa"),
    "clEnqueueBarrierWithWaitList": Call(106, "i:auaa"),
    "clGetExtensionFunctionAddressForPlatform": Call(107, "p:aa"),
}
"""Of OpenCL 1.2: every library has them."""
SVM_CALLS: Final = {
    "clSVMAlloc": Call(126, "p:aaau"),
    "clSVMFree": Call(127, "v:aa"),
    "clEnqueueSVMMemcpy": Call(129, "i:auaaauaa"),
    "clSetKernelArgSVMPointer": Call(134, "i:aua"),
    "clSetKernelExecInfo": Call(135, "i:auaa"),
}
"""Of OpenCL 2.0: shared virtual memory."""
COMMAND_BUFFER_CALLS: Final = {
    "clCreateCommandBufferKHR": Call(-1, "p:uaaa"),
    "clFinalizeCommandBufferKHR": Call(-1, "i:a"),
    "clReleaseCommandBufferKHR": Call(-1, "i:a"),
    "clEnqueueCommandBufferKHR": Call(-1, "i:uaauaa"),
    "clCommandNDRangeKernelKHR": Call(-1, "i:aaaauaaauaaa"),
}
"""Of cl_khr_command_buffer: found by name, in no dispatch table."""
MUTABLE_DISPATCH_CALLS: Final = {"clUpdateMutableCommandsKHR": Call(-1, "i:auaa")}
"""Of cl_khr_command_buffer_mutable_dispatch, from 0.9.2 on."""

# Platforms and devices
PLATFORM_VERSION: Final = 0x0901
PLATFORM_NAME: Final = 0x0902
PLATFORM_VENDOR: Final = 0x0903
DEVICE_TYPE_ALL: Final = 0xFFFFFFFF
DEVICE_TYPE_CPU: Final = 1 << 1
DEVICE_TYPE: Final = 0x1000
DEVICE_VENDOR_ID: Final = 0x1001
DEVICE_MAX_COMPUTE_UNITS: Final = 0x1002
DEVICE_MAX_WORK_GROUP_SIZE: Final = 0x1004
DEVICE_MAX_MEM_ALLOC_SIZE: Final = 0x1010
DEVICE_IMAGE2D_MAX_WIDTH: Final = 0x1011
DEVICE_IMAGE2D_MAX_HEIGHT: Final = 0x1012
DEVICE_IMAGE_SUPPORT: Final = 0x1016
DEVICE_MEM_BASE_ADDR_ALIGN: Final = 0x1019
DEVICE_SINGLE_FP_CONFIG: Final = 0x101B
DEVICE_GLOBAL_MEM_SIZE: Final = 0x101F
DEVICE_LOCAL_MEM_SIZE: Final = 0x1023
DEVICE_AVAILABLE: Final = 0x1027
DEVICE_COMPILER_AVAILABLE: Final = 0x1028
DEVICE_NAME: Final = 0x102B
DRIVER_VERSION: Final = 0x102D
DEVICE_VERSION: Final = 0x102F
DEVICE_EXTENSIONS: Final = 0x1030
DEVICE_DOUBLE_FP_CONFIG: Final = 0x1032
DEVICE_HALF_FP_CONFIG: Final = 0x1033
DEVICE_OPENCL_C_VERSION: Final = 0x103D
DEVICE_IMAGE_PITCH_ALIGNMENT: Final = 0x104A
DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT: Final = 0x104B
DEVICE_SVM_CAPABILITIES: Final = 0x1053
DEVICE_EXTENSIONS_WITH_VERSION: Final = 0x1060
DEVICE_COMMAND_BUFFER_CAPABILITIES: Final = 0x12A9
DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES: Final = 0x12AA
DEVICE_MUTABLE_DISPATCH_CAPABILITIES: Final = 0x12B0
COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE: Final = 1 << 2
DEVICE_SUB_GROUP_SIZES_INTEL: Final = 0x4108
FP_DENORM: Final = 1 << 0
FP_INF_NAN: Final = 1 << 1
FP_ROUND_TO_NEAREST: Final = 1 << 2
FP_FMA: Final = 1 << 5
FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: Final = 1 << 7
SVM_COARSE_GRAIN_BUFFER: Final = 1 << 0
SVM_FINE_GRAIN_BUFFER: Final = 1 << 1
SVM_FINE_GRAIN_SYSTEM: Final = 1 << 2

# Objects
QUEUE_PROFILING_ENABLE: Final = 1 << 1
MEM_READ_WRITE: Final = 1 << 0
MEM_WRITE_ONLY: Final = 1 << 1
MEM_READ_ONLY: Final = 1 << 2
MEM_USE_HOST_PTR: Final = 1 << 3
MEM_SVM_FINE_GRAIN_BUFFER: Final = 1 << 10
MEM_OBJECT_BUFFER: Final = 0x10F0
MEM_OBJECT_IMAGES: Final = range(0x10F1, 0x10F7)
MEM_OBJECT_IMAGE2D: Final = 0x10F1
MEM_TYPE: Final = 0x1100
MEM_FLAGS: Final = 0x1101
MEM_SIZE: Final = 0x1102
MEM_CONTEXT: Final = 0x1106
MEM_ASSOCIATED_MEMOBJECT: Final = 0x1107
BUFFER_CREATE_TYPE_REGION: Final = 0x1220
PROGRAM_BINARY_SIZES: Final = 0x1165
PROGRAM_BINARIES: Final = 0x1166
PROGRAM_KERNEL_NAMES: Final = 0x1168
PROGRAM_BUILD_LOG: Final = 0x1183
KERNEL_NUM_ARGS: Final = 0x1191
KERNEL_LOCAL_MEM_SIZE: Final = 0x11B2
KERNEL_WORK_GROUP_SIZE: Final = 0x11B0
KERNEL_EXEC_INFO_SVM_PTRS: Final = 0x11B6
COMMAND_BUFFER_FLAGS: Final = 0x1293
COMMAND_BUFFER_SIMULTANEOUS_USE: Final = 1 << 0
COMMAND_BUFFER_MUTABLE: Final = 1 << 1
MUTABLE_DISPATCH_UPDATABLE_FIELDS: Final = 0x12B1
MUTABLE_DISPATCH_ARGUMENTS: Final = 1 << 3
MUTABLE_DISPATCH_CONFIG_WORDS: Final = 9
"""cl_mutable_dispatch_config_khr: command; num_args, num_svm_args; num_exec_infos, work_dim;
arg_list; arg_svm_list; exec_info_list; three pointers to sizes."""
MUTABLE_DISPATCH_ARG_WORDS: Final = 3
"""cl_mutable_dispatch_arg_khr: arg_index; arg_size; arg_value."""
EVENT_COMMAND_EXECUTION_STATUS: Final = 0x11D3
PROFILING_COMMAND_END: Final = 0x1283
COMPLETE: Final = 0

# Errors, by what this driver makes of them
SUCCESS: Final = 0
DEVICE_NOT_FOUND: Final = -1
PLATFORM_NOT_FOUND_KHR: Final = -1001
STATUS: Final = {
    -1: "CL_DEVICE_NOT_FOUND",
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -3: "CL_COMPILER_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -7: "CL_PROFILING_INFO_NOT_AVAILABLE",
    -8: "CL_MEM_COPY_OVERLAP",
    -9: "CL_IMAGE_FORMAT_MISMATCH",
    -10: "CL_IMAGE_FORMAT_NOT_SUPPORTED",
    -11: "CL_BUILD_PROGRAM_FAILURE",
    -12: "CL_MAP_FAILURE",
    -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -15: "CL_COMPILE_PROGRAM_FAILURE",
    -30: "CL_INVALID_VALUE",
    -32: "CL_INVALID_PLATFORM",
    -33: "CL_INVALID_DEVICE",
    -34: "CL_INVALID_CONTEXT",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -38: "CL_INVALID_MEM_OBJECT",
    -39: "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
    -40: "CL_INVALID_IMAGE_SIZE",
    -42: "CL_INVALID_BINARY",
    -43: "CL_INVALID_BUILD_OPTIONS",
    -44: "CL_INVALID_PROGRAM",
    -45: "CL_INVALID_PROGRAM_EXECUTABLE",
    -46: "CL_INVALID_KERNEL_NAME",
    -47: "CL_INVALID_KERNEL_DEFINITION",
    -48: "CL_INVALID_KERNEL",
    -49: "CL_INVALID_ARG_INDEX",
    -50: "CL_INVALID_ARG_VALUE",
    -51: "CL_INVALID_ARG_SIZE",
    -52: "CL_INVALID_KERNEL_ARGS",
    -54: "CL_INVALID_WORK_GROUP_SIZE",
    -55: "CL_INVALID_WORK_ITEM_SIZE",
    -58: "CL_INVALID_EVENT",
    -59: "CL_INVALID_OPERATION",
    -61: "CL_INVALID_BUFFER_SIZE",
    -63: "CL_INVALID_GLOBAL_WORK_SIZE",
    -65: "CL_INVALID_IMAGE_DESCRIPTOR",
    -1138: "CL_INVALID_COMMAND_BUFFER_KHR",
    -1139: "CL_INVALID_SYNC_POINT_WAIT_LIST_KHR",
    -1140: "CL_INCOMPATIBLE_COMMAND_QUEUE_KHR",
    -1141: "CL_INVALID_MUTABLE_COMMAND_KHR",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
}
OUT_OF_MEMORY: Final = frozenset({-4, -5, -6, -61})
LOST: Final = frozenset({-2, -33, -36})
BUILD_FAILED: Final = frozenset({-11, -15})
