/* Queues, command buffers and encoders: what is recorded, and in which order that is allowed. */
#define _GNU_SOURCE
#include "metal.h"
#include <stdlib.h>
#include <string.h>

/* Calls: a pipeline, buffers, sizes. */

void set_place(Place *place, Object *buffer, u64 offset) {
    Object *old = place->buffer;
    place->buffer = retain(buffer);
    place->offset = offset;
    release(old);
}

void drop_call(Call *call) {
    release(call->pipeline);
    for (int i = 0; i < MOST_BUFFERS; i++) release(call->places[i].buffer);
    memset(call, 0, sizeof *call);
}

Call copy_of(const Call *call) {
    retain(call->pipeline);
    for (int i = 0; i < MOST_BUFFERS; i++) retain(call->places[i].buffer);
    return *call;
}

int check_place(const Place *place, const char *what) {
    if (!is_alive(place->buffer, &MTLBuffer, what)) return 0;
    if (place->offset >= ((Buffer *)place->buffer)->nbytes || place->offset % OFFSET_BYTES) {
        violate("buffer offset", "%lu of %lu bytes", (long)place->offset,
                (long)((Buffer *)place->buffer)->nbytes);
        return 0;
    }
    return 1;
}

int check_call(const Call *call, const char *what) {
    if (!call->pipeline) { violate("no pipeline", "in %s", what); return 0; }
    const Pipeline *pipeline = (const Pipeline *)call->pipeline;
    for (int i = 0; i < MOST_BUFFERS; i++)
        if ((pipeline->kernel->used >> i & 1) && !call->places[i].buffer) {
            violate("no buffer", "%s: %s reads buffer %d", what, pipeline->kernel->name, i);
            return 0;
        }
    const Size *grid = &call->grid, *block = &call->block;
    u64 most = pipeline->kernel->block ? pipeline->kernel->block : MOST_LANES;
    u64 lanes = block->width * block->height * block->depth;
    if (!lanes || lanes > most || block->width > most || block->height > most) {
        violate("lanes", "%s has threadgroups of %lu, not %lu", pipeline->kernel->name,
                (long)most, (long)lanes);
        return 0;
    }
    if (!grid->width || !grid->height || !grid->depth ||
        (grid->width | grid->height | grid->depth) >> 32) {
        violate("grid", "%lu x %lu x %lu", (long)grid->width, (long)grid->height,
                (long)grid->depth);
        return 0;
    }
    return 1;
}

/* Encoders */

static Op *record(CommandBuffer *buffer, int kind) {
    Op *op = calloc(1, sizeof *op);
    op->kind = kind;
    *buffer->last = op;
    buffer->last = &op->next;
    return op;
}

static int is_open(Encoder *self, const char *what) {
    if (!self->ended) return 1;
    violate("encode after endEncoding", "%s", what);
    return 0;
}

static void encoder_end(Encoder *self) {
    if (self->ended) { violate("endEncoding twice", "%s", self->head.isa->name); return; }
    self->ended = 1;
    self->buffer->encoder = NULL;
}
static void encoder_dealloc(Object *self) {
    Encoder *encoder = (Encoder *)self;
    if (!encoder->ended) violate("no endEncoding", "a %s is gone", self->isa->name);
    if (!encoder->ended) encoder->buffer->encoder = NULL;
    drop_call(&encoder->call);
}

