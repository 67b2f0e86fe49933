// CPython in the client's process: started at the first call, never finished.
#include "shim.h"

#include <pthread.h>

#define MODULE "tests.witness.inside"

__thread int inside;
atomic_int alive;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static void *module;

// CPython's stable interface, of the library that WITNESS_PYTHON names.
static void (*py_initialize)(int);
static void *(*py_save_thread)(void);
static int (*py_ensure)(void);
static void (*py_release)(int);
static void *(*py_import)(const char *);
static void *(*py_call)(void *, const char *, const char *, ...);
static long long (*py_number)(void *);
static void (*py_print)(void);
static void (*py_drop)(void *);

void quit(const char *what)
{
    fprintf(stderr, "witness: %s\n", what);
    _exit(97);
}

static void load_python(void)
{
    const char *path = getenv("WITNESS_PYTHON");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : 0;
    if (!library) quit(dlerror());
    struct { const char *name; void *to; } wanted[] = {
        {"Py_InitializeEx", &py_initialize}, {"PyEval_SaveThread", &py_save_thread},
        {"PyGILState_Ensure", &py_ensure}, {"PyGILState_Release", &py_release},
        {"PyImport_ImportModule", &py_import}, {"PyObject_CallMethod", &py_call},
        {"PyLong_AsLongLong", &py_number}, {"PyErr_Print", &py_print}, {"Py_DecRef", &py_drop},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*(void **)wanted[i].to = dlsym(library, wanted[i].name))) quit(wanted[i].name);
}

static void start(void)
{
    pthread_mutex_lock(&starting);
    if (!module) {
        inside++;
        load_python();
        py_initialize(0);
        void *found = py_import(MODULE);
        if (!found) { py_print(); quit("no board"); }
        py_save_thread();
        alive = 1;
        module = found;
        pthread_t thread;
        if (pthread_create(&thread, 0, poll_doorbells, 0)) quit("no thread");
        inside--;
    }
    pthread_mutex_unlock(&starting);
}

long long call(const char *what, const char *path, uint64_t a, uint64_t b, uint64_t c,
                      uint64_t d, uint64_t e)
{
    start();
    inside++;
    int state = py_ensure();
    void *result = py_call(module, what, "sKKKKK", path, a, b, c, d, e);
    if (!result) { py_print(); quit(what); }
    long long number = py_number(result);
    py_drop(result);
    py_release(state);
    inside--;
    return number;
}

long long checked(long long result)
{
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, 0);
}

void witness_finish(void);

// The board's fault panel, for our own client. A negative errno, or what the fault returned.
__attribute__((visibility("default"))) long long witness_panel(const char *what)
{
    return call("panel", what, 0, 0, 0, 0, 0);
}

// Our client's runtime does not return: the report is written, and queues may be left.
__attribute__((visibility("default"))) void witness_give_up(void)
{
    call("give_up", "", 0, 0, 0, 0, 0);
    witness_finish();
}

__attribute__((destructor, visibility("default"))) void witness_finish(void)
{
    if (!module || !alive) return;
    alive = 0;
    call("finish", "", 0, 0, 0, 0, 0);
}

// What a client that gives up did is reported, too.
void abort(void)
{
    REAL(abort);
    witness_finish();
    real();
    __builtin_unreachable();
}
