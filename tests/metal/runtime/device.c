/* The device, its buffers and events. */
#define _GNU_SOURCE
#include "metal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC5, FRESH = 0xA7, SHARED_MODE = 0, PRIVATE = 2, MOST_LIVE = 1 << 16 };
static Object *devices[2];
static Buffer *live[MOST_LIVE];
static int live_count;
static u64 used;
static int no_memory, families = 0x3f;

/* Buffers: a canary before and behind each, which no kernel may change. */

static Object *new_buffer(Object *device, SEL name, u64 nbytes, u64 options) {
    (void)name;
    if (options != SHARED_MODE) violate("options", "a buffer with options %lu", (long)options);
    if (!nbytes) { violate("empty buffer", "of no bytes"); return NULL; }
    pthread_mutex_lock(&world);
    int full = no_memory > 0 ? no_memory-- == 1 : used + nbytes > MEMORY_BYTES;
    pthread_mutex_unlock(&world);
    if (full || live_count == MOST_LIVE) return NULL;
    Buffer *made = (Buffer *)make(&MTLBuffer);
    char *raw = aligned_alloc(256, (nbytes + 512 + 255) / 256 * 256);
    memset(raw, CANARY, 256);
    memset(raw + 256, FRESH, nbytes);
    memset(raw + 256 + nbytes, CANARY, CANARY_BYTES);
    pthread_mutex_lock(&world);
    *made = (Buffer){made->head, raw + 256, nbytes, 0, SHARED_MODE, device};
    live[live_count++] = made;
    used += nbytes;
    pthread_mutex_unlock(&world);
    return &made->head;
}

static Object *new_wrapped(Object *device, SEL name, char *bytes, u64 nbytes, u64 options,
                           void *deallocator) {
    (void)name;
    u64 page = (u64)sysconf(_SC_PAGESIZE);
    if (options != SHARED_MODE || deallocator) violate("options", "of wrapped memory");
    if ((u64)bytes % page || nbytes % page || !nbytes) {
        violate("wrapped memory", "%lu bytes at %p are no pages", (long)nbytes, (void *)bytes);
        return NULL;
    }
    Buffer *made = (Buffer *)make(&MTLBuffer);
    *made = (Buffer){made->head, bytes, nbytes, 1, SHARED_MODE, device};
    return &made->head;
}

static int spoiled(const Buffer *buffer) {
    const unsigned char *before = (const unsigned char *)buffer->bytes - CANARY_BYTES;
    const unsigned char *behind = (const unsigned char *)buffer->bytes + buffer->nbytes;
    for (int i = 0; i < CANARY_BYTES; i++)
        if (before[i] != CANARY || behind[i] != CANARY) return 1;
    return 0;
}

void check_canaries(void) {
    for (int i = 0; i < live_count; i++)
        if (spoiled(live[i])) {
            violate("out of bounds", "a kernel wrote outside of %lu bytes", (long)live[i]->nbytes);
            memset(live[i]->bytes - CANARY_BYTES, CANARY, CANARY_BYTES);
            memset(live[i]->bytes + live[i]->nbytes, CANARY, CANARY_BYTES);
        }
}

static void buffer_dealloc(Object *self) {
    Buffer *buffer = (Buffer *)self;
    if (buffer->wrapped) return;
    for (int i = 0; i < live_count; i++)
        if (live[i] == buffer) live[i] = live[--live_count];
    used -= buffer->nbytes;
    free(buffer->bytes - 256);
}

static void *buffer_contents(Buffer *self) {
    if (self->mode != PRIVATE) return self->bytes;
    violate("private memory", "contents of %lu bytes", (long)self->nbytes);
    return NULL;
}
static u64 buffer_length(Buffer *self) { return self->nbytes; }
static u64 buffer_mode(Buffer *self) { return (u64)self->mode; }
static Object *buffer_device(Buffer *self) { return autoreleased(retain(self->device)); }
/* Addresses of the GPU's own: the host's with a bit that no host address has. */
static u64 buffer_address(Buffer *self) { return (u64)self->bytes ^ (u64)1 << 52; }
static const Method buffer_methods[] = {
    METHOD("contents", buffer_contents), METHOD("gpuAddress", buffer_address),
    METHOD("length", buffer_length), METHOD("storageMode", buffer_mode),
    METHOD("device", buffer_device), {NULL, NULL},
};
Class MTLBuffer = {
    .name = "MTLBuffer", .nbytes = sizeof(Buffer), .methods = buffer_methods, .parent = ROOT,
    .dealloc = buffer_dealloc,
};

/* Shared events */

