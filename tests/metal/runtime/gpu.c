/* The GPU: a thread that runs committed command buffers, and lanes that meet. */
#define _GNU_SOURCE
#include "metal.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10, FRESH = 0xCB };
enum { READY, MEETS_GROUP, MEETS_SIMD, ENDED };

pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int fail_next;
static int held;                    /* by a test: nothing begins */
static Queue *queues;
static pthread_t gpu;
static int started;

/* Lanes */

static ucontext_t scheduler, contexts[MOST_LANES];
static Lane lanes[MOST_LANES];
static int states[MOST_LANES], lines[MOST_LANES];
static unsigned char slots[MOST_LANES][SLOT_BYTES];
static char *stacks;
static unsigned current;
static const Kernel *running;

static Lane *now(void) { return &lanes[current]; }
static unsigned char *slot(unsigned lane) { return slots[lane % MOST_LANES]; }
static void meet(int simd, int line) {
    states[current] = simd ? MEETS_SIMD : MEETS_GROUP;
    lines[current] = line;
    swapcontext(&contexts[current], &scheduler);
}
Hooks made_up_hooks = {meet, slot, now};

static void one_lane(void) {
    running->run(&lanes[current]);
    states[current] = ENDED;
    swapcontext(&contexts[current], &scheduler);
}

/* Let lanes [begin, end) go on that all meet in the same place; whether they do. */
static int met(unsigned begin, unsigned end, int kind) {
    unsigned there = 0, gone = 0;
    for (unsigned i = begin; i < end; i++) {
        there += states[i] == kind && lines[i] == lines[begin];
        gone += states[i] == ENDED;
    }
    if (there != end - begin) return there && there + gone == end - begin ? -1 : 0;
    for (unsigned i = begin; i < end; i++) states[i] = READY;
    return 1;
}

