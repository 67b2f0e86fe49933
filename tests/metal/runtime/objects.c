/* Classes, selectors, references, pools, strings, errors. */
#define _GNU_SOURCE
#include "objects.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_CLASSES = 64, MOST_SELECTORS = 512, REPORT_BYTES = 1 << 20, ALIGN_BYTES = 64 };
#define ARENA_BYTES ((size_t)1 << 34)
#define MAGIC ((uintptr_t)0x4d65746c4d616b65)

pthread_mutex_t world = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static Class *classes[MOST_CLASSES];
static char *selectors[MOST_SELECTORS];
static int class_count, selector_count, violation_count;
static char report[REPORT_BYTES];
static size_t reported;
static Object *newest;
static char *arena;         /* objects are never given back: what is dead is known as such */
static size_t arena_used;
typedef struct Held { struct Held *next; Object *object; } Held;
typedef struct Pool { Object head; Held *held; struct Pool *outer; int drained; } Pool;
static __thread Pool *innermost;

void violate(const char *rule, const char *format, ...) {
    va_list args;
    pthread_mutex_lock(&world);
    violation_count++;
    if (reported < REPORT_BYTES - 1024) {
        reported += (size_t)snprintf(report + reported, 256, "%s: ", rule);
        va_start(args, format);
        reported += (size_t)vsnprintf(report + reported, 512, format, args);
        va_end(args);
        reported += (size_t)snprintf(report + reported, 2, "\n");
    }
    pthread_mutex_unlock(&world);
}

/* For tests: the report since the last time, and what lives. */
const char *made_up_report(void) {
    static char given[REPORT_BYTES];
    pthread_mutex_lock(&world);
    memcpy(given, report, reported);
    given[reported] = 0;
    reported = 0;
    violation_count = 0;
    pthread_mutex_unlock(&world);
    return given;
}

u64 made_up_live(const char *name) {
    u64 count = 0;
    pthread_mutex_lock(&world);
    for (Object *one = newest; one; one = one->before)
        count += one->fate == ALIVE && !one->forever && (!*name || !strcmp(one->isa->name, name));
    pthread_mutex_unlock(&world);
    return count;
}

u64 made_up_made(const char *name) {
    for (int i = 0; i < class_count; i++)
        if (!strcmp(classes[i]->name, name)) return (u64)classes[i]->made;
    return 0;
}

/* A violation for each object that is alive: called once everything should be gone. */
void made_up_leaks(void) {
    pthread_mutex_lock(&world);
    for (Object *one = newest; one; one = one->before)
        if (one->fate == ALIVE && !one->forever)
            violate("leak", "a %s has %d references", one->isa->name, one->refs);
    pthread_mutex_unlock(&world);
}

/* Everything that lives is forgotten: for the next test, after one that leaked on purpose. */
void made_up_forget(void) {
    pthread_mutex_lock(&world);
    for (Object *one = newest; one; one = one->before) one->forever = 1;
    pthread_mutex_unlock(&world);
}

void remember(Class *class) {
    if (class_count < MOST_CLASSES) classes[class_count++] = class;
}

SEL sel_registerName(const char *name) {
    pthread_mutex_lock(&world);
    int at = 0;
    while (at < selector_count && strcmp(selectors[at], name)) at++;
    if (at == selector_count && at < MOST_SELECTORS) selectors[selector_count++] = strdup(name);
    pthread_mutex_unlock(&world);
    return at < MOST_SELECTORS ? selectors[at] : NULL;
}

Class *objc_getClass(const char *name) {
    for (int i = 0; i < class_count; i++)
        if (!strcmp(classes[i]->name, name)) return classes[i];
    return NULL;
}

static u64 nothing(void) { return 0; }
static Size nothing_at_all(void) { return (Size){0, 0, 0}; }

static int is_class(const void *self) {
    for (int i = 0; i < class_count; i++)
        if (classes[i] == self) return 1;
    return 0;
}

static int is_object(const Object *self) {
    size_t off = (size_t)((const char *)self - arena);
    if (!arena || (const char *)self < arena || off >= arena_used || off % ALIGN_BYTES) return 0;
    return self->magic == ((uintptr_t)self ^ MAGIC);
}

int is_alive(Object *self, const Class *class, const char *what) {
    pthread_mutex_lock(&world);
    int known = self && is_object(self);
    if (!known) violate("no object", "%s is %p", what, (void *)self);
    else if (self->fate != ALIVE)
        violate("use after release", "%s is a %s that is gone", what, self->isa->name);
    else if (class && self->isa != class)
        violate("wrong class", "%s is a %s, not a %s", what, self->isa->name, class->name);
    int good = known && self->fate == ALIVE && (!class || self->isa == class);
    pthread_mutex_unlock(&world);
    return good;
}

/* What an object begins with. free() writes over the first word of dead ones, here with 0. */
Class *object_getClass(Object *self) {
    if (self && is_object(self) && self->fate != ALIVE) return NULL;
    return self ? self->isa : NULL;
}

int objc_getClassList(Class **room, int count) {
    for (int i = 0; i < class_count && i < count; i++) room[i] = classes[i];
    return class_count;
}

unsigned char class_respondsToSelector(Class *self, SEL name) {
    if (!is_class(self)) { violate("no class", "%s of %p", name, (void *)self); return 0; }
    for (const Class *class = self; class; class = class->parent)
        for (const Method *method = class->methods; method && method->name; method++)
            if (!strcmp(method->name, name)) return 1;
    return 0;
}

static Object *class_alloc(Class *self, SEL name) { (void)name; return make(self); }

