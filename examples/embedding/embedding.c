// SPDX-License-Identifier: Apache-2.0
// A framework in small that embeds Slipstream: a caching allocator, two streams, a queue thread that launches records, a captured step of
// three launches with replays, and an end in the right order. It runs on the simulator, checks its results against sums on the host, and
// ends with a RESULT line.
#include <pthread.h>
#include <slipstream/sim.h>
#include <slipstream/slipstream.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1000, LAUNCHES = 400, REPLAYS = 30, BLOCKS = 64, QUEUE = 16, STREAMS = 2 };

static void must(slip_status_t status) {
  char text[2048];
  if (slip_status_is_ok(status)) return;
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "embedding: %s\n", text);
  slip_status_free(status);
  _Exit(1);  // no exit handlers: other threads run on
}

static void check(bool right, const char *what) {
  if (right) return;
  fprintf(stderr, "embedding: %s\n", what);
  _Exit(1);
}

// --- The framework's device ------------------------------------------------------------------------------------------------------------

static slip_platform_t *platform;
static slip_stream_t streams[STREAMS];

// --- Its caching allocator. A block is free when its tensor was dropped and no launch uses it any more -----------------------------------

typedef struct block_t {
  void *memory;
  uint32_t holders;  // the tensor, and launches
} block_t;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static block_t cache[BLOCKS];
static uint32_t cache_made, cache_reused;

static void tensor_retain(block_t *block) {
  pthread_mutex_lock(&cache_lock);
  ++block->holders;
  pthread_mutex_unlock(&cache_lock);
}

static void tensor_drop(block_t *block) {
  pthread_mutex_lock(&cache_lock);
  --block->holders;  // at 0 anybody may have it, on any stream: nothing uses it
  pthread_mutex_unlock(&cache_lock);
}

static block_t *tensor_new(slip_context_t *context, float value) {
  float host[LENGTH];
  block_t *found = NULL;
  for (;;) {
    pthread_mutex_lock(&cache_lock);
    for (int i = 0; i < BLOCKS; ++i) {
      if (cache[i].holders == 0 && (!found || (!found->memory && cache[i].memory))) found = &cache[i];
    }
    if (found) found->holders = 1;
    pthread_mutex_unlock(&cache_lock);
    if (found) break;
    must(slip_context_drain(context));  // all blocks are in use: launches that finish release them
  }
  cache_reused += found->memory != NULL;
  if (!found->memory) {
    must(slip_memory_allocate(platform, 0, sizeof(host), &found->memory));
    ++cache_made;
  }
  for (int i = 0; i < LENGTH; ++i) host[i] = value + (float)(i % 3);
  must(slip_memory_copy(platform, 0, found->memory, host, sizeof(host), SLIP_COPY_HOST_TO_DEVICE));
  return found;
}

// --- The operator y += a * x -------------------------------------------------------------------------------------------------------------

typedef struct operator_t {
  slip_context_t *context;
  slip_signature_t *signature;
  int32_t id;
} operator_t;

static void operator_frame(const operator_t *op, slip_frame_t *frame, block_t *x, block_t *y, float a) {
  const int64_t n = LENGTH;
  const slip_device_t device = slip_context_device(op->context);
  slip_tensor_t tx, ty;
  must(slip_tensor_initialize(&tx, SLIP_DTYPE_F32, 1, &n, x->memory, device));
  must(slip_tensor_initialize(&ty, SLIP_DTYPE_F32, 1, &n, y->memory, device));
  const slip_arg_t args[3] = {slip_arg_tensor(&tx, x), slip_arg_tensor(&ty, y), slip_arg_scalar(slip_scalar_f32(a))};
  must(slip_frame_initialize(frame, op->signature, "axpy", device, args, 3, SLIP_FRAME_NONE));
}

// --- The queue: producers fill in calls, one thread launches them
// --------------------------------------------------------------------------

typedef struct call_t {
  slip_frame_t frame;
  slip_launch_record_t record;
  block_t *x, *y;
  atomic_int holders;  // the queue until slip_launch() has returned, the launch until it is released
} call_t;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_changed = PTHREAD_COND_INITIALIZER;
static call_t *queue[QUEUE];
static uint32_t queue_head, queue_tail;  // |queue_head| moves when the launch was made
static bool queue_ends;

