// What HIP's runtime does by itself: streams, events, graphs, copies and kinds of memory.
#include "hip_client.h"

static float host[COUNT], back[COUNT];

static void fill(float first)
{
    for (int i = 0; i < COUNT; i++) host[i] = first + (float)i;
    memset(back, 0, BYTES);
}

static unsigned differ(float first, float factor)
{
    unsigned wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += back[i] != (first + (float)i) * factor;
    return wrong;
}

static void doubled(hipFunction_t fused, void *a, void *zero, void *c, hipStream_t stream)
{
    unsigned n = COUNT;
    launch(fused, (dim3){BLOCKS, 1, 1}, (dim3){BLOCK, 1, 1}, 0, stream, ARGS(&a, &zero, &c, &n));
}

static void check_copies(void *a, void *b)
{
    fill(1);
    MUST(hipMemcpy(a, host, BYTES, hipMemcpyHostToDevice));
    MUST(hipMemcpy(b, a, BYTES, hipMemcpyDeviceToDevice));
    MUST(hipMemcpy(back, b, BYTES, hipMemcpyDeviceToHost));
    result(!differ(1, 1), "copies up, across and down");
    MUST(hipMemsetD32((hipDeviceptr_t)a, 0x3f800000, COUNT));
    MUST(hipMemcpy2D(b, 64, a, 128, 64, 16, hipMemcpyDeviceToDevice));
    MUST(hipMemcpy(back, b, 1024, hipMemcpyDeviceToHost));
    unsigned wrong = 0;
    for (int i = 0; i < 256; i++) wrong += back[i] != 1;
    result(!wrong, "a fill and a copy of rows: %u wrong", wrong);
}

static void called(void *count) { ++*(int *)count; }

static void check_streams(hipFunction_t fused, void *a, void *zero, void *c)
{
    hipStream_t first, second;
    hipEvent_t ready, done;
    float *pinned, ms = -1;
    int calls = 0;
    MUST(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    MUST(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    MUST(hipEventCreate(&ready));
    MUST(hipEventCreate(&done));
    MUST(hipHostMalloc((void **)&pinned, BYTES, 0));
    fill(2);
    memcpy(pinned, host, BYTES);
    MUST(hipMemcpyAsync(a, pinned, BYTES, hipMemcpyHostToDevice, first));
    MUST(hipEventRecord(ready, first));
    MUST(hipStreamWaitEvent(second, ready, 0));
    doubled(fused, a, zero, c, second);
    MUST(hipMemcpyAsync(pinned, c, BYTES, hipMemcpyDeviceToHost, second));
    MUST(hipLaunchHostFunc(second, called, &calls));
    MUST(hipEventRecord(done, second));
    MUST(hipEventSynchronize(done));
    memcpy(back, pinned, BYTES);
    result(!differ(2, 2), "a stream waits for another one's event");
    MUST(hipEventElapsedTime(&ms, ready, done));
    result(ms >= 0 && calls == 1, "events have times, a function of the host ran once");
    result(hipStreamQuery(first) == hipSuccess, "a stream that is done says so");
    MUST(hipHostFree(pinned));
    MUST(hipStreamDestroy(first));
    MUST(hipStreamDestroy(second));
    MUST(hipEventDestroy(ready));
    MUST(hipEventDestroy(done));
}

static void check_graph(hipFunction_t fused, void *a, void *zero, void *c)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t program;
    MUST(hipStreamCreate(&stream));
    fill(3);
    MUST(hipMemcpy(a, host, BYTES, hipMemcpyHostToDevice));
    MUST(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    doubled(fused, a, zero, c, stream);
    doubled(fused, c, zero, a, stream);
    MUST(hipStreamEndCapture(stream, &graph));
    MUST(hipGraphInstantiate(&program, graph, 0, 0, 0));
    for (int i = 0; i < 3; i++) MUST(hipGraphLaunch(program, stream));
    MUST(hipStreamSynchronize(stream));
    MUST(hipMemcpy(back, a, BYTES, hipMemcpyDeviceToHost));
    result(!differ(3, 64), "a captured graph, launched three times");
    MUST(hipGraphExecDestroy(program));
    MUST(hipGraphDestroy(graph));
    MUST(hipStreamDestroy(stream));
}

static void check_memory(hipFunction_t fused, void *zero, void *c)
{
    float *managed, *mapped;
    void *seen;
    hipPointerAttribute_t about;
    MUST(hipMallocManaged((void **)&managed, BYTES, hipMemAttachGlobal));
    fill(4);
    memcpy(managed, host, BYTES);
    doubled(fused, managed, zero, c, 0);
    MUST(hipMemcpy(back, c, BYTES, hipMemcpyDeviceToHost));
    result(!differ(4, 2), "managed memory of the host is read by a kernel");
    MUST(hipFree(managed));
    MUST(hipHostRegister(host, BYTES, hipHostRegisterMapped));
    MUST(hipHostGetDevicePointer(&seen, host, 0));
    doubled(fused, seen, zero, c, 0);
    MUST(hipMemcpy(back, c, BYTES, hipMemcpyDeviceToHost));
    result(!differ(4, 2), "registered memory of the host is read by a kernel");
    MUST(hipHostUnregister(host));
    MUST(hipHostMalloc((void **)&mapped, BYTES, hipHostMallocCoherent));
    MUST(hipPointerGetAttributes(&about, mapped));
    result(about.type == hipMemoryTypeHost, "HIP knows memory of the host by its address");
    MUST(hipMemcpy(mapped, c, BYTES, hipMemcpyDeviceToHost));
    memcpy(back, mapped, BYTES);
    result(!differ(4, 2), "coherent memory of the host is a copy's target");
    MUST(hipHostFree(mapped));
}

void check_runtime(hipModule_t module)
{
    hipFunction_t fused = named(module, "fused");
    void *a = device_memory(BYTES), *zero = device_memory(BYTES), *c = device_memory(BYTES);
    check_copies(a, c);
    check_streams(fused, a, zero, c);
    check_graph(fused, a, zero, c);
    check_memory(fused, zero, c);
    MUST(hipFree(a));
    MUST(hipFree(zero));
    MUST(hipFree(c));
}

void check_peers(void)
{
    int can = 0;
    fill(5);
    MUST(hipDeviceCanAccessPeer(&can, 0, 1));
    result(can, "the first GPU can reach the second one's memory");
    MUST(hipSetDevice(1));
    void *far = device_memory(BYTES);
    MUST(hipSetDevice(0));
    void *near = device_memory(BYTES);
    MUST(hipDeviceEnablePeerAccess(1, 0));
    MUST(hipMemcpy(near, host, BYTES, hipMemcpyHostToDevice));
    MUST(hipMemcpyPeer(far, 1, near, 0, BYTES));
    MUST(hipMemcpy(back, far, BYTES, hipMemcpyDeviceToHost));
    result(!differ(5, 1), "a copy from one GPU's memory to the other's");
    MUST(hipFree(near));
    MUST(hipSetDevice(1));
    MUST(hipFree(far));
    MUST(hipSetDevice(0));
}