static void compute_pipeline(Encoder *self, SEL name, Object *pipeline) {
    if (!is_open(self, name) || !is_alive(pipeline, &MTLComputePipelineState, "a pipeline")) return;
    Object *old = self->call.pipeline;
    self->call.pipeline = retain(pipeline);
    release(old);
}
static void compute_buffer(Encoder *self, SEL name, Object *buffer, u64 offset, u64 index) {
    Place place = {buffer, offset};
    if (!is_open(self, name) || !check_place(&place, "an encoder's buffer")) return;
    if (index >= MOST_BUFFERS) { violate("buffer index", "%lu", (long)index); return; }
    set_place(&self->call.places[index], buffer, offset);
}
static void compute_dispatch(Encoder *self, SEL name, Size grid, Size block) {
    if (!is_open(self, name)) return;
    self->call.grid = grid;
    self->call.block = block;
    if (check_call(&self->call, "a dispatch"))
        record(self->buffer, CALL)->call = copy_of(&self->call);
}
static void compute_use(Encoder *self, SEL name, Object *resource, u64 usage) {
    if (!is_open(self, name) || !is_alive(resource, &MTLBuffer, "a resource")) return;
    if (!usage || usage > 7) violate("usage", "%lu", (long)usage);
    if (self->resident_count < MOST_RESIDENT)
        self->resident[self->resident_count++] = resource;
}
static void compute_execute(Encoder *self, SEL name, Object *indirect, Range range) {
    if (!is_open(self, name) || !is_alive(indirect, &MTLIndirectCommandBuffer, "commands")) return;
    Indirect *given = (Indirect *)indirect;
    if (range.location + range.length > given->count || !range.length) {
        violate("range", "%lu + %lu of %lu indirect commands", (long)range.location,
                (long)range.length, (long)given->count);
        return;
    }
    Op *op = record(self->buffer, EXECUTE);
    op->one = retain(indirect);
    op->one_off = range.location;
    op->nbytes = range.length;
    op->resident_count = self->resident_count;
    for (int i = 0; i < op->resident_count; i++) op->resident[i] = retain(self->resident[i]);
    pthread_mutex_lock(&world);
    given->running++;
    pthread_mutex_unlock(&world);
}
static const Method compute_methods[] = {
    METHOD("setComputePipelineState:", compute_pipeline),
    METHOD("setBuffer:offset:atIndex:", compute_buffer),
    METHOD("dispatchThreadgroups:threadsPerThreadgroup:", compute_dispatch),
    METHOD("useResource:usage:", compute_use),
    METHOD("executeCommandsInBuffer:withRange:", compute_execute),
    METHOD("endEncoding", encoder_end), {NULL, NULL},
};
Class MTLComputeCommandEncoder = {
    .name = "MTLComputeCommandEncoder", .nbytes = sizeof(Encoder), .methods = compute_methods,
    .parent = ROOT, .dealloc = encoder_dealloc,
};

static void blit_copy(Encoder *self, SEL name, Object *src, u64 src_off, Object *dst, u64 dst_off,
                      u64 nbytes) {
    if (!is_open(self, name) || !is_alive(src, &MTLBuffer, "a source") ||
        !is_alive(dst, &MTLBuffer, "a destination")) return;
    if (!nbytes || (src_off | dst_off | nbytes) % OFFSET_BYTES ||
        src_off + nbytes > ((Buffer *)src)->nbytes || dst_off + nbytes > ((Buffer *)dst)->nbytes) {
        violate("copy", "%lu bytes from %lu to %lu", (long)nbytes, (long)src_off, (long)dst_off);
        return;
    }
    if (src == dst && src_off < dst_off + nbytes && dst_off < src_off + nbytes) {
        violate("copy", "onto itself");
        return;
    }
    Op *op = record(self->buffer, COPY);
    op->one = retain(src);
    op->other = retain(dst);
    op->one_off = src_off;
    op->other_off = dst_off;
    op->nbytes = nbytes;
}
static const Method blit_methods[] = {
    METHOD("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", blit_copy),
    METHOD("endEncoding", encoder_end), {NULL, NULL},
};
Class MTLBlitCommandEncoder = {
    .name = "MTLBlitCommandEncoder", .nbytes = sizeof(Encoder), .methods = blit_methods,
    .parent = ROOT, .dealloc = encoder_dealloc,
};

/* Command buffers */

