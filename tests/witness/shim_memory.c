// Mappings of the board's memory and doorbells in the client.
#include "shim.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define RANGES 65536 // mappings of the board at once
#define SLOTS 1024   // doorbells of a page
#define IDLE 0xF00DF00DF00DF00Dull
#define POLL_NS 100000
#define PUMP_POLLS 8

typedef struct { uintptr_t base, bytes; int doorbells; } range_t;
static range_t ranges[RANGES];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Stores to doorbells, which are plain memory here, are noticed by a thread of its own.
void *poll_doorbells(void *unused)
{
    (void)unused;
    inside = 1;
    for (unsigned quiet = 0; alive; quiet++) {
        for (int i = 0; i < count; i++) {
            pthread_mutex_lock(&lock);
            range_t range = i < count ? ranges[i] : (range_t){0, 0, 0};
            int rung = 0;
            uint64_t offset = 0, value = IDLE;
            _Atomic uint64_t *slots = (_Atomic uint64_t *)range.base;
            for (int slot = 0; range.doorbells && slot < SLOTS && !rung; slot++)
                if (slots[slot] != IDLE) {
                    value = atomic_exchange(&slots[slot], IDLE);
                    offset = slot * sizeof value;
                    rung = 1;
                }
            pthread_mutex_unlock(&lock);
            if (rung) { call("ring", "", range.base, offset, value, 0, 0); i--; quiet = 0; }
        }
        if (quiet % PUMP_POLLS == PUMP_POLLS - 1) call("pump", "", 0, 0, 0, 0, 0);
        sleep_ns(POLL_NS);
    }
    return 0;
}

static void add_range(uintptr_t base, size_t bytes, int doorbells)
{
    pthread_mutex_lock(&lock);
    if (count == RANGES) quit("too many mappings");
    for (int slot = 0; doorbells && slot < SLOTS; slot++)
        ((_Atomic uint64_t *)base)[slot] = IDLE;
    ranges[count++] = (range_t){base, bytes, doorbells};
    pthread_mutex_unlock(&lock);
}

// Mappings of the board that a range covers are gone.
static void forget(uintptr_t base, size_t bytes)
{
    for (int i = 0; !inside && i < count;) {
        pthread_mutex_lock(&lock);
        range_t found = i < count ? ranges[i] : (range_t){0, 0, 0};
        int gone = found.base >= base && found.base + found.bytes <= base + bytes;
        if (gone) ranges[i] = ranges[--count];
        pthread_mutex_unlock(&lock);
        if (gone && found.bytes) call("unmap_memory", "", found.base, 0, 0, 0, 0);
        else i++;
    }
}

static void *map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (flags & MAP_FIXED) forget((uintptr_t)at, bytes);
    if (!kind_of(fd)) return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
    uint64_t place = flags & MAP_FIXED ? (uintptr_t)at : 0;
    long long base = call("map_memory", "", (unsigned)fd, place, bytes, prot, (uint64_t)offset);
    if (base < 0) return (void *)checked(base);
    int doorbells = (int)call("is_doorbells", "", (uint64_t)base, 0, 0, 0, 0);
    add_range((uintptr_t)base, bytes, doorbells);
    return (void *)base;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return map(at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return map(at, bytes, prot, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    forget((uintptr_t)at, bytes);
    return (int)syscall(SYS_munmap, at, bytes);
}

