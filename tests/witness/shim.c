#include "shim.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FDS 65536
#define WAIT_NS 200000
#define TURN_NS 5000
static unsigned char kind[FDS];

// Paths

static int ours(const char *path)
{
    static const char *const folders[] = {
        "/dev/kfd", "/dev/dri", "/sys/devices/virtual/kfd", "/sys/class/kfd", "/sys/class/drm",
        "/sys/dev/char/226:", "/sys/module/amdgpu", "/sys/module/ttm", "/sys/bus/pci/devices",
    };
    for (size_t i = 0; !inside && path && i < sizeof folders / sizeof *folders; i++)
        if (!strncmp(path, folders[i], strlen(folders[i]))) return 1;
    return 0;
}

// The file that stands for one of the board's, or the path itself.
static const char *path_of(const char *path, char *room)
{
    if (!ours(path)) return path;
    call("touch", path, 0, 0, 0, 0, 0);
    snprintf(room, 4096, "%s%s", getenv("WITNESS_FILES"), path);
    return room;
}

static int open_path(const char *path, int flags, mode_t mode)
{
    char room[4096];
    if (ours(path) && !strncmp(path, "/dev/", 5)) {
        long long number = call("open_node", path, (unsigned)flags, 0, 0, 0, 0);
        if (number < 0) return (int)checked(number);
        int fd = memfd_create(path, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
        kind[fd] = strcmp(path, "/dev/kfd") ? NODE : KFD;
        call("bind", "", (unsigned)fd, (uint64_t)number, 0, 0, 0);
        return fd;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path_of(path, room), flags, mode);
}

static mode_t mode_of(int flags, va_list *arguments)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(*arguments, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        int fd = open_path(path, flags, mode_of(flags, &arguments)); \
        va_end(arguments); \
        return fd; \
    }
OPEN(open)
OPEN(open64)
int __open_2(const char *path, int flags) { return open_path(path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_path(path, flags, 0); }

FILE *fopen(const char *path, const char *mode)
{
    char room[4096];
    REAL(fopen);
    return real(path_of(path, room), mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    char room[4096];
    REAL(fopen64);
    return real(path_of(path, room), mode);
}

DIR *opendir(const char *path)
{
    char room[4096];
    REAL(opendir);
    return real(path_of(path, room));
}

int access(const char *path, int mode)
{
    char room[4096];
    REAL(access);
    return real(path_of(path, room), mode);
}

ssize_t readlink(const char *path, char *to, size_t bytes)
{
    char room[4096];
    REAL(readlink);
    return real(path_of(path, room), to, bytes);
}

int stat(const char *path, struct stat *to)
{
    char room[4096];
    REAL(stat);
    return real(path_of(path, room), to);
}

int lstat(const char *path, struct stat *to)
{
    char room[4096];
    REAL(lstat);
    return real(path_of(path, room), to);
}

int stat64(const char *path, struct stat64 *to) { return stat(path, (struct stat *)to); }
int lstat64(const char *path, struct stat64 *to) { return lstat(path, (struct stat *)to); }

// Descriptors

int kind_of(int fd) { return !inside && fd >= 0 && fd < FDS ? kind[fd] : NONE; }

int fstat(int fd, struct stat *to)
{
    REAL(fstat);
    int result = real(fd, to);
    if (!result && kind_of(fd)) {
        to->st_mode = S_IFCHR | 0666;
        to->st_rdev = (dev_t)call("device_number", "", (unsigned)fd, 0, 0, 0, 0);
    }
    return result;
}

int fstat64(int fd, struct stat64 *to) { return fstat(fd, (struct stat *)to); }

int close(int fd)
{
    REAL(close);
    if (kind_of(fd)) {
        kind[fd] = NONE;
        call("close_node", "", (unsigned)fd, 0, 0, 0, 0);
    }
    return real(fd);
}

static int duplicate(int from, int fd)
{
    if (fd >= 0 && fd < FDS && kind_of(from)) {
        kind[fd] = kind[from];
        call("duplicate", "", (unsigned)from, (unsigned)fd, 0, 0, 0);
    }
    return fd;
}

#define FCNTL(name) \
    int name(int fd, int command, ...) \
    { \
        va_list arguments; \
        va_start(arguments, command); \
        void *argument = va_arg(arguments, void *); \
        va_end(arguments); \
        int result = (int)syscall(SYS_fcntl, fd, command, argument); \
        int copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC; \
        return copies ? duplicate(fd, result) : result; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
int dup(int fd) { return duplicate(fd, (int)syscall(SYS_dup, fd)); }

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

// Threads get their turn at the board in the order in which they ask. ROCr 5's queues share an
// event that resets itself: two threads that wait for it must not overtake each other, which is
// rare where an ioctl takes a microsecond (KFD 1.14 added event ages against it).
static atomic_uint last_ticket, turn;

static long long in_turn(const char *what, int fd, unsigned long request, uintptr_t at)
{
    unsigned ticket = atomic_fetch_add(&last_ticket, 1);
    while (atomic_load(&turn) != ticket) sleep_ns(TURN_NS);
    long long result = call(what, "", (unsigned)fd, request, at, 0, 0);
    atomic_fetch_add(&turn, 1);
    return result;
}

// AMDKFD_IOC_WAIT_EVENTS: here real time passes, and the board is asked whether it is over.
static long long wait_events(int fd, unsigned long request, uint32_t *words)
{
    enum { TIMEOUT = 4, ENDLESS = 0xFFFFFFFF };
    uint32_t wanted_ms = words[TIMEOUT];
    uintptr_t at = (uintptr_t)words;
    int64_t until = now_ns() + wanted_ms * 1000000ll;
    long long wait = in_turn("begin_wait", fd, request, at);
    if (wait < 0) return wait;
    while (!call("ask_wait", "", (uint64_t)wait, 0, 0, 0, 0)) {
        if (!alive || (wanted_ms != ENDLESS && now_ns() >= until)) break;
        sleep_ns(WAIT_NS);
    }
    return call("end_wait", "", (uint64_t)wait, at, 0, 0, 0);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    int which = kind_of(fd);
    if (!which) return (int)syscall(SYS_ioctl, fd, request, argument);
    if (which == KFD && (request & 0xFF) == 0x0C)
        return (int)checked(wait_events(fd, request, argument));
    return (int)checked(in_turn("ioctl", fd, request, (uintptr_t)argument));
}
