// What goes wrong when it is wanted; the runtime's words are printed, and compared elsewhere.
#include "client.h"

#include <pthread.h>

// src: shim_python.c; weak, because the client is linked without it
extern long long witness_panel(const char *what) __attribute__((weak));
extern void witness_give_up(void) __attribute__((weak));

#define LIMIT_S 60
#define LIMIT_MISALIGNED_S 15 // ROCr 6 then never returns
#define NOWHERE 0x10000000ul
#define PAUSE_S 1

void check_fault(const char *kind)
{
    gpu_t *gpu = gpus;
    void *memory = vram(gpu, 1 << 16);
    unsigned long nowhere = NOWHERE;
    hsa_signal_t done = {0};
    if (!strcmp(kind, "write"))
        done = launch(gpu, "store_at", 1, &nowhere, sizeof nowhere);
    else if (!strcmp(kind, "read"))
        done = launch(gpu, "load_at", 1, (void *[]){(void *)nowhere, memory}, 16);
    else if (!strcmp(kind, "execute"))
        done = launch(gpu, "jump_to", 1, &nowhere, sizeof nowhere);
    else if (!strcmp(kind, "illegal") || !strcmp(kind, "trap") || !strcmp(kind, "misaligned"))
        done = launch(gpu, kind, 1, &memory, sizeof memory);
    else if (!strcmp(kind, "packet")) bad_packet(gpu->queue);
    else {
        result(witness_panel && !witness_panel(kind), "the board's panel makes it: %s", kind);
        sleep(PAUSE_S);
        done = launch(gpu, "store_at", 1, &memory, sizeof memory);
    }
    sleep(PAUSE_S);
    if (done.handle)
        said("completion signal %ld", (long)hsa_signal_load_scacquire(done));
}

static void *watch(void *kind)
{
    sleep(strcmp(kind, "misaligned") ? LIMIT_S : LIMIT_MISALIGNED_S);
    said("the runtime does not return");
    if (witness_give_up) witness_give_up();
    _exit(0);
}

void limit_time(const char *kind)
{
    pthread_t thread;
    result(!pthread_create(&thread, 0, watch, (void *)kind), "time is limited");
}
