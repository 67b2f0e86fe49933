// Preloaded into a client: /dev/kfd, the render nodes and their files in sysfs are a software
// board's, which runs in this same process. inside.py is the other half; its functions have the
// names that call() gets.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

enum { NONE, KFD, NODE };

extern __thread int inside; // this thread runs the board: its calls are the machine's
extern atomic_int alive;    // the board is there, and its client has not ended

// A function of inside.py: its result, below 0 an errno. What it raises ends the process.
long long call(const char *what, const char *path, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
               uint64_t e);
long long checked(long long result); // as C functions return it: -1 and errno
void quit(const char *what) __attribute__((noreturn));
void sleep_ns(long ns);
int kind_of(int fd);   // of the client's descriptor
void *poll_doorbells(void *unused);
