"""The functions of libcuda that are modelled, as cuda.h declares them.

`tests/cuda/test_abi.py` compares this table with the header itself.
# src: cuda.h of CUDA 13.0 (wheel nvidia-cuda-runtime)
"""

FUNCTIONS = {
    "cuInit": "unsigned int Flags",
    "cuDriverGetVersion": "int *driverVersion",
    "cuGetErrorName": "CUresult error, const char **pStr",
    "cuDeviceGetCount": "int *count",
    "cuDeviceGet": "CUdevice *device, int ordinal",
    "cuDeviceGetName": "char *name, int len, CUdevice dev",
    "cuDeviceTotalMem_v2": "size_t *bytes, CUdevice dev",
    "cuDeviceGetAttribute": "int *pi, CUdevice_attribute attrib, CUdevice dev",
    "cuDevicePrimaryCtxRetain": "CUcontext *pctx, CUdevice dev",
    "cuDevicePrimaryCtxRelease_v2": "CUdevice dev",
    "cuCtxPushCurrent_v2": "CUcontext ctx",
    "cuCtxPopCurrent_v2": "CUcontext *pctx",
    "cuDeviceCanAccessPeer": "int *canAccessPeer, CUdevice dev, CUdevice peerDev",
    "cuCtxEnablePeerAccess": "CUcontext peerContext, unsigned int Flags",
    "cuMemAlloc_v2": "CUdeviceptr *dptr, size_t bytesize",
    "cuMemFree_v2": "CUdeviceptr dptr",
    "cuMemHostRegister_v2": "void *p, size_t bytesize, unsigned int Flags",
    "cuMemHostUnregister": "void *p",
    "cuMemHostGetDevicePointer_v2": "CUdeviceptr *pdptr, void *p, unsigned int Flags",
    "cuPointerGetAttributes":
        "unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr",
    "cuMemcpyHtoDAsync_v2":
        "CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream",
    "cuMemcpyDtoHAsync_v2":
        "void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream",
    "cuMemcpyDtoDAsync_v2":
        "CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream",
    "cuMemcpyPeerAsync":
        "CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, "
        "size_t ByteCount, CUstream hStream",
    "cuStreamCreate": "CUstream *phStream, unsigned int Flags",
    "cuStreamDestroy_v2": "CUstream hStream",
    "cuStreamQuery": "CUstream hStream",
    "cuStreamWaitEvent": "CUstream hStream, CUevent hEvent, unsigned int Flags",
    "cuEventCreate": "CUevent *phEvent, unsigned int Flags",
    "cuEventDestroy_v2": "CUevent hEvent",
    "cuEventRecord": "CUevent hEvent, CUstream hStream",
    "cuEventQuery": "CUevent hEvent",
    "cuEventElapsedTime": "float *pMilliseconds, CUevent hStart, CUevent hEnd",
    "cuModuleLoadData": "CUmodule *module, const void *image",
    "cuModuleUnload": "CUmodule hmod",
    "cuModuleGetFunction": "CUfunction *hfunc, CUmodule hmod, const char *name",
    "cuFuncGetAttribute": "int *pi, CUfunction_attribute attrib, CUfunction hfunc",
    "cuFuncSetAttribute": "CUfunction hfunc, CUfunction_attribute attrib, int value",
    "cuLaunchKernel":
        "CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
        "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, "
        "unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra",
    "cuGraphCreate": "CUgraph *phGraph, unsigned int flags",
    "cuGraphDestroy": "CUgraph hGraph",
    "cuGraphAddKernelNode_v2":
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams",
    "cuGraphInstantiateWithFlags":
        "CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags",
    "cuGraphExecKernelNodeSetParams_v2":
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams",
    "cuGraphExecDestroy": "CUgraphExec hGraphExec",
    "cuGraphLaunch": "CUgraphExec hGraphExec, CUstream hStream",
}  # fmt: skip
"""Symbol -> parameters. All of them return CUresult."""
_WORDS = {"size_t": "uint64_t", "unsigned long long": "uint64_t", "CUdeviceptr": "uint64_t",
          "int": "int", "CUdevice": "int", "unsigned int": "unsigned int",
          "CUresult": "unsigned int", "CUdevice_attribute": "unsigned int",
          "CUfunction_attribute": "unsigned int"}  # fmt: skip
"""Types by value; handles are pointers to structs that nobody sees."""
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
NO_DEVICE, INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT = 100, 101, 200, 201
NO_BINARY, INVALID_HANDLE, NOT_FOUND, NOT_READY = 209, 400, 500, 600
PEER_UNSUPPORTED, PEER_ENABLED = 217, 704
ILLEGAL_ADDRESS, OUT_OF_RESOURCES, LAUNCH_TIMEOUT = 700, 701, 702
REGISTERED, NOT_REGISTERED, ILLEGAL_INSTRUCTION, MISALIGNED, LAUNCH_FAILED = 712, 713, 715, 716, 719
UNKNOWN = 999
NAMES = {
    SUCCESS: "CUDA_SUCCESS", INVALID_VALUE: "CUDA_ERROR_INVALID_VALUE",
    UNKNOWN: "CUDA_ERROR_UNKNOWN", 216: "CUDA_ERROR_CONTEXT_ALREADY_IN_USE",
}  # fmt: skip
"""What cuGetErrorName is asked for."""
ATTRIBUTES = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 0x7FFFFFFF, 6: 65535, 7: 65535, 8: 48 << 10, 10: 32,
    16: 84, 41: 1, 97: 99 << 10,
}  # fmt: skip
"""CUdevice_attribute -> value of a GeForce RTX 3090: threads of a block, blocks along x, y, z,
grids along x, y, z, shared memory of a block, lanes of a warp, SMs, unified addressing,
shared memory of a block by opting in.
# src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 8.6"""
MAJOR, MINOR = 75, 76


def signature(symbol: str) -> str:
    """The type of a function, pointers and handles as integers of their width."""
    kinds = []
    for parameter in FUNCTIONS[symbol].split(", "):
        kind = parameter.rpartition(" ")[0]
        kinds.append("uint64_t" if "*" in parameter else _WORDS.get(kind, "uint64_t"))
    return f"int(*)({', '.join(kinds)})"
