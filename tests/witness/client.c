#include "client.h"

#include <fcntl.h>
#include <stdarg.h>

gpu_t gpus[GPUS];
int gpu_count;
hsa_agent_t cpu;
hsa_amd_memory_pool_t host_pool, kernarg_pool;
const char *code_path;
static int wrong;

void result(int right, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    wrong += !right;
    printf(right ? "ok: " : "WRONG: ");
    vprintf(format, values);
    printf("\n");
    fflush(stdout);
    va_end(values);
}

void said(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("said: ");
    vprintf(format, values);
    printf("\n");
    fflush(stdout);
    va_end(values);
}

void must(hsa_status_t status, const char *what)
{
    const char *text = "?";
    if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK) return;
    hsa_status_string(status, &text);
    result(0, "%s: %#x %s", what, status, text);
    exit(1);
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *agent)
{
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    MUST(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    MUST(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    gpu_t *gpu = agent;
    if (gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) gpu->vram = pool;
    if (!gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) kernarg_pool = pool;
    else if (!gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) host_pool = pool;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    MUST(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_CPU) cpu = agent;
    if (type == HSA_DEVICE_TYPE_GPU && gpu_count < GPUS) gpus[gpu_count++].agent = agent;
    return unused ? HSA_STATUS_ERROR : HSA_STATUS_SUCCESS;
}

static void on_queue_error(hsa_status_t status, hsa_queue_t *queue, void *unused)
{
    const char *text = "?";
    hsa_status_string(status, &text);
    const char *known = queue && !unused ? "" : " of no queue";
    said("queue error %#x %.*s%s", status, (int)strcspn(text, "\n"), text, known);
}

static hsa_status_t on_event(const hsa_amd_event_t *event, void *unused)
{
    if (event->event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT)
        said("memory fault at %#lx mask %#x", (unsigned long)event->memory_fault.virtual_address,
             event->memory_fault.fault_reason_mask);
    else said("event %d", event->event_type);
    return unused ? HSA_STATUS_ERROR : HSA_STATUS_SUCCESS;
}

void start_up(void)
{
    char name[64];
    gpu_count = 0;
    MUST(hsa_init());
    MUST(hsa_iterate_agents(on_agent, 0));
    result(gpu_count > 0, "%d GPU agents", gpu_count);
    if (!gpu_count) exit(1);
    MUST(hsa_amd_register_system_event_handler(on_event, 0));
    MUST(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, 0));
    for (gpu_t *gpu = gpus; gpu < gpus + gpu_count; gpu++) {
        MUST(hsa_amd_agent_iterate_memory_pools(gpu->agent, on_pool, gpu));
        MUST(hsa_agent_get_info(gpu->agent, HSA_AGENT_INFO_NAME, name));
        result(!strcmp(name, getenv("WITNESS_CHIP")), "agent %s", name);
        gpu->queue = new_queue(gpu, HSA_QUEUE_TYPE_MULTI);
        load_code(gpu);
    }
}

void shut_down(void)
{
    for (gpu_t *gpu = gpus; gpu < gpus + gpu_count; gpu++) {
        MUST(hsa_queue_destroy(gpu->queue));
        MUST(hsa_executable_destroy(gpu->code));
    }
    MUST(hsa_shut_down());
}

hsa_queue_t *new_queue(gpu_t *gpu, hsa_queue_type32_t type)
{
    hsa_queue_t *queue = 0;
    MUST(hsa_queue_create(gpu->agent, 256, type, on_queue_error, 0, UINT32_MAX, UINT32_MAX,
                          &queue));
    return queue;
}

hsa_signal_t new_signal(hsa_signal_value_t value)
{
    hsa_signal_t signal;
    MUST(hsa_signal_create(value, 0, 0, &signal));
    return signal;
}

int wait_for(hsa_signal_t signal)
{
    uint64_t frequency = 0, limit;
    MUST(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency));
    limit = frequency * WAIT_S;
    return hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, limit,
                                     HSA_WAIT_STATE_BLOCKED) < 1;
}

static void share(void *memory)
{
    hsa_agent_t agents[GPUS];
    for (int i = 0; i < gpu_count; i++) agents[i] = gpus[i].agent;
    MUST(hsa_amd_agents_allow_access((uint32_t)gpu_count, agents, 0, memory));
}

void *host_memory(size_t bytes)
{
    void *memory = 0;
    MUST(hsa_amd_memory_pool_allocate(host_pool, bytes, 0, &memory));
    share(memory);
    return memory;
}

