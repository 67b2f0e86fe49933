/* Objects of the made-up Metal. */
#pragma once
#include "objects.h"
#include "../shim/lanes.h"

enum {
    MOST_BUFFERS = 31, MOST_LANES = 1024, SHARED_BYTES = 32 << 10, CANARY_BYTES = 64,
    OFFSET_BYTES = 4, MOST_RESIDENT = 256,
};
#define MEMORY_BYTES ((u64)2 << 30)

typedef struct {
    Object head;
    char *bytes;
    u64 nbytes;
    int wrapped, mode;
    Object *device;                 /* not held: it lives for ever */
} Buffer;
typedef struct { Object head; u64 value; } Event;
typedef struct { Object head; void *code; } Library;
typedef struct { Object head; Object *library; const Kernel *kernel; } Function;
typedef struct { Object head; Object *function; int indirect; } PipelineDescriptor;
typedef struct { Object head; Object *library; const Kernel *kernel; int indirect; } Pipeline;
typedef struct { Object head; int fast_math; u64 version; } Options;
typedef struct { Object *buffer; u64 offset; } Place;
typedef struct {
    Object *pipeline;
    Place places[MOST_BUFFERS];
    Size grid, block;
    int dispatched, barrier;
} Call;
typedef struct {
    Object head;
    Object *indirect;               /* not held: it holds its commands */
    Call call;
} IndirectCommand;
typedef struct {
    Object head;
    u64 count, most_buffers;
    IndirectCommand **commands;
    int running;                    /* command buffers that execute it */
} Indirect;
typedef struct { Object head; u64 types, most_buffers; int inherits_buffers, inherits_pipeline; }
    IndirectDescriptor;
enum { CALL, COPY, SIGNAL, WAIT, EXECUTE };
typedef struct Op {
    struct Op *next;
    int kind;
    Call call;                      /* CALL */
    Object *one, *other;            /* source and destination; the event; the indirect buffer */
    u64 one_off, other_off, nbytes; /* COPY; the value, as nbytes; a range, as offsets */
    Object *resident[MOST_RESIDENT];
    int resident_count;
} Op;
typedef struct CommandBuffer {
    Object head;
    struct Queue *queue;
    struct CommandBuffer *next;     /* in its queue */
    Op *first, **last, *at;         /* `at`: where the GPU is */
    Object *encoder;                /* the open one */
    int status;
    double started, ended;
    Object *error;
} CommandBuffer;
typedef struct Queue {
    Object head;
    struct Queue *next;             /* of all queues */
    CommandBuffer *first, **last;
    u64 most, count;
} Queue;
typedef struct {
    Object head;
    CommandBuffer *buffer;          /* not held: whoever uses it has the command buffer */
    int ended;
    Call call;
    Object *resident[MOST_RESIDENT];
    int resident_count;
} Encoder;
enum { NOT_ENQUEUED, ENQUEUED, COMMITTED, SCHEDULED, COMPLETED, FAILED };

extern Class MTLDevice, MTLBuffer, MTLSharedEvent, MTLComputePipelineState, MTLCommandQueue,
    MTLIndirectCommandBuffer, MTLIndirectComputeCommand, MTLCommandBuffer,
    MTLComputeCommandEncoder, MTLBlitCommandEncoder, MTLLibrary;
extern pthread_cond_t changed;      /* with `world`: work came, or an event has a new value */
extern int fail_next;               /* a code that the next command buffer ends with */

Object *new_queue(Object *device, SEL name, u64 most);
Object *new_indirect(Object *device, SEL name, Object *shape, u64 count, u64 options);
Object *new_pipeline(Object *device, SEL name, Object *shape, u64 options, void *reflection,
                     Object **error);
Object *new_library(Object *device, SEL name, Object *source, Object *options, Object **error);
int check_place(const Place *place, const char *what);
int check_call(const Call *call, const char *what);
void set_place(Place *place, Object *buffer, u64 offset);
void drop_call(Call *call);
Call copy_of(const Call *call);
void check_canaries(void);
void start_gpu(void);
void run_call(const Call *call);