static void run_group(const Kernel *kernel, unsigned count) {
    running = kernel;
    if (!stacks)
        stacks = mmap(NULL, (size_t)STACK_BYTES * MOST_LANES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (unsigned i = 0; i < count; i++) {
        states[i] = READY;
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
        contexts[i].uc_stack.ss_size = STACK_BYTES;
        contexts[i].uc_link = NULL;
        makecontext(&contexts[i], one_lane, 0);
    }
    for (unsigned round = 0;; round++) {
        unsigned ran = 0, ended = 0;
        for (unsigned at = 0; at < count; at++) {       /* every other time backwards */
            unsigned i = round % 2 ? count - 1 - at : at;
            if (states[i] == READY) {
                current = i;
                swapcontext(&scheduler, &contexts[i]);
                ran++;
            }
            ended += states[i] == ENDED;
        }
        if (ended == count) return;
        int going = met(0, count, MEETS_GROUP);
        for (unsigned i = 0; i < count && !going; i += SIMD_LANES) {
            unsigned end = i + SIMD_LANES < count ? i + SIMD_LANES : count;
            going = met(i, end, MEETS_SIMD);
        }
        if (going > 0) continue;
        if (going < 0 || !ran) {
            violate("lanes do not meet", "%s, line %d", kernel->name, lines[0]);
            return;
        }
    }
}

void run_call(const Call *call) {
    const Pipeline *pipeline = (const Pipeline *)call->pipeline;
    const Kernel *kernel = pipeline->kernel;
    void *code = ((Library *)pipeline->library)->code;
    void (*shared)(char **, u64 *) = (void (*)(char **, u64 *))dlsym(code, "msl_shared");
    char *shared_at = NULL;
    u64 shared_bytes = 0;
    void *buffers[MOST_BUFFERS] = {0};
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (call->places[i].buffer)
            buffers[i] = ((Buffer *)call->places[i].buffer)->bytes + call->places[i].offset;
    if (shared) shared(&shared_at, &shared_bytes);
    unsigned count = (unsigned)(call->block.width * call->block.height * call->block.depth);
    u64 groups = call->grid.width * call->grid.height * call->grid.depth;
    for (u64 group = 0; group < groups; group++) {
        memset(shared_at, FRESH, shared_bytes);
        for (unsigned i = 0; i < count; i++)
            lanes[i] = (Lane){
                buffers,
                {(unsigned)(group % call->grid.width),
                 (unsigned)(group / call->grid.width % call->grid.height),
                 (unsigned)(group / call->grid.width / call->grid.height)},
                {(unsigned)call->grid.width, (unsigned)call->grid.height,
                 (unsigned)call->grid.depth},
                i, count,
            };
        if (kernel->meets) run_group(kernel, count);
        else for (current = 0; current < count; current++) kernel->run(&lanes[current]);
    }
}

/* Command buffers */

static void run_indirect(Op *op) {
    Indirect *indirect = (Indirect *)op->one;
    for (u64 i = op->one_off; i < op->one_off + op->nbytes; i++) {
        const IndirectCommand *command = indirect->commands[i];
        if (!command || !command->call.dispatched) {
            violate("empty indirect command", "%lu", (long)i);
            continue;
        }
        if (i > op->one_off && !command->call.barrier)
            violate("no barrier", "before indirect command %lu", (long)i);
        int good = 1;
        for (int place = 0; place < MOST_BUFFERS && good; place++) {
            Object *buffer = command->call.places[place].buffer;
            if (!buffer) continue;
            int found = 0;
            for (int r = 0; r < op->resident_count; r++) found |= op->resident[r] == buffer;
            if (!found) violate("not resident", "buffer %d of indirect command %lu", place, (long)i);
            good = found && is_alive(buffer, &MTLBuffer, "an indirect command's buffer");
        }
        if (good) run_call(&command->call);
    }
    pthread_mutex_lock(&world);
    indirect->running--;
    pthread_mutex_unlock(&world);
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Runs with `world` held; kernels without. */
static int run_op(Op *op) {
    Event *event = (Event *)op->one;
    if (op->kind == WAIT) return event->value >= op->nbytes;
    if (op->kind == SIGNAL) {
        if (op->nbytes > event->value) event->value = op->nbytes;
        pthread_cond_broadcast(&changed);
        return 1;
    }
    pthread_mutex_unlock(&world);
    if (op->kind == CALL) run_call(&op->call);
    else if (op->kind == EXECUTE) run_indirect(op);
    else memcpy(((Buffer *)op->other)->bytes + op->other_off,
                ((Buffer *)op->one)->bytes + op->one_off, op->nbytes);
    pthread_mutex_lock(&world);
    return 1;
}

static void finish(Queue *queue, CommandBuffer *buffer, int failing) {
    for (Op *op = failing ? buffer->at : NULL; op; op = op->next)
        if (op->kind == EXECUTE) ((Indirect *)op->one)->running--;
    if (fail_next > 0) fail_next = 0;
    check_canaries();
    buffer->ended = seconds();
    if (failing) buffer->error = error_of(failing, "the test lets it fail");
    queue->first = buffer->next;
    if (!queue->first) queue->last = &queue->first;
    __atomic_store_n(&buffer->status, failing ? FAILED : COMPLETED, __ATOMIC_SEQ_CST);
    release(&buffer->head);
}

/* The first command buffer of a queue as far as it goes; whether it moved. */
static int advance(Queue *queue) {
    CommandBuffer *buffer = queue->first;
    if (!buffer) return 0;
    int moved = buffer->status == COMMITTED, failing = abs(fail_next);
    if (moved) {
        buffer->status = SCHEDULED;
        buffer->started = seconds();
        buffer->at = buffer->first;
    }
    while (buffer->at && !failing) {
        if (!run_op(buffer->at)) return moved;
        moved = 1;
        buffer->at = buffer->at->next;
    }
    finish(queue, buffer, failing);
    return 1;
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&world);
    for (;;) {
        int moved = 0;
        for (Queue *queue = held ? NULL : queues; queue; queue = queue->next)
            moved |= advance(queue);
        if (!moved) pthread_cond_wait(&changed, &world);
    }
    return NULL;
}

void start_gpu(void) {
    if (started) return;
    started = 1;
    pthread_create(&gpu, NULL, work, NULL);
}

Object *new_queue(Object *device, SEL name, u64 most) {
    (void)device, (void)name;
    Queue *made = (Queue *)make(&MTLCommandQueue);
    made->most = most;
    made->last = &made->first;
    pthread_mutex_lock(&world);
    made->next = queues;
    queues = made;
    pthread_mutex_unlock(&world);
    return &made->head;
}

static void queue_dealloc(Object *self) {
    for (Queue **at = &queues; *at; at = &(*at)->next)
        if (*at == (Queue *)self) { *at = (*at)->next; break; }
}
Class MTLCommandQueue = {
    .name = "MTLCommandQueue", .nbytes = sizeof(Queue), .parent = ROOT, .dealloc = queue_dealloc,
};

/* For tests: nothing begins while it is held; how the next command buffer ends. */
void made_up_hold(int on) {
    pthread_mutex_lock(&world);
    held = on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&world);
}
void made_up_fail(int code) { fail_next = code; }    /* a negative one: of all, until 0 */