static int takes(CommandBuffer *self, const char *what) {
    if (self->status >= COMMITTED) { violate("encode after commit", "%s", what); return 0; }
    if (self->encoder) { violate("two open encoders", "%s", what); return 0; }
    return 1;
}
static Object *encoder_of(CommandBuffer *self, Class *class, const char *what) {
    if (!takes(self, what)) return NULL;
    Encoder *made = (Encoder *)make(class);
    made->buffer = self;
    self->encoder = &made->head;
    return autoreleased(&made->head);
}
static Object *buffer_compute(CommandBuffer *self, SEL name) {
    return encoder_of(self, &MTLComputeCommandEncoder, name);
}
static Object *buffer_blit(CommandBuffer *self, SEL name) {
    return encoder_of(self, &MTLBlitCommandEncoder, name);
}
static void event_op(CommandBuffer *self, SEL name, Object *event, u64 value, int kind) {
    if (!takes(self, name) || !is_alive(event, &MTLSharedEvent, "an event")) return;
    Op *op = record(self, kind);
    op->one = retain(event);
    op->nbytes = value;
}
static void buffer_signal(CommandBuffer *self, SEL name, Object *event, u64 value) {
    event_op(self, name, event, value, SIGNAL);
}
static void buffer_wait(CommandBuffer *self, SEL name, Object *event, u64 value) {
    event_op(self, name, event, value, WAIT);
}
static void buffer_commit(CommandBuffer *self) {
    if (self->status >= COMMITTED) { violate("commit twice", "a command buffer"); return; }
    if (self->encoder) { violate("commit with an open encoder", "%s", self->encoder->isa->name);
        return; }
    pthread_mutex_lock(&world);
    self->status = COMMITTED;
    retain(&self->head);
    *self->queue->last = self;
    self->queue->last = &self->next;
    start_gpu();
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&world);
}
static u64 buffer_status(CommandBuffer *self) {
    return (u64)__atomic_load_n(&self->status, __ATOMIC_SEQ_CST);
}
static Object *buffer_error(CommandBuffer *self) {
    return self->error ? autoreleased(retain(self->error)) : NULL;
}
static double when(CommandBuffer *self, double time) {
    if (self->status < COMPLETED) violate("time before the end", "of a command buffer");
    return time;
}
static double buffer_started(CommandBuffer *self) { return when(self, self->started); }
static double buffer_ended(CommandBuffer *self) { return when(self, self->ended); }
static void buffer_dealloc(Object *self) {
    CommandBuffer *buffer = (CommandBuffer *)self;
    if (buffer->encoder) violate("no endEncoding", "a command buffer is gone");
    for (Op *op = buffer->first, *next; op; op = next) {
        next = op->next;
        drop_call(&op->call);
        release(op->one);
        release(op->other);
        for (int i = 0; i < op->resident_count; i++) release(op->resident[i]);
        free(op);
    }
    buffer->queue->count--;
    release(buffer->error);
    release(&buffer->queue->head);
}
static const Method buffer_methods[] = {
    METHOD("computeCommandEncoder", buffer_compute), METHOD("blitCommandEncoder", buffer_blit),
    METHOD("encodeSignalEvent:value:", buffer_signal),
    METHOD("encodeWaitForEvent:value:", buffer_wait), METHOD("commit", buffer_commit),
    METHOD("status", buffer_status), METHOD("error", buffer_error),
    METHOD("GPUStartTime", buffer_started), METHOD("GPUEndTime", buffer_ended), {NULL, NULL},
};
Class MTLCommandBuffer = {
    .name = "MTLCommandBuffer", .nbytes = sizeof(CommandBuffer), .methods = buffer_methods,
    .parent = ROOT, .dealloc = buffer_dealloc,
};

static Object *queue_buffer(Queue *self) {
    if (self->count >= self->most) {
        violate("too many command buffers", "%lu of one queue", (long)self->count);
        return NULL;
    }
    CommandBuffer *made = (CommandBuffer *)make(&MTLCommandBuffer);
    made->queue = (Queue *)retain(&self->head);
    made->last = &made->first;
    pthread_mutex_lock(&world);
    self->count++;
    pthread_mutex_unlock(&world);
    return autoreleased(&made->head);
}
static const Method queue_methods[] = {METHOD("commandBuffer", queue_buffer), {NULL, NULL}};

__attribute__((constructor)) static void begin(void) {
    Class *all[] = {
        &MTLComputeCommandEncoder, &MTLBlitCommandEncoder, &MTLCommandBuffer, &MTLCommandQueue,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) remember(all[i]);
    MTLCommandQueue.methods = queue_methods;
}
