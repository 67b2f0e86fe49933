// What the client does and checks; the host computes every expected value itself.
#include "client.h"

#define COUNT 100000
#define GROUPS ((COUNT + GROUP - 1) / GROUP)
#define BYTES (GROUPS * GROUP * sizeof(float))
#define MANY_QUEUES 20
#define DEPTH 32
#define STEP 5
#define COUNTERS 7
#define USER_BYTES (3 * 4096 + 512)
#define FILLED 0x3F800000u

static void ended(hsa_signal_t done, const char *kernel)
{
    if (!wait_for(done)) result(0, "%s does not end", kernel);
    MUST(hsa_signal_destroy(done));
}
#define RUN(gpu, name, groups, ...) \
    do { \
        struct __VA_ARGS__; \
        ended(launch(gpu, name, groups, &args, sizeof args), name); \
    } while (0)

static void check_barriers(gpu_t *gpu)
{
    hsa_signal_t wanted[2] = {new_signal(1), new_signal(1)};
    hsa_signal_t both = new_signal(1), either = new_signal(1);
    barrier(gpu->queue, 0, wanted, 2, both);
    hsa_signal_store_screlease(wanted[0], 0);
    usleep(20000);
    result(hsa_signal_load_scacquire(both) == 1, "barrier-and waits for its second signal");
    hsa_signal_store_screlease(wanted[1], 0);
    result(wait_for(both), "barrier-and goes on");
    hsa_signal_store_screlease(wanted[0], 1);
    barrier(gpu->queue, 1, wanted, 2, either);
    result(wait_for(either), "barrier-or goes on with one signal");
    hsa_signal_t all[] = {wanted[0], wanted[1], both, either};
    for (int i = 0; i < 4; i++) MUST(hsa_signal_destroy(all[i]));
}

static void check_copies(gpu_t *gpu, float *host, float *back, float *a, float *b)
{
    for (size_t i = 0; i < BYTES / 4; i++) host[i] = (float)i * 0.5f;
    memset(back, 0, BYTES);
    copy(a, gpu->agent, host, cpu, BYTES);
    copy(b, gpu->agent, a, gpu->agent, BYTES);
    copy(back, cpu, b, gpu->agent, BYTES);
    result(!memcmp(host, back, BYTES), "copies: host to VRAM, VRAM to VRAM, VRAM to host");
    unsigned wrong = 0;
    MUST(hsa_amd_memory_fill(b, FILLED, BYTES / 4));
    copy(back, cpu, b, gpu->agent, BYTES);
    for (size_t i = 0; i < BYTES / 4; i++) wrong += back[i] != 1.0f;
    result(!wrong, "fill: %u wrong", wrong);
    char *user = malloc(USER_BYTES), *again = malloc(USER_BYTES);
    void *locked = 0, *locked_again = 0;
    for (int i = 0; i < USER_BYTES; i++) user[i] = (char)(i * 7);
    memset(again, 0, USER_BYTES);
    MUST(hsa_amd_memory_lock(user, USER_BYTES, &gpu->agent, 1, &locked));
    MUST(hsa_amd_memory_lock(again, USER_BYTES, &gpu->agent, 1, &locked_again));
    copy(a, gpu->agent, locked, cpu, USER_BYTES);
    copy(locked_again, cpu, a, gpu->agent, USER_BYTES);
    result(!memcmp(user, again, USER_BYTES), "copies of locked memory of the process");
    MUST(hsa_amd_memory_unlock(user));
    MUST(hsa_amd_memory_unlock(again));
    free(user);
    free(again);
}

static int expected_scratch(int a)
{
    int kept[DEPTH];
    unsigned sum = 0;
    for (int i = 0; i < DEPTH; i++) kept[i * STEP % DEPTH] = a + i;
    for (int i = 0; i < DEPTH; i++) sum = sum * 3 + (unsigned)kept[i];
    return (int)sum;
}

