// A Vulkan driver that is Turnip without VK_KHR_display, which Turnip refuses over KGSL but offers
// on every Linux, and which wgpu switches on where it is offered.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_OUT "VK_KHR_display"
#define NAME_BYTES 256 // VK_MAX_EXTENSION_NAME_SIZE
#define MOST 256
typedef struct { char name[NAME_BYTES]; uint32_t version; } Extension;
typedef void (*Function)(void);
typedef Function (*Lookup)(void *instance, const char *name);
typedef int (*Enumerate)(const char *layer, uint32_t *count, Extension *into);
enum { INCOMPLETE = 5 };

static void *turnip(const char *name)
{
    static void *library;
    if (!library) library = dlopen(getenv("TURNIP_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

static Function look_up(void *instance, const char *name)
{
    Lookup real = (Lookup)turnip("vk_icdGetInstanceProcAddr");
    return real ? real(instance, name) : NULL;
}

static int enumerate(const char *layer, uint32_t *count, Extension *into)
{
    static Extension all[MOST];
    uint32_t found = MOST, kept = 0, room = *count;
    Enumerate real = (Enumerate)look_up(NULL, "vkEnumerateInstanceExtensionProperties");
    int result = real(layer, &found, all);
    if (result) return result;
    for (uint32_t i = 0; i < found; i++) {
        if (!strcmp(all[i].name, LEFT_OUT)) continue;
        if (into && kept < room) into[kept] = all[i];
        kept++;
    }
    *count = into && kept > room ? room : kept;
    return into && kept > room ? INCOMPLETE : 0;
}

Function vk_icdGetInstanceProcAddr(void *instance, const char *name)
{
    if (!strcmp(name, "vkEnumerateInstanceExtensionProperties")) return (Function)enumerate;
    return look_up(instance, name);
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name)
{
    Lookup real = (Lookup)turnip("vk_icdGetPhysicalDeviceProcAddr");
    return real ? real(instance, name) : NULL;
}

int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    int (*real)(uint32_t *) = (int (*)(uint32_t *))turnip("vk_icdNegotiateLoaderICDInterfaceVersion");
    return real ? real(version) : -1;
}
