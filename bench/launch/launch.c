// SPDX-License-Identifier: Apache-2.0
// What one launch of a trivial three-tensor callable costs: frame built with full validation, launched inline; the enqueue on an
// asynchronous stream; and the same launch as a node of a recorded graph.
//
//   bench_launch               times (medians of batches) and counts
//   bench_launch --budget      counts only; exit 1 if an inline launch or replay allocates, locks or calls the system at all
//   bench_launch --loop N      N launches and nothing else: for callgrind and perf
//   bench_launch --replay-loop N   N replays of BENCH_NODES nodes, likewise
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "meter.h"
#include "slipstream/slipstream.h"

#define BENCH_ELEMENTS 8
#define BENCH_BATCHES  301
#define BENCH_BATCH    2000
#define BENCH_ASYNC    256
#define BENCH_COUNTED  10000
#define BENCH_NODES    16
#define BENCH_REPLAYS  (BENCH_COUNTED / BENCH_NODES)

static void bench_check(slip_status_t status, const char *what) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

static uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int bench_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double bench_median(double *values, size_t count) {
  qsort(values, count, sizeof(*values), bench_compare);
  return values[count / 2];
}

// --- the callable ------------------------------------------------------------------------------------------------------------------------

typedef struct bench_t {
  slip_platform_t *platform;
  slip_context_t *context;
  slip_signature_t *signature;
  slip_graph_t *graph;  // BENCH_NODES times the callable
  int32_t id;
  slip_tensor_t tensors[3];
  float data[3][BENCH_ELEMENTS];
} bench_t;

static slip_bytes_t bench_read(const char *path) {
  slip_bytes_t bytes = {NULL, 0};
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  bytes.size = (size_t)ftell(file);
  bytes.data = malloc(bytes.size);
  rewind(file);
  if (!bytes.data || fread(bytes.data, 1, bytes.size, file) != bytes.size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return bytes;
}

static slip_bytes_t bench_image(slip_platform_t *platform) {
  const char *signature = "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)";
  slip_device_properties_t properties;
  slip_image_entry_t entry = {.name = "add"};
  slip_image_kernel_t kernel = {.name = "add_f32", .tensor_count = 3};
  slip_bytes_t object = bench_read(BENCH_CALLABLE), image = {NULL, 0};
  bench_check(slip_platform_device_properties(platform, 0, &properties), "device properties");
  bench_check(slip_signature_parse(signature, strlen(signature), slip_allocator_system(), &entry.signature), "signature");
  slip_image_desc_t desc = {.platform = SLIP_PLATFORM_CPU,
                            .contract = SLIP_CONTRACT_KERNEL,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = 1,
                            .target = properties.target,
                            .build_id = "bench",
                            .entries = &entry,
                            .kernels = &kernel,
                            .kernel_count = 1,
                            .orchestration = {object.data, object.size}};
  bench_check(slip_image_pack(&desc, slip_allocator_system(), &image), "packing the image");
  slip_signature_release(entry.signature);
  free(object.data);
  return image;
}

static inline void bench_frame(bench_t *b, slip_frame_t *frame) {
  slip_arg_t args[3] = {slip_arg_tensor(&b->tensors[0], b), slip_arg_tensor(&b->tensors[1], b), slip_arg_tensor(&b->tensors[2], b)};
  bench_check(slip_frame_initialize(frame, b->signature, "add", slip_device_cpu(), args, 3, 0), "frame");
}

static void bench_record(bench_t *b) {
  slip_frame_t frame;
  bench_frame(b, &frame);
  bench_check(slip_graph_create(b->context, &b->graph), "graph");
  for (int i = 0; i < BENCH_NODES; ++i) bench_check(slip_graph_add(b->graph, b->id, &frame, NULL), "graph add");
  slip_frame_deinitialize(&frame);
}

static void bench_open(bench_t *b, uint32_t flags) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  int64_t dims[1] = {BENCH_ELEMENTS};
  memset(b, 0, sizeof(*b));
  options.flags = flags;
  bench_check(slip_platform_find("cpu", &b->platform), "finding the platform");
  slip_bytes_t image = bench_image(b->platform);
  bench_check(slip_context_open(&options, &b->context), "open");
  bench_check(slip_context_prepare(b->context, (slip_const_bytes_t){image.data, image.size}, &b->id), "prepare");
  free(image.data);
  bench_check(slip_context_signature(b->context, b->id, &b->signature), "signature");
  for (int i = 0; i < 3; ++i) {
    bench_check(slip_tensor_initialize(&b->tensors[i], SLIP_DTYPE_F32, 1, dims, b->data[i], slip_device_cpu()), "tensor");
    for (int k = 0; k < BENCH_ELEMENTS; ++k) b->data[i][k] = (float)(i + k);
  }
  bench_record(b);
}

