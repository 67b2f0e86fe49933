/* Indirect command buffers of kernels. */
#define _GNU_SOURCE
#include "metal.h"
#include <stdlib.h>

enum { DISPATCH = 32, MOST_COMMANDS = 16384 };

static void shape_types(IndirectDescriptor *self, SEL name, u64 types) {
    (void)name;
    self->types = types;
}
static void shape_buffers(IndirectDescriptor *self, SEL name, unsigned char on) {
    (void)name;
    self->inherits_buffers = on;
}
static void shape_pipeline(IndirectDescriptor *self, SEL name, unsigned char on) {
    (void)name;
    self->inherits_pipeline = on;
}
static void shape_most(IndirectDescriptor *self, SEL name, u64 most) {
    (void)name;
    self->most_buffers = most;
}
static Object *shape_init(IndirectDescriptor *self) {
    self->inherits_buffers = self->inherits_pipeline = 1;
    return &self->head;
}
static const Method shape_methods[] = {
    METHOD("init", shape_init), METHOD("setCommandTypes:", shape_types),
    METHOD("setInheritBuffers:", shape_buffers),
    METHOD("setInheritPipelineState:", shape_pipeline),
    METHOD("setMaxKernelBufferBindCount:", shape_most), {NULL, NULL},
};
static Class MTLIndirectCommandBufferDescriptor = {
    .name = "MTLIndirectCommandBufferDescriptor", .nbytes = sizeof(IndirectDescriptor),
    .methods = shape_methods, .parent = ROOT,
};

Object *new_indirect(Object *device, SEL name, Object *shape, u64 count, u64 options) {
    (void)device, (void)name;
    if (!is_alive(shape, &MTLIndirectCommandBufferDescriptor, "a descriptor")) return NULL;
    const IndirectDescriptor *given = (const IndirectDescriptor *)shape;
    if (given->types != DISPATCH || given->inherits_buffers || given->inherits_pipeline ||
        given->most_buffers > MOST_BUFFERS || !count || count > MOST_COMMANDS || options) {
        violate("indirect descriptor", "%lu commands of types %lu", (long)count,
                (long)given->types);
        return NULL;
    }
    Indirect *made = (Indirect *)make(&MTLIndirectCommandBuffer);
    made->count = count;
    made->most_buffers = given->most_buffers;
    made->commands = calloc(count, sizeof *made->commands);
    return &made->head;
}

static Object *indirect_at(Indirect *self, SEL name, u64 index) {
    (void)name;
    if (index >= self->count) {
        violate("index", "%lu of %lu indirect commands", (long)index, (long)self->count);
        return NULL;
    }
    if (!self->commands[index]) {
        IndirectCommand *made = (IndirectCommand *)make(&MTLIndirectComputeCommand);
        made->indirect = &self->head;
        self->commands[index] = made;
    }
    return autoreleased(retain(&self->commands[index]->head));
}
static void indirect_dealloc(Object *self) {
    Indirect *indirect = (Indirect *)self;
    for (u64 i = 0; i < indirect->count; i++)
        if (indirect->commands[i]) {
            indirect->commands[i]->indirect = NULL;
            release(&indirect->commands[i]->head);
        }
    free(indirect->commands);
}
static const Method indirect_methods[] = {
    METHOD("indirectComputeCommandAtIndex:", indirect_at), {NULL, NULL},
};
Class MTLIndirectCommandBuffer = {
    .name = "MTLIndirectCommandBuffer", .nbytes = sizeof(Indirect), .methods = indirect_methods,
    .parent = ROOT, .dealloc = indirect_dealloc,
};

static Indirect *changes(IndirectCommand *self, const char *what) {
    Indirect *indirect = (Indirect *)self->indirect;
    if (!indirect) { violate("use after release", "%s: its buffer is gone", what); return NULL; }
    pthread_mutex_lock(&world);
    if (indirect->running) violate("changed while it runs", "an indirect command: %s", what);
    pthread_mutex_unlock(&world);
    return indirect;
}
static void command_pipeline(IndirectCommand *self, SEL name, Object *pipeline) {
    if (!changes(self, name) || !is_alive(pipeline, &MTLComputePipelineState, "a pipeline")) return;
    if (!((Pipeline *)pipeline)->indirect) {
        violate("pipeline without indirect commands", "%s", ((Pipeline *)pipeline)->kernel->name);
        return;
    }
    Object *old = self->call.pipeline;
    self->call.pipeline = retain(pipeline);
    release(old);
}
/* An indirect command keeps no buffer alive: it holds an address. */
static void command_buffer(IndirectCommand *self, SEL name, Object *buffer, u64 offset, u64 index) {
    Indirect *indirect = changes(self, name);
    Place place = {buffer, offset};
    if (!indirect || !check_place(&place, "an indirect command's buffer")) return;
    if (index >= indirect->most_buffers) {
        violate("buffer index", "%lu of %lu", (long)index, (long)indirect->most_buffers);
        return;
    }
    self->call.places[index] = place;
}
static void command_dispatch(IndirectCommand *self, SEL name, Size grid, Size block) {
    if (!changes(self, name)) return;
    self->call.grid = grid;
    self->call.block = block;
    self->call.dispatched = check_call(&self->call, "an indirect command");
}
static void command_barrier(IndirectCommand *self, SEL name) {
    if (changes(self, name)) self->call.barrier = 1;
}
static void command_dealloc(Object *self) { release(((IndirectCommand *)self)->call.pipeline); }
static const Method command_methods[] = {
    METHOD("setComputePipelineState:", command_pipeline),
    METHOD("setKernelBuffer:offset:atIndex:", command_buffer),
    METHOD("concurrentDispatchThreadgroups:threadsPerThreadgroup:", command_dispatch),
    METHOD("setBarrier", command_barrier), {NULL, NULL},
};
Class MTLIndirectComputeCommand = {
    .name = "MTLIndirectComputeCommand", .nbytes = sizeof(IndirectCommand),
    .methods = command_methods, .parent = ROOT, .dealloc = command_dealloc,
};

__attribute__((constructor)) static void begin(void) {
    Class *all[] = {
        &MTLIndirectCommandBufferDescriptor, &MTLIndirectCommandBuffer, &MTLIndirectComputeCommand,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) remember(all[i]);
}
