/* Sources, functions, pipelines. The source is compiled by whoever gave `made_up_compiler`. */
#define _GNU_SOURCE
#include "metal.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*Compile)(const char *source, char *answer, u64 nbytes);
static Compile compile;
static Hooks *hooks_given;
enum { ANSWER_BYTES = 1 << 16, OLDEST = 3 << 16 };

/* `compile` answers 0 and the path of a library, or 1 and a log. */
void made_up_compiler(Compile given) { compile = given; }
extern Hooks made_up_hooks;

static void options_fast(Options *self, SEL name, unsigned char on) {
    (void)name;
    self->fast_math = on;
}
static void options_version(Options *self, SEL name, u64 version) {
    (void)name;
    self->version = version;
}
static Object *options_init(Options *self) {
    self->fast_math = 1;
    return &self->head;
}
static const Method options_methods[] = {
    METHOD("init", options_init), METHOD("setFastMathEnabled:", options_fast),
    METHOD("setLanguageVersion:", options_version), {NULL, NULL},
};
static Class MTLCompileOptions = {
    .name = "MTLCompileOptions", .nbytes = sizeof(Options), .methods = options_methods,
    .parent = ROOT,
};

Object *new_library(Object *device, SEL name, Object *source, Object *options, Object **error) {
    static char answer[ANSWER_BYTES];
    (void)device, (void)name;
    if (!is_alive(source, NULL, "a source") || !is_alive(options, &MTLCompileOptions, "options"))
        return NULL;
    if (((Options *)options)->fast_math) violate("fast math", "a library with it");
    if (((Options *)options)->version < OLDEST) violate("version", "older than MSL 3.0");
    void *code = NULL;
    if (!compile) snprintf(answer, sizeof answer, "no compiler was given");
    else if (!compile(text_of(source), answer, sizeof answer)) {
        code = dlopen(answer, RTLD_NOW | RTLD_LOCAL);
        if (!code) snprintf(answer, sizeof answer, "%s", dlerror());
    }
    if (!code) {
        if (error) *error = autoreleased(error_of(3, answer));
        return NULL;
    }
    hooks_given = dlsym(code, "msl_hooks");
    if (hooks_given) *hooks_given = made_up_hooks;
    Library *made = (Library *)make(&MTLLibrary);
    made->code = code;
    return &made->head;
}

static Class MTLFunction;
static Object *library_function(Library *self, SEL selector, Object *name) {
    char symbol[512];
    (void)selector;
    if (!is_alive(name, NULL, "a name")) return NULL;
    snprintf(symbol, sizeof symbol, "msl_kernel_%s", text_of(name));
    const Kernel *kernel = dlsym(self->code, symbol);
    if (!kernel) return NULL;
    Function *made = (Function *)make(&MTLFunction);
    made->library = retain(&self->head);
    made->kernel = kernel;
    return &made->head;
}
static const Method library_methods[] = {
    METHOD("newFunctionWithName:", library_function), {NULL, NULL},
};
Class MTLLibrary = {
    .name = "MTLLibrary", .nbytes = sizeof(Library), .methods = library_methods, .parent = ROOT,
};
static void function_dealloc(Object *self) { release(((Function *)self)->library); }
static Class MTLFunction = {
    .name = "MTLFunction", .nbytes = sizeof(Function), .parent = ROOT,
    .dealloc = function_dealloc,
};

static void descriptor_function(PipelineDescriptor *self, SEL name, Object *function) {
    (void)name;
    if (!is_alive(function, &MTLFunction, "a function")) return;
    release(self->function);
    self->function = retain(function);
}
static void descriptor_indirect(PipelineDescriptor *self, SEL name, unsigned char on) {
    (void)name;
    self->indirect = on;
}
static void descriptor_dealloc(Object *self) { release(((PipelineDescriptor *)self)->function); }
static const Method descriptor_methods[] = {
    METHOD("setComputeFunction:", descriptor_function),
    METHOD("setSupportIndirectCommandBuffers:", descriptor_indirect), {NULL, NULL},
};
static Class MTLComputePipelineDescriptor = {
    .name = "MTLComputePipelineDescriptor", .nbytes = sizeof(PipelineDescriptor),
    .methods = descriptor_methods, .parent = ROOT, .dealloc = descriptor_dealloc,
};

Object *new_pipeline(Object *device, SEL name, Object *shape, u64 options, void *reflection,
                     Object **error) {
    (void)device, (void)name;
    if (options || reflection) violate("options", "of a pipeline");
    if (!is_alive(shape, &MTLComputePipelineDescriptor, "a descriptor")) return NULL;
    PipelineDescriptor *given = (PipelineDescriptor *)shape;
    if (!given->function) {
        violate("no function", "in a pipeline's descriptor");
        if (error) *error = autoreleased(error_of(2, "no function"));
        return NULL;
    }
    Pipeline *made = (Pipeline *)make(&MTLComputePipelineState);
    made->kernel = ((Function *)given->function)->kernel;
    made->library = retain(((Function *)given->function)->library);
    made->indirect = given->indirect;
    return &made->head;
}
static u64 most_lanes = MOST_LANES;
/* For tests: how many lanes registers allow. */
void made_up_lanes(u64 most) { most_lanes = most; }
static u64 pipeline_lanes(Pipeline *self) {
    u64 block = self->kernel->block ? self->kernel->block : MOST_LANES;
    return block < most_lanes ? block : most_lanes;
}
static u64 pipeline_simd(Pipeline *self) { (void)self; return SIMD_LANES; }
static u64 pipeline_shared(Pipeline *self) {
    u64 (*find)(void) = (u64 (*)(void))dlsym(((Library *)self->library)->code, "msl_shared_bytes");
    return find ? find() : 0;
}
static void pipeline_dealloc(Object *self) { release(((Pipeline *)self)->library); }
static const Method pipeline_methods[] = {
    METHOD("maxTotalThreadsPerThreadgroup", pipeline_lanes),
    METHOD("threadExecutionWidth", pipeline_simd),
    METHOD("staticThreadgroupMemoryLength", pipeline_shared), {NULL, NULL},
};
Class MTLComputePipelineState = {
    .name = "MTLComputePipelineState", .nbytes = sizeof(Pipeline), .methods = pipeline_methods,
    .parent = ROOT, .dealloc = pipeline_dealloc,
};

__attribute__((constructor)) static void begin(void) {
    Class *all[] = {
        &MTLCompileOptions, &MTLLibrary, &MTLFunction, &MTLComputePipelineDescriptor,
        &MTLComputePipelineState,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) remember(all[i]);
}
