// Preloaded: files of a GPU's kernel driver are the board's, in Python, in the same process.
//
// Python loads this library, too, and gives it its functions. Every one takes numbers and returns
// one, below 0 an errno. What is not of a device node goes to the kernel.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS 65536
#define MAPS 65536

typedef struct {
    int64_t (*open_node)(const char *path, int64_t flags);
    int64_t (*close_node)(int64_t fd);
    int64_t (*ioctl_node)(int64_t fd, uint64_t request, uint64_t at);
    int64_t (*map_node)(int64_t fd, uint64_t at, uint64_t bytes, int64_t rights, uint64_t offset);
    int64_t (*unmap_node)(uint64_t at);
    int64_t (*number_of)(const char *path);
} Calls;

static Calls calls;
static _Atomic int installed;
static unsigned char ours[FDS];
static struct { uintptr_t at; size_t bytes; } maps[MAPS];
static unsigned map_count;

void board_install(const Calls *given)
{
    calls = *given;
    installed = 1;
}

static long checked(int64_t result)
{
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

#define RENDER "/dev/dri/renderD128"

static int is_node(const char *path)
{
    return installed && path && (!strcmp(path, "/dev/kgsl-3d0") || !strcmp(path, RENDER));
}

static int open_path(int folder, const char *path, int flags, mode_t mode)
{
    if (!is_node(path)) return (int)syscall(SYS_openat, folder, path, flags, mode);
    int64_t fd = calls.open_node(path, flags);
    if (fd >= 0 && fd < FDS) ours[fd] = 1;
    return (int)checked(fd);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments); \
        return open_path(AT_FDCWD, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
int __open_2(const char *path, int flags) { return open_path(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_path(AT_FDCWD, path, flags, 0); }

int stat(const char *path, struct stat *to)
{
    if (!is_node(path)) return (int)syscall(SYS_newfstatat, AT_FDCWD, path, to, 0);
    int64_t number = calls.number_of(path);
    if (number < 0) return (int)checked(number);
    memset(to, 0, sizeof *to);
    to->st_mode = S_IFCHR | 0666;
    to->st_rdev = (dev_t)number;
    return 0;
}

int stat64(const char *path, struct stat64 *to) { return stat(path, (struct stat *)to); }

// libdrm's search of /dev/dri and sysfs is left out: there is the board's node, or nothing.
// src: libdrm 2.4, xf86drm.h, struct _drmDevice, DRM_NODE_RENDER 2, DRM_BUS_PLATFORM 2
typedef struct { char **nodes; int available, bus; void *bus_info, *device_info; } Device;

int drmGetDevices2(uint32_t flags, Device **devices, int most)
{
    static char render[] = RENDER, none[] = "";
    static char *nodes[] = {none, none, render};
    static Device board = {nodes, 1 << 2, 2, 0, 0};
    (void)flags;
    if (!is_node(RENDER) || calls.number_of(RENDER) < 0) return 0;
    if (devices && most > 0) devices[0] = &board;
    return 1;
}

void drmFreeDevices(Device **devices, int count)
{
    (void)devices, (void)count;
}

static int is_ours(int fd) { return fd >= 0 && fd < FDS && ours[fd]; }

int close(int fd)
{
    if (!is_ours(fd)) return (int)syscall(SYS_close, fd);
    ours[fd] = 0;
    return (int)checked(calls.close_node(fd));
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!is_ours(fd)) return (int)syscall(SYS_ioctl, fd, request, argument);
    return (int)checked(calls.ioctl_node(fd, request, (uintptr_t)argument));
}

void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    if (!is_ours(fd)) return (void *)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
    uintptr_t wanted = flags & MAP_FIXED ? (uintptr_t)at : 0;
    int64_t made = calls.map_node(fd, wanted, bytes, rights, (uint64_t)offset);
    if (made < 0 && made > -4096) {
        errno = (int)-made;
        return MAP_FAILED;
    }
    unsigned place = 0;
    while (place < map_count && maps[place].at) place++;
    if (place < MAPS) {
        maps[place].at = (uintptr_t)made;
        maps[place].bytes = bytes;
        if (place == map_count) map_count++;
    }
    return (void *)made;
}

void *mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, rights, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    for (unsigned i = 0; at && i < map_count; i++)
        if (maps[i].at == (uintptr_t)at) {
            maps[i].at = 0;
            return (int)checked(calls.unmap_node((uintptr_t)at));
        }
    return (int)syscall(SYS_munmap, at, bytes);
}