static Imp found(Object *self, SEL name, int struct_result) {
    Imp none = struct_result ? (Imp)nothing_at_all : (Imp)nothing;
    if (!self) { violate("message to nil", "%s", name); return none; }
    if (is_class(self)) {
        if (!strcmp(name, "alloc")) return (Imp)class_alloc;
        violate("unknown selector", "+[%s %s]", ((Class *)self)->name, name);
        return none;
    }
    if (!is_object(self)) { violate("no object", "%s to %p", name, (void *)self); return none; }
    if (self->fate != ALIVE) {
        const char *class = self->isa->name;
        if (self->fate == DRAINED) violate("use after its pool", "-[%s %s]", class, name);
        else if (!strcmp(name, "release")) violate("over-release", "a %s", class);
        else violate("use after release", "-[%s %s]", class, name);
        return none;
    }
    for (const Class *class = self->isa; class; class = class->parent)
        for (const Method *method = class->methods; method && method->name; method++)
            if (!strcmp(method->name, name)) return method->imp;
    violate("unknown selector", "-[%s %s]", self->isa->name, name);
    return none;
}

Imp made_up_method(Object *self, SEL name, int struct_result) {
    pthread_mutex_lock(&world);
    Imp imp = found(self, name, struct_result);
    pthread_mutex_unlock(&world);
    return imp;
}

/* References */

Object *make(Class *class) {
    size_t nbytes = class->nbytes ? class->nbytes : sizeof(Object);
    pthread_mutex_lock(&world);
    if (!arena)
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Object *made = (Object *)(arena + arena_used);
    arena_used += (nbytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    made->magic = (uintptr_t)made ^ MAGIC;
    made->isa = class;
    made->refs = 1;
    made->before = newest;
    newest = made;
    class->made++;
    pthread_mutex_unlock(&world);
    return made;
}

Object *retain(Object *self) {
    if (!self) return NULL;
    pthread_mutex_lock(&world);
    self->refs++;
    pthread_mutex_unlock(&world);
    return self;
}

static void give_back(Object *self, int fate) {
    pthread_mutex_lock(&world);
    if (self->fate != ALIVE) violate("over-release", "a %s", self->isa->name);
    else if (--self->refs == 0) {
        if (self->isa->dealloc) self->isa->dealloc(self);
        self->fate = fate;
    } else if (self->refs < self->autoreleased)
        violate("over-release", "a %s that a pool holds, too", self->isa->name);
    pthread_mutex_unlock(&world);
}

void release(Object *self) { if (self) give_back(self, RELEASED); }

Object *autoreleased(Object *self) {
    if (!innermost) {
        violate("no pool", "a %s is autoreleased, and leaks", self->isa->name);
        return self;
    }
    Held *held = malloc(sizeof *held);
    *held = (Held){innermost->held, self};
    innermost->held = held;
    self->autoreleased++;
    return self;
}

static Object *pool_init(Pool *self) {
    self->outer = innermost;
    innermost = self;
    return &self->head;
}

static void pool_drain(Pool *self) {
    if (innermost != self) {
        violate("pools out of order", "a pool is drained that is not the innermost");
        return;
    }
    innermost = self->outer;
    for (Held *one = self->held; one; one = one->next) {
        one->object->autoreleased--;
        give_back(one->object, DRAINED);
    }
    self->held = NULL;
    give_back(&self->head, RELEASED);
}

/* NSObject, NSString, NSArray, NSError */

static Object *object_init(Object *self) { return self; }
static Object *object_retain(Object *self) { return retain(self); }
static void object_release(Object *self) { release(self); }
static const Method object_methods[] = {
    METHOD("init", object_init), METHOD("retain", object_retain),
    METHOD("release", object_release), {NULL, NULL},
};
Class NSObject = {.name = "NSObject", .methods = object_methods};

static const Method pool_methods[] = {
    METHOD("init", pool_init), METHOD("drain", pool_drain), {NULL, NULL},
};
static Class NSAutoreleasePool = {
    .name = "NSAutoreleasePool", .nbytes = sizeof(Pool), .methods = pool_methods, .parent = ROOT,
};

typedef struct { Object head; char *text; } String;
typedef struct { Object head; long code; Object *text; } Error;
enum { UTF8 = 4 };

static Object *string_init(String *self, SEL name, const char *text, u64 encoding) {
    (void)name;
    if (encoding != UTF8) violate("encoding", "%lu is not UTF-8", (unsigned long)encoding);
    self->text = strdup(text);
    return &self->head;
}
static const char *string_text(String *self) { return self->text; }
const char *text_of(Object *string) { return ((String *)string)->text; }
static const Method string_methods[] = {
    METHOD("initWithCString:encoding:", string_init), METHOD("UTF8String", string_text),
    {NULL, NULL},
};
static Class NSString = {
    .name = "NSString", .nbytes = sizeof(String), .methods = string_methods, .parent = ROOT,
};

Object *string_of(const char *text) {
    String *made = (String *)make(&NSString);
    made->text = strdup(text);
    return autoreleased(&made->head);
}

static long error_code(Error *self) { return self->code; }
static Object *error_text(Error *self) { return autoreleased(retain(self->text)); }
static void error_dealloc(Object *self) { release(((Error *)self)->text); }
static const Method error_methods[] = {
    METHOD("code", error_code), METHOD("localizedDescription", error_text), {NULL, NULL},
};
static Class NSError = {
    .name = "NSError", .nbytes = sizeof(Error), .methods = error_methods, .parent = ROOT,
    .dealloc = error_dealloc,
};

Object *error_of(long code, const char *text) {
    Error *made = (Error *)make(&NSError);
    String *string = (String *)make(&NSString);
    string->text = strdup(text);
    made->code = code;
    made->text = &string->head;
    return &made->head;
}

__attribute__((constructor)) static void begin(void) {
    Class *all[] = {&NSObject, &NSAutoreleasePool, &NSString, &NSError};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) remember(all[i]);
}