static Object *new_event(Object *device) { (void)device; return make(&MTLSharedEvent); }
static void event_set(Event *self, SEL name, u64 value) {
    (void)name;
    pthread_mutex_lock(&world);
    if (value < self->value)
        violate("event goes back", "%lu after %lu", (long)value, (long)self->value);
    self->value = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&world);
}
static u64 event_value(Event *self) { return self->value; }
static const Method event_methods[] = {
    METHOD("setSignaledValue:", event_set), METHOD("signaledValue", event_value), {NULL, NULL},
};
Class MTLSharedEvent = {
    .name = "MTLSharedEvent", .nbytes = sizeof(Event), .methods = event_methods, .parent = ROOT,
};

/* The device */

enum { APPLE6 = 1006, APPLE9 = 1009, MAC2 = 2002, METAL3 = 5001 };
static Object *device_name(Object *self) {
    return string_of(self == devices[0] ? "made-up GPU" : "made-up second GPU");
}
static unsigned char device_supports(Object *self, SEL name, long family) {
    (void)self, (void)name;
    int at = family >= APPLE6 && family <= APPLE9 ? (int)(family - APPLE6)
           : family == MAC2 ? 4 : family == METAL3 ? 5 : 31;
    return (unsigned char)(families >> at & 1);
}
static unsigned char yes(Object *self) { (void)self; return 1; }
static u64 device_id(Object *self) { return self == devices[0] ? 1 : 2; }
static Size device_block(Object *self) {
    (void)self;
    return (Size){MOST_LANES, MOST_LANES, MOST_LANES};
}
static u64 device_shared(Object *self) { (void)self; return SHARED_BYTES; }
static u64 device_longest(Object *self) { (void)self; return MEMORY_BYTES; }
static const Method device_methods[] = {
    METHOD("name", device_name), METHOD("supportsFamily:", device_supports),
    METHOD("registryID", device_id), METHOD("hasUnifiedMemory", yes),
    METHOD("maxThreadsPerThreadgroup", device_block),
    METHOD("maxThreadgroupMemoryLength", device_shared),
    METHOD("maxBufferLength", device_longest),
    METHOD("recommendedMaxWorkingSetSize", device_longest),
    METHOD("newBufferWithLength:options:", new_buffer),
    METHOD("newBufferWithBytesNoCopy:length:options:deallocator:", new_wrapped),
    METHOD("newSharedEvent", new_event),
    METHOD("newCommandQueueWithMaxCommandBufferCount:", new_queue),
    METHOD("newLibraryWithSource:options:error:", new_library),
    METHOD("newComputePipelineStateWithDescriptor:options:reflection:error:", new_pipeline),
    METHOD("newIndirectCommandBufferWithDescriptor:maxCommandCount:options:", new_indirect),
    {NULL, NULL},
};
Class MTLDevice = {.name = "MTLDevice", .methods = device_methods, .parent = ROOT};

static Class NSArray;
Object *MTLCopyAllDevices(void) {
    for (int i = 0; i < 2; i++)
        if (!devices[i]) {
            devices[i] = make(&MTLDevice);
            devices[i]->forever = 1;
        }
    return make(&NSArray);
}
static u64 array_count(Object *self) { (void)self; return 2; }
static Object *array_at(Object *self, SEL name, u64 index) {
    (void)self, (void)name;
    if (index >= 2) { violate("index", "%lu of 2 devices", (long)index); return NULL; }
    return devices[index];
}
static const Method array_methods[] = {
    METHOD("count", array_count), METHOD("objectAtIndex:", array_at), {NULL, NULL},
};
static Class NSArray = {.name = "NSArray", .methods = array_methods, .parent = ROOT};

/* For tests: a buffer of another library, in any storage mode; where its bytes are. */
Object *made_up_buffer(u64 device, u64 nbytes, int mode) {
    Object *made = new_buffer(devices[device], "", nbytes, SHARED_MODE);
    ((Buffer *)made)->mode = mode;
    return made;
}
void *made_up_bytes(Object *buffer) { return ((Buffer *)buffer)->bytes; }

/* For tests: the allocation that fails from now on (1: the next; 0: none), families as bits,
 * references to devices. */
void made_up_full(int in_calls) { no_memory = in_calls; }
void made_up_families(int bits) { families = bits; }
u64 made_up_device_refs(void) {
    u64 refs = 0;
    for (int i = 0; i < 2; i++) refs += devices[i] ? (u64)devices[i]->refs - 1 : 0;
    return refs;
}

__attribute__((constructor)) static void begin(void) {
    Class *all[] = {&MTLDevice, &MTLBuffer, &MTLSharedEvent, &NSArray};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) remember(all[i]);
}