static void bench_close(bench_t *b) {
  slip_signature_release(b->signature);
  bench_check(slip_graph_destroy(b->graph), "graph destroy");
  bench_check(slip_context_close(b->context), "close");
  bench_check(slip_context_destroy(b->context), "destroy");
}

// The measured unit: what an adapter does per call.
static inline void bench_call(bench_t *b, slip_stream_t stream) {
  slip_frame_t frame;
  bench_frame(b, &frame);
  bench_check(slip_context_launch(b->context, b->id, &frame, stream, NULL), "launch");
  slip_frame_deinitialize(&frame);
}

static inline void bench_replay(bench_t *b, slip_stream_t stream) {
  bench_check(slip_graph_launch(b->graph, stream, NULL), "replay");
}

static void bench_verify(bench_t *b) {
  for (int k = 0; k < BENCH_ELEMENTS; ++k) {
    if (b->data[2][k] == b->data[0][k] + b->data[1][k]) continue;
    fprintf(stderr, "the callable computed %f, expected %f\n", (double)b->data[2][k], (double)(b->data[0][k] + b->data[1][k]));
    exit(1);
  }
}

// --- times -------------------------------------------------------------------------------------------------------------------------------

static double bench_time_inline(bench_t *b) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_BATCH; ++i) bench_call(b, SLIP_STREAM_INLINE);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}

static double bench_time_frame(bench_t *b) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_BATCH; ++i) {
      slip_frame_t frame;
      bench_frame(b, &frame);
      slip_frame_deinitialize(&frame);
    }
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  return bench_median(batches, BENCH_BATCHES);
}

// Per node, inline.
static double bench_time_replay(bench_t *b) {
  static double batches[BENCH_BATCHES];
  enum { REPLAYS = BENCH_BATCH / BENCH_NODES };
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < REPLAYS; ++i) bench_replay(b, SLIP_STREAM_INLINE);
    batches[batch] = (double)(bench_now_ns() - start) / (REPLAYS * BENCH_NODES);
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}

// Per replay: the launching thread's cost of an enqueue, and that of giving one node other arguments (frame not included).
static double bench_time_replay_enqueue(bench_t *b, slip_stream_t stream) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_ASYNC; ++i) bench_replay(b, stream);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
    bench_check(slip_context_drain(b->context), "drain");
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}
static double bench_time_bind(bench_t *b) {
  static double batches[BENCH_BATCHES];
  slip_frame_t frame;
  bench_frame(b, &frame);
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (uint32_t i = 0; i < BENCH_BATCH; ++i) bench_check(slip_graph_bind(b->graph, i % BENCH_NODES, &frame), "bind");
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  slip_frame_deinitialize(&frame);
  return bench_median(batches, BENCH_BATCHES);
}

// The launching thread's cost alone; the stream works the batch off between batches.
static double bench_time_enqueue(bench_t *b, slip_stream_t stream, double *out_total) {
  static double batches[BENCH_BATCHES], totals[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_ASYNC; ++i) bench_call(b, stream);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
    bench_check(slip_context_drain(b->context), "drain");
    totals[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
  }
  bench_verify(b);
  *out_total = bench_median(totals, BENCH_BATCHES);
  return bench_median(batches, BENCH_BATCHES);
}