static void call_drop(call_t *call) {
  if (atomic_fetch_sub(&call->holders, 1) != 1) return;
  slip_frame_deinitialize(&call->frame);
  free(call);
}

// The device is done with the tensors.
static void call_release(void *user) {
  call_t *call = user;
  tensor_drop(call->x);
  tensor_drop(call->y);
  call_drop(call);
}

static void *queue_run(void *user) {
  (void)user;
  pthread_mutex_lock(&queue_lock);
  for (;;) {
    while (queue_head == queue_tail && !queue_ends) pthread_cond_wait(&queue_changed, &queue_lock);
    if (queue_head == queue_tail) break;
    call_t *call = queue[queue_head % QUEUE];
    pthread_mutex_unlock(&queue_lock);
    must(slip_launch(&call->record, NULL));
    call_drop(call);
    pthread_mutex_lock(&queue_lock);
    ++queue_head;
    pthread_cond_broadcast(&queue_changed);
  }
  pthread_mutex_unlock(&queue_lock);
  return NULL;
}

static void queue_push(const operator_t *op, block_t *x, block_t *y, float a, slip_stream_t stream) {
  call_t *call = calloc(1, sizeof(*call));
  check(call != NULL, "no memory for a call");
  tensor_retain(x);
  tensor_retain(y);
  *call = (call_t){.x = x, .y = y};
  atomic_init(&call->holders, 2);
  operator_frame(op, &call->frame, x, y, a);
  call->record = (slip_launch_record_t){.struct_size = (uint32_t)sizeof(call->record),
                                        .id = op->id,
                                        .context = op->context,
                                        .frame = &call->frame,
                                        .stream = stream,
                                        .release = call_release,
                                        .user = call};
  pthread_mutex_lock(&queue_lock);
  while (queue_tail - queue_head == QUEUE) pthread_cond_wait(&queue_changed, &queue_lock);
  queue[queue_tail++ % QUEUE] = call;
  pthread_cond_broadcast(&queue_changed);
  pthread_mutex_unlock(&queue_lock);
}