void *vram(gpu_t *gpu, size_t bytes)
{
    void *memory = 0;
    MUST(hsa_amd_memory_pool_allocate(gpu->vram, bytes, 0, &memory));
    return memory;
}

void copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t bytes)
{
    hsa_signal_t done = new_signal(1);
    MUST(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, 0, done));
    if (!wait_for(done)) result(0, "a copy of %zu bytes does not end", bytes);
    MUST(hsa_signal_destroy(done));
}

// Packets

static void *slot(hsa_queue_t *queue, uint64_t *index)
{
    *index = hsa_queue_add_write_index_relaxed(queue, 1);
    while (*index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) usleep(100);
    return (char *)queue->base_address + *index % queue->size * 64;
}

static void ring(hsa_queue_t *queue, uint64_t index, uint32_t *packet, unsigned kind, unsigned more)
{
    unsigned scope = HSA_FENCE_SCOPE_SYSTEM;
    unsigned header = kind << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER
        | scope << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE
        | scope << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
    __atomic_store_n(packet, header | more << 16, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

void barrier(hsa_queue_t *queue, int any, hsa_signal_t *wanted, int count, hsa_signal_t done)
{
    uint64_t index;
    hsa_barrier_and_packet_t *packet = slot(queue, &index);
    memset((char *)packet + 4, 0, sizeof *packet - 4);
    for (int i = 0; i < count; i++) packet->dep_signal[i] = wanted[i];
    packet->completion_signal = done;
    unsigned kind = any ? HSA_PACKET_TYPE_BARRIER_OR : HSA_PACKET_TYPE_BARRIER_AND;
    ring(queue, index, (uint32_t *)packet, kind, 0);
}

void bad_packet(hsa_queue_t *queue)
{
    uint64_t index;
    uint32_t *packet = slot(queue, &index);
    memset(packet + 1, 0, 60);
    ring(queue, index, packet, 9, 0);
}

void load_code(gpu_t *gpu)
{
    hsa_code_object_reader_t reader;
    int fd = open(code_path, O_RDONLY);
    MUST(hsa_code_object_reader_create_from_file(fd, &reader));
    MUST(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, 0,
                                   &gpu->code));
    MUST(hsa_executable_load_agent_code_object(gpu->code, gpu->agent, reader, 0, 0));
    MUST(hsa_executable_freeze(gpu->code, 0));
    MUST(hsa_code_object_reader_destroy(reader));
    close(fd);
}

hsa_signal_t launch(gpu_t *gpu, const char *kernel, unsigned groups, const void *args, size_t n)
{
    char name[64];
    hsa_executable_symbol_t symbol;
    uint64_t index;
    void *kernarg = 0;
    hsa_signal_t done = new_signal(1);
    snprintf(name, sizeof name, "%s.kd", kernel);
    MUST(hsa_executable_get_symbol_by_name(gpu->code, name, &gpu->agent, &symbol));
    MUST(hsa_amd_memory_pool_allocate(kernarg_pool, 4096, 0, &kernarg));
    share(kernarg);
    memcpy(memset(kernarg, 0, 4096), args, n);
    hsa_kernel_dispatch_packet_t *packet = slot(gpu->queue, &index);
    memset((char *)packet + 4, 0, sizeof *packet - 4);
    packet->workgroup_size_x = GROUP;
    packet->grid_size_x = groups * GROUP;
    packet->workgroup_size_y = packet->workgroup_size_z = 1;
    packet->grid_size_y = packet->grid_size_z = 1;
    packet->kernarg_address = kernarg;
    packet->completion_signal = done;
    MUST(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
                                        &packet->kernel_object));
    MUST(hsa_executable_symbol_get_info(symbol,
                                        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
                                        &packet->group_segment_size));
    MUST(hsa_executable_symbol_get_info(symbol,
                                        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
                                        &packet->private_segment_size));
    ring(gpu->queue, index, (uint32_t *)packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, 1);
    return done;
}

int main(int count, char **words)
{
    if (count != 3) return 2;
    const char *mode = words[1];
    code_path = words[2];
    int checks = !strcmp(mode, "all") || !strcmp(mode, "peers");
    int rounds = strcmp(mode, "all") ? 1 : 2;
    if (!checks) limit_time(mode);
    for (int round = 0; round < rounds; round++) {
        start_up();
        if (!strcmp(mode, "all")) check_all();
        else if (!strcmp(mode, "peers")) check_peers();
        else check_fault(mode);
        shut_down();
        result(1, "shut down");
    }
    return wrong != 0;
}
