// Common parts of the HIP client: what is checked, what a launch is.
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256
#define BLOCKS 6
#define COUNT (BLOCK * BLOCKS)
#define BYTES (COUNT * sizeof(float))

// Report a result on stdout, "ok: ..." or "WRONG: ...", and go on.
void result(int right, const char *format, ...) __attribute__((format(printf, 2, 3)));
void must(hipError_t status, const char *what); // ends the process where a call failed
#define MUST(call) must(call, #call)

hipModule_t compiled(const char *path); // a file of kernels, by HIP's compiler
hipFunction_t named(hipModule_t module, const char *name);
void launch(hipFunction_t kernel, dim3 grid, dim3 block, unsigned shared, hipStream_t stream,
            void **args);
#define ARGS(...) ((void *[]){__VA_ARGS__})

void *device_memory(size_t bytes);  // filled with 0
void check_kernels(hipModule_t module);
void check_runtime(hipModule_t module); // streams, events, graphs, kinds of memory
void check_peers(void);