// --- counts
// --------------------------------------------------------------------------------------------------------------------------------

static bench_counts_t bench_count(bench_t *b, slip_stream_t stream, int launches) {
  for (int i = 0; i < launches; ++i) bench_call(b, stream);  // whatever is done once has been done
  bench_check(slip_context_drain(b->context), "drain");
  bench_meter_start();
  for (int i = 0; i < launches; ++i) bench_call(b, stream);
  return bench_meter_stop();
}

static bench_counts_t bench_count_replays(bench_t *b, slip_stream_t stream, int replays) {
  for (int i = 0; i < replays; ++i) bench_replay(b, stream);
  bench_check(slip_context_drain(b->context), "drain");
  bench_meter_start();
  for (int i = 0; i < replays; ++i) bench_replay(b, stream);
  return bench_meter_stop();
}

static int bench_traced_replays(void *user) {
  (void)user;
  bench_t b;
  bench_open(&b, 0);
  for (int i = 0; i < BENCH_REPLAYS; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_begin();
  for (int i = 0; i < BENCH_REPLAYS; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_end();
  return 0;
}

static int bench_traced(void *user) {
  (void)user;
  bench_t b;
  bench_open(&b, 0);
  for (int i = 0; i < BENCH_COUNTED; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_begin();
  for (int i = 0; i < BENCH_COUNTED; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_end();
  return 0;
}

static int bench_loop(int64_t count) {
  bench_t b;
  bench_open(&b, SLIP_CONTEXT_SINGLE_THREAD);
  for (int64_t i = 0; i < count; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_verify(&b);
  bench_close(&b);
  return 0;
}

// What must be 0, all of it.
typedef struct bench_budget_t {
  bench_counts_t launches, replays;
  int64_t launch_calls, replay_calls;  // system calls; -1: tracing is not possible here
} bench_budget_t;

// Before this process claims kernel mode: the children claim it for themselves.
static void bench_trace(bench_budget_t *budget) {
  budget->launch_calls = bench_meter_system_calls(bench_traced, NULL);
  budget->replay_calls = bench_meter_system_calls(bench_traced_replays, NULL);
}
static void bench_count_inline(bench_t *b, bench_budget_t *budget) {
  budget->launches = bench_count(b, SLIP_STREAM_INLINE, BENCH_COUNTED);
  budget->replays = bench_count_replays(b, SLIP_STREAM_INLINE, BENCH_REPLAYS);
}
static void bench_print_budget(const bench_budget_t *budget) {
  printf("  of %d inline launches:            %" PRIu64 " allocations, %" PRIu64 " locks, %" PRId64 " system calls%s\n", BENCH_COUNTED,
         budget->launches.allocations, budget->launches.locks, budget->launch_calls,
         budget->launch_calls < 0 ? " (tracing is not possible here)" : "");
  printf("  of %d inline replays of %d nodes:   %" PRIu64 " allocations, %" PRIu64 " locks, %" PRId64 " system calls\n", BENCH_REPLAYS,
         BENCH_NODES, budget->replays.allocations, budget->replays.locks, budget->replay_calls);
}

static int bench_budget(void) {
  bench_t b;
  bench_budget_t budget;
  bench_trace(&budget);
  bench_open(&b, 0);
  bench_count_inline(&b, &budget);
  bench_close(&b);
  bench_print_budget(&budget);
  uint64_t allocations = budget.launches.allocations + budget.replays.allocations, locks = budget.launches.locks + budget.replays.locks;
  bool kept = allocations == 0 && locks == 0 && budget.launch_calls <= 0 && budget.replay_calls <= 0;
  printf("RESULT allocs=%" PRIu64 " locks=%" PRIu64 " syscalls=%" PRId64 " replay_syscalls=%" PRId64 "\n", allocations, locks,
         budget.launch_calls, budget.replay_calls);
  return kept ? 0 : 1;
}

static int bench_all(void) {
  bench_t b;
  bench_budget_t budget;
  slip_stream_t stream = NULL;
  double async_total_ns = 0;
  bench_trace(&budget);
  bench_open(&b, SLIP_CONTEXT_SINGLE_THREAD);
  double single_ns = bench_time_inline(&b), single_node_ns = bench_time_replay(&b);
  bench_close(&b);
  bench_open(&b, 0);
  bench_check(slip_stream_create(b.platform, 0, &stream), "stream");
  double launch_ns = bench_time_inline(&b), node_ns = bench_time_replay(&b), frame_ns = bench_time_frame(&b);
  double enqueue_ns = bench_time_enqueue(&b, stream, &async_total_ns), replay_enqueue_ns = bench_time_replay_enqueue(&b, stream);
  double bind_ns = bench_time_bind(&b);
  bench_count_inline(&b, &budget);
  bench_counts_t async = bench_count(&b, stream, BENCH_ASYNC);
  bench_check(slip_context_drain(b.context), "drain");
  bench_close(&b);
  bench_check(slip_stream_destroy(b.platform, stream), "stream");
  printf("three tensors of %d f32, one task, frame with full validation; medians of %d batches\n", BENCH_ELEMENTS, BENCH_BATCHES);
  printf("  inline launch, all cores          %8.1f ns, of which the frame %.1f ns\n", launch_ns, frame_ns);
  printf("  inline launch, single thread      %8.1f ns\n", single_ns);
  printf("  enqueue on an asynchronous stream %8.1f ns; until it has run and retired %.1f ns\n", enqueue_ns, async_total_ns);
  printf("  inline replay of %d nodes         %8.1f ns per node, all cores; single thread %.1f ns\n", BENCH_NODES, node_ns, single_node_ns);
  printf("  enqueue of a replay of %d nodes   %8.1f ns; binding a node %.1f ns\n", BENCH_NODES, replay_enqueue_ns, bind_ns);
  bench_print_budget(&budget);
  printf("  of %d enqueues:                     %" PRIu64 " allocations, %" PRIu64 " locks\n", BENCH_ASYNC, async.allocations, async.locks);
  printf("RESULT launch_ns=%.1f allocs=%" PRIu64 " locks=%" PRIu64 " syscalls=%" PRId64
         " frame_ns=%.1f launch_single_thread_ns=%.1f enqueue_ns=%.1f async_total_ns=%.1f async_allocs=%" PRIu64 " async_locks=%" PRIu64
         " replay_node_ns=%.1f replay_node_single_thread_ns=%.1f replay_enqueue_ns=%.1f bind_ns=%.1f replay_allocs=%" PRIu64
         " replay_locks=%" PRIu64 " replay_syscalls=%" PRId64 "\n",
         launch_ns, budget.launches.allocations, budget.launches.locks, budget.launch_calls, frame_ns, single_ns, enqueue_ns,
         async_total_ns, async.allocations, async.locks, node_ns, single_node_ns, replay_enqueue_ns, bind_ns, budget.replays.allocations,
         budget.replays.locks, budget.replay_calls);
  return 0;
}

static int bench_replay_loop(int64_t count) {
  bench_t b;
  bench_open(&b, SLIP_CONTEXT_SINGLE_THREAD);
  for (int64_t i = 0; i < count; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_verify(&b);
  bench_close(&b);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--loop") == 0) return bench_loop(strtoll(argv[2], NULL, 10));
  if (argc == 3 && strcmp(argv[1], "--replay-loop") == 0) return bench_replay_loop(strtoll(argv[2], NULL, 10));
  if (argc == 2 && strcmp(argv[1], "--budget") == 0) return bench_budget();
  if (argc == 1) return bench_all();
  fprintf(stderr, "usage: bench_launch [--budget | --loop N | --replay-loop N]\n");
  return 2;
}
