// A client of AMD's HIP runtime: it compiles, launches and copies, and checks every result itself.
#include "hip_client.h"
#include <stdarg.h>

#define SOURCE_BYTES (1 << 16)

void result(int right, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    printf(right ? "ok: " : "WRONG: ");
    vprintf(format, rest);
    printf("\n");
    fflush(stdout);
    va_end(rest);
}

void must(hipError_t status, const char *what)
{
    if (status == hipSuccess) return;
    result(0, "%s: %s", what, hipGetErrorString(status));
    exit(1);
}

static void compiler(hiprtcResult status, const char *what)
{
    if (status == HIPRTC_SUCCESS) return;
    result(0, "%s: %s", what, hiprtcGetErrorString(status));
    exit(1);
}

hipModule_t compiled(const char *path)
{
    static char source[SOURCE_BYTES];
    FILE *file = fopen(path, "r");
    if (!file || fread(source, 1, sizeof source - 1, file) == 0) must(hipErrorFileNotFound, path);
    fclose(file);
    hiprtcProgram program;
    compiler(hiprtcCreateProgram(&program, source, "kernels", 0, 0, 0), "hiprtcCreateProgram");
    const char *options[] = {"-O3", "-ffp-contract=off"};
    hiprtcResult status = hiprtcCompileProgram(program, 2, options);
    size_t bytes;
    if (status != HIPRTC_SUCCESS && hiprtcGetProgramLogSize(program, &bytes) == HIPRTC_SUCCESS) {
        char *log = calloc(bytes + 1, 1);
        hiprtcGetProgramLog(program, log);
        fputs(log, stderr);
        free(log);
    }
    compiler(status, "hiprtcCompileProgram");
    compiler(hiprtcGetCodeSize(program, &bytes), "hiprtcGetCodeSize");
    char *code = malloc(bytes);
    compiler(hiprtcGetCode(program, code), "hiprtcGetCode");
    compiler(hiprtcDestroyProgram(&program), "hiprtcDestroyProgram");
    hipModule_t module;
    MUST(hipModuleLoadData(&module, code));
    free(code);
    return module;
}

hipFunction_t named(hipModule_t module, const char *name)
{
    hipFunction_t kernel;
    must(hipModuleGetFunction(&kernel, module, name), name);
    return kernel;
}

void launch(hipFunction_t kernel, dim3 grid, dim3 block, unsigned shared, hipStream_t stream,
            void **args)
{
    MUST(hipModuleLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                               stream, args, 0));
}

void *device_memory(size_t bytes)
{
    void *memory;
    MUST(hipMalloc(&memory, bytes));
    MUST(hipMemset(memory, 0, bytes));
    return memory;
}

static void check_device(const char *chip)
{
    hipDeviceProp_t prop;
    size_t unused = 0, whole = 0;
    MUST(hipGetDeviceProperties(&prop, 0));
    result(!strncmp(prop.gcnArchName, chip, strlen(chip)), "device %s", prop.gcnArchName);
    MUST(hipMemGetInfo(&unused, &whole));
    result(unused && unused <= whole && whole == prop.totalGlobalMem, "%zu of %zu MiB unused",
           unused >> 20, whole >> 20);
}

int main(int count, char **words)
{
    if (count != 3) return 2;
    int gpus = 0;
    MUST(hipInit(0));
    MUST(hipGetDeviceCount(&gpus));
    result(gpus == atoi(getenv("WITNESS_GPUS")), "%d GPUs", gpus);
    check_device(getenv("WITNESS_CHIP"));
    if (!strcmp(words[1], "peers")) check_peers();
    else {
        hipModule_t module = compiled(words[2]);
        check_kernels(module);
        check_runtime(module);
        MUST(hipModuleUnload(module));
        char garbage[4096] = "\177ELF";
        result(hipModuleLoadData(&module, garbage) != hipSuccess, "a damaged module is refused");
    }
    MUST(hipDeviceReset());
    return 0;
}
