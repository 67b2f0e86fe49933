// Kernels of client.c for an AMD GPU, compiled for each chip by clang, without any library.
typedef unsigned int uint;
typedef unsigned long ulong;
#define GROUP 256
#define DEPTH 32
#define global __attribute__((address_space(1)))
#define local __attribute__((address_space(3), loader_uninitialized))
#define LANE __builtin_amdgcn_workitem_id_x()
#define ID (__builtin_amdgcn_workgroup_id_x() * GROUP + LANE)
#define KERNEL \
    __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(GROUP, GROUP), \
                   visibility("protected"))) void
#define ADD(at, value) \
    __scoped_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)

KERNEL fused(const global float *a, const global float *b, global float *c, uint n)
{
    if (ID < n) c[ID] = __builtin_fmaf(a[ID], 2.0f, b[ID]);
}

// LDS and a barrier: each group stores its part backwards.
static local float part[GROUP];
KERNEL backwards(const global float *a, global float *c)
{
    part[LANE] = a[ID];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    c[ID] = part[GROUP - 1 - LANE];
}

// Private memory, indexed by what only the run knows.
KERNEL scratch(const global int *a, global int *c, uint step)
{
    volatile int kept[DEPTH];
    for (uint i = 0; i < DEPTH; i++) kept[(i * step) % DEPTH] = a[ID] + (int)i;
    int sum = 0;
    for (uint i = 0; i < DEPTH; i++) sum = sum * 3 + kept[i];
    c[ID] = sum;
}

KERNEL count(global uint *counters, uint n) { ADD(counters + ID % n, ID); }

// What goes wrong, for the fault matrix.
KERNEL store_at(volatile global int *at) { at[LANE] = 1; }
KERNEL load_at(volatile global int *at, global int *to) { to[LANE] = at[LANE]; }
KERNEL jump_to(ulong at) { __asm__ volatile("s_setpc_b64 %0" : : "s"(at)); }
KERNEL misaligned(global char *at) { ADD((global uint *)(at + 2), 1); }
KERNEL illegal(global int *to)
{
    __asm__ volatile(".long 0xffffffff");
    to[LANE] = 1;
}
KERNEL trap(global int *to)
{
    __builtin_trap();
    to[LANE] = 1;
}