static void check_kernels(gpu_t *gpu, float *host, float *back, float *a, float *b, float *c)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < BYTES / 4; i++) host[i] = (float)i * 0.5f - 7.0f;
    copy(a, gpu->agent, host, cpu, BYTES);
    MUST(hsa_amd_memory_fill(b, FILLED, BYTES / 4));
    RUN(gpu, "fused", GROUPS, {void *a, *b, *c; unsigned n;} args = {a, b, c, COUNT});
    copy(back, cpu, c, gpu->agent, BYTES);
    for (size_t i = 0; i < COUNT; i++) wrong += back[i] != fmaf(host[i], 2.0f, 1.0f);
    result(!wrong, "kernel with a fused multiply-add over %d: %u wrong", COUNT, wrong);

    RUN(gpu, "backwards", GROUPS, {void *a, *c;} args = {a, c});
    copy(back, cpu, c, gpu->agent, BYTES);
    wrong = 0;
    for (size_t i = 0; i < BYTES / 4; i++) wrong += back[i] != host[i ^ (GROUP - 1)];
    result(!wrong, "kernel with LDS and a barrier: %u wrong", wrong);

    const int *words = (const int *)host, *found = (const int *)back;
    RUN(gpu, "scratch", GROUPS / 4, {void *a, *c; unsigned step;} args = {a, c, STEP});
    copy(back, cpu, c, gpu->agent, BYTES);
    wrong = 0;
    for (int i = 0; i < GROUPS / 4 * GROUP; i++) wrong += found[i] != expected_scratch(words[i]);
    result(!wrong, "kernel with scratch: %u wrong", wrong);

    unsigned sums[COUNTERS] = {0}, counters[COUNTERS];
    MUST(hsa_amd_memory_fill(c, 0, COUNTERS));
    RUN(gpu, "count", 8, {void *c; unsigned n;} args = {c, COUNTERS});
    for (unsigned i = 0; i < 8 * GROUP; i++) sums[i % COUNTERS] += i;
    copy(back, cpu, c, gpu->agent, sizeof counters);
    memcpy(counters, back, sizeof counters);
    result(!memcmp(sums, counters, sizeof sums), "kernel with atomics in VRAM");
    float *shared = host_memory(BYTES);
    RUN(gpu, "backwards", GROUPS, {void *a, *c;} args = {host, shared});
    wrong = 0;
    for (size_t i = 0; i < BYTES / 4; i++) wrong += shared[i] != host[i ^ (GROUP - 1)];
    result(!wrong, "kernel on host memory: %u wrong", wrong);
    MUST(hsa_amd_memory_pool_free(shared));
}

static void check_queues(gpu_t *gpu)
{
    hsa_queue_t *queues[MANY_QUEUES];
    int ends = 0;
    for (int i = 0; i < MANY_QUEUES; i++)
        queues[i] = new_queue(gpu, i % 2 ? HSA_QUEUE_TYPE_SINGLE : HSA_QUEUE_TYPE_MULTI);
    for (int i = 0; i < MANY_QUEUES; i++) {
        hsa_signal_t done = new_signal(1);
        barrier(queues[i], 0, 0, 0, done);
        ends += wait_for(done);
        MUST(hsa_signal_destroy(done));
    }
    for (int i = 0; i < MANY_QUEUES; i++) MUST(hsa_queue_destroy(queues[i]));
    result(ends == MANY_QUEUES, "%d queues, each with a barrier", ends);
}

void check_all(void)
{
    for (gpu_t *gpu = gpus; gpu < gpus + gpu_count; gpu++) {
        float *host = host_memory(BYTES), *back = host_memory(BYTES);
        float *a = vram(gpu, BYTES), *b = vram(gpu, BYTES), *c = vram(gpu, BYTES);
        check_barriers(gpu);
        check_copies(gpu, host, back, a, b);
        check_kernels(gpu, host, back, a, b, c);
        check_queues(gpu);
        void *all[] = {host, back, a, b, c};
        for (int i = 0; i < 5; i++) MUST(hsa_amd_memory_pool_free(all[i]));
    }
}

void check_peers(void)
{
    result(gpu_count == 2, "two GPUs");
    float *host = host_memory(BYTES), *back = host_memory(BYTES);
    float *there = vram(gpus + 1, BYTES), *here = vram(gpus, BYTES);
    hsa_agent_t both[] = {gpus[0].agent, gpus[1].agent};
    check_all();
    MUST(hsa_amd_agents_allow_access(2, both, 0, there));
    MUST(hsa_amd_agents_allow_access(2, both, 0, here));
    for (size_t i = 0; i < BYTES / 4; i++) host[i] = (float)i * 0.25f;
    copy(here, gpus[0].agent, host, cpu, BYTES);
    copy(there, gpus[1].agent, here, gpus[0].agent, BYTES);
    copy(back, cpu, there, gpus[1].agent, BYTES);
    result(!memcmp(host, back, BYTES), "copy from one GPU's VRAM to the other's");
    RUN(gpus, "backwards", GROUPS, {void *a, *c;} args = {there, here});
    RUN(gpus + 1, "backwards", GROUPS, {void *a, *c;} args = {here, there});
    copy(back, cpu, there, gpus[1].agent, BYTES);
    result(!memcmp(host, back, BYTES), "kernels of both GPUs on each other's VRAM");
    hsa_signal_t go = new_signal(1), first = new_signal(1), second = new_signal(1);
    barrier(gpus[1].queue, 0, &first, 1, second);
    barrier(gpus[0].queue, 0, &go, 1, first);
    hsa_signal_store_screlease(go, 0);
    result(wait_for(second), "one GPU waits for the other's signal");
    hsa_signal_t all[] = {go, first, second};
    for (int i = 0; i < 3; i++) MUST(hsa_signal_destroy(all[i]));
}
