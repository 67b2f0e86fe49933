// Common parts of the HSA client: agents, pools, queues, packets. One process, several modes.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 4
#define GROUP 256
#define WAIT_S 60

typedef struct {
    hsa_agent_t agent;
    hsa_amd_memory_pool_t vram;
    hsa_queue_t *queue;
    hsa_executable_t code;
} gpu_t;

extern gpu_t gpus[GPUS];
extern int gpu_count;
extern hsa_agent_t cpu;
extern hsa_amd_memory_pool_t host_pool, kernarg_pool;
extern const char *code_path;

// Report a result on stdout, "ok: ..." or "WRONG: ...", and go on.
void result(int right, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Report what the runtime said of a fault, "said: ...".
void said(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(hsa_status_t status, const char *what); // ends the process where a call failed
#define MUST(call) must(call, #call)

void start_up(void);
void shut_down(void);
hsa_queue_t *new_queue(gpu_t *gpu, hsa_queue_type32_t type);
hsa_signal_t new_signal(hsa_signal_value_t value);
int wait_for(hsa_signal_t signal); // until it is below 1; 0 after WAIT_S
void *host_memory(size_t bytes);   // every GPU has access
void *vram(gpu_t *gpu, size_t bytes);
void copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t bytes);
void barrier(hsa_queue_t *queue, int any, hsa_signal_t *wanted, int count, hsa_signal_t done);
void load_code(gpu_t *gpu);
hsa_signal_t launch(gpu_t *gpu, const char *kernel, unsigned groups, const void *args, size_t n);
void bad_packet(hsa_queue_t *queue);

void check_all(void);        // everything that one GPU does
void check_peers(void);      // what two do together
void check_fault(const char *kind);
void limit_time(const char *kind); // the process ends by itself when the runtime does not return
