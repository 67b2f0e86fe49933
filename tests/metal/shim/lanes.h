/* What the made-up GPU and a kernel compiled for it know of each other. */
#pragma once
#include <stddef.h>

typedef struct {
    void *const *buffers;
    unsigned group[3], grid[3], lane, lanes;
} Lane;
typedef struct {
    /* Lanes meet here: all of the threadgroup, or those of one SIMD-group. `line` says where. */
    void (*meet)(int simd, int line);
    /* 64 bytes of each lane that others may read between two meetings. */
    unsigned char *(*slot)(unsigned lane);
    Lane *(*now)(void);
} Hooks;
typedef struct {
    const char *name;
    void (*run)(const Lane *lane);
    unsigned long long used;    /* buffers, as bits */
    unsigned block;             /* most lanes of a threadgroup; 0: any */
    int meets;                  /* whether lanes meet */
} Kernel;
enum { SLOT_BYTES = 64, SIMD_LANES = 32 };