// Slipstream's synchronize hook: what was promised is launched when this returns.
static slip_status_t queue_flush(void *user) {
  (void)user;
  pthread_mutex_lock(&queue_lock);
  while (queue_head != queue_tail) pthread_cond_wait(&queue_changed, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
  return slip_ok_status();
}

// --- Work --------------------------------------------------------------------------------------------------------------------------------

static void load(operator_t *op, const char *path) {
  slip_artifact_t *artifact = NULL;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = "sim";
  options.max_in_flight = STREAMS;
  options.synchronize_hook = queue_flush;
  must(slip_artifact_open(path, NULL, slip_allocator_system(), &artifact));
  must(slip_context_open(&options, &op->context));
  must(slip_context_prepare_artifact(op->context, artifact, &op->id));
  must(slip_context_signature(op->context, op->id, &op->signature));
  slip_artifact_release(artifact);
}

// Tensors come and go while the device works: each is dropped as soon as its launch is queued.
static void run_eager(const operator_t *op, block_t *const sums[STREAMS], int begin, int end) {
  for (int i = begin; i < end; ++i) {
    block_t *x = tensor_new(op->context, (float)(i % 7));
    queue_push(op, x, sums[i % STREAMS], 1, streams[i % STREAMS]);
    tensor_drop(x);
  }
}

// y += x, z += y, w += z as one graph. This thread captures; the queue's thread launches on meanwhile, on the other stream.
static slip_graph_exec_t capture_step(const operator_t *op, block_t *const t[4], block_t *other) {
  slip_graph_exec_t step = NULL;
  must(queue_flush(NULL));  // what was promised to the stream would be captured too
  must(slip_stream_capture_begin(platform, streams[0], SLIP_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < 3; ++i) {
    slip_frame_t frame;
    operator_frame(op, &frame, t[i], t[i + 1], 1);
    must(slip_context_launch(op->context, op->id, &frame, streams[0], NULL));
    slip_frame_deinitialize(&frame);
    queue_push(op, t[0], other, 1, streams[1]);
  }
  must(slip_stream_capture_end(platform, streams[0], &step));
  return step;
}

static void expect(const block_t *block, const float *right, const char *what) {
  static float host[LENGTH];
  must(slip_memory_copy(platform, 0, host, block->memory, sizeof(host), SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < LENGTH; ++i) check(host[i] == right[i % 3], what);
}

// The same on the host. The values repeat every three elements.
static void expect_all(block_t *const sums[STREAMS], block_t *const t[4], const block_t *other) {
  float sum[STREAMS][3], step[4][3], side[3];
  for (int k = 0; k < 3; ++k) {
    for (int s = 0; s < STREAMS; ++s) sum[s][k] = (float)k;
    for (int i = 0; i < LAUNCHES; ++i) sum[i % STREAMS][k] += (float)(i % 7 + k);
    for (int i = 0; i < 4; ++i) step[i][k] = (float)(k + (i == 0));
    side[k] = (float)k + 3 * step[0][k];
    for (int r = 0; r < REPLAYS; ++r) {
      for (int i = 0; i < 3; ++i) step[i + 1][k] += step[i][k];
    }
  }
  for (int s = 0; s < STREAMS; ++s) expect(sums[s], sum[s], "a sum of eager launches is wrong");
  for (int i = 0; i < 4; ++i) expect(t[i], step[i], "a tensor of the captured step is wrong");
  expect(other, side, "the launches beside the capture went wrong");
}

int main(int argc, char **argv) {
  operator_t op = {0};
  pthread_t thread;
  slip_context_stats_t stats = {.struct_size = (uint32_t)sizeof(stats)};
  block_t *sums[STREAMS], *t[4], *other;
  check(argc == 2, "usage: embedding axpy.slipc");
  check(pthread_create(&thread, NULL, queue_run, NULL) == 0, "no thread");

  // The framework comes up, then the model is loaded.
  must(slip_platform_find("sim", &platform));
  for (int s = 0; s < STREAMS; ++s) must(slip_stream_create(platform, 0, &streams[s]));
  load(&op, argv[1]);
  for (int s = 0; s < STREAMS; ++s) sums[s] = tensor_new(op.context, 0);
  for (int i = 0; i < 4; ++i) t[i] = tensor_new(op.context, i == 0);
  other = tensor_new(op.context, 0);

  run_eager(&op, sums, 0, LAUNCHES / 2);
  slip_graph_exec_t step = capture_step(&op, t, other);
  for (int r = 0; r < REPLAYS; ++r) must(slip_graph_exec_launch(platform, step, streams[r % STREAMS]));
  run_eager(&op, sums, LAUNCHES / 2, LAUNCHES);

  // The end, in order: promised launches, graphs, context, then what the framework owns.
  must(slip_context_drain(op.context));
  for (int s = 0; s < STREAMS; ++s) must(slip_stream_synchronize(platform, streams[s]));
  expect_all(sums, t, other);
  must(slip_graph_exec_destroy(platform, step));
  must(slip_context_stats(op.context, &stats));
  slip_signature_release(op.signature);
  must(slip_context_close(op.context));
  must(slip_context_destroy(op.context));
  pthread_mutex_lock(&queue_lock);
  queue_ends = true;
  pthread_cond_broadcast(&queue_changed);
  pthread_mutex_unlock(&queue_lock);
  pthread_join(thread, NULL);
  for (uint32_t i = 0; i < BLOCKS; ++i) must(slip_memory_free(platform, 0, cache[i].memory));
  for (int s = 0; s < STREAMS; ++s) must(slip_stream_destroy(platform, streams[s]));
  const unsigned long long violations = slip_sim_violation_count(), lifecycle = slip_sim_lifecycle_calls();
  must(slip_sim_reset(NULL));  // BUSY if anything of the device were left
  printf(
      "RESULT embedding_launches=%llu embedding_replays=%d embedding_blocks=%u embedding_reused=%u embedding_violations=%llu "
      "embedding_lifecycle_calls=%llu\n",
      (unsigned long long)stats.launches, REPLAYS, cache_made, cache_reused, violations, lifecycle);
  return violations != 0 || lifecycle != 0;
}
