/* A made-up Objective-C runtime and Metal for Linux: objects, their lifetimes, and what is broken.
 *
 * Messages arrive by the real calling convention: objc_msgSend finds a method and jumps to it.
 * Nothing dead is ever freed, so that its use is seen. What a rule forbids is written down and
 * otherwise ignored.
 */
#pragma once
#include <pthread.h>
#include <stdint.h>
#include <stddef.h>

typedef uint64_t u64;
typedef const char *SEL;
typedef struct { u64 width, height, depth; } Size;
typedef struct { u64 location, length; } Range;
typedef void (*Imp)(void);
typedef struct { SEL name; Imp imp; } Method;
typedef struct Object Object;
typedef struct Class {
    struct Class *meta;             /* a class is an object, too */
    const char *name;
    size_t nbytes;
    const Method *methods;
    const struct Class *parent;
    void (*dealloc)(Object *self);
    int made;                       /* of all time */
} Class;
struct Object {
    Class *isa;
    uintptr_t magic;
    int refs;
    int autoreleased;               /* references that pools will give back */
    int fate;                       /* ALIVE, or why it is dead */
    int forever;                    /* constants, and the devices of the machine */
    Object *before;                 /* of all objects */
};
enum { ALIVE, RELEASED, DRAINED };

extern pthread_mutex_t world;       /* recursive: objects, queues, violations */
void violate(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
Object *make(Class *class);         /* with one reference */
Object *retain(Object *self);
void release(Object *self);
Object *autoreleased(Object *self); /* given to the innermost pool */
Object *string_of(const char *text);
Object *error_of(long code, const char *text);
const char *text_of(Object *string);
void remember(Class *class);
int is_alive(Object *self, const Class *class, const char *what);

extern Class NSObject;
#define ROOT &NSObject
#define METHOD(name, function) { name, (Imp)(function) }
