// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <unistd.h>

#include "device_fixture.h"
#include "slip_test_allocator.h"
#include "soak.h"

static uint32_t soak_entries(const char *path) {
  DIR *directory = opendir(path);
  uint32_t count = 0;
  SLIP_CHECK(directory != NULL);
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}

typedef struct soak_t {
  slip_test_allocator_t memory;
  slip_context_t *context;
  slip_platform_t *platform;
  slip_stream_t stream;
  int32_t add, control;
  float x[8], y[8], z[8];
  int64_t state[4];
  uint64_t released;
} soak_t;

static void soak_open(soak_t *s) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.allocator = slip_test_allocator(&s->memory);
  options.max_pending = 64;
  SLIP_CHECK_OK(slip_context_open(&options, &s->context));
  s->add = slip_fixture_prepare(s->context, slip_fixture_add());
  s->control = slip_fixture_prepare(s->context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &s->platform));
  SLIP_CHECK_OK(slip_stream_create(s->platform, 0, &s->stream));
  s->state[1] = 1;
}

static void soak_close(soak_t *s) {
  SLIP_CHECK_OK(slip_context_close(s->context));
  SLIP_CHECK_OK(slip_context_destroy(s->context));
  SLIP_CHECK_OK(slip_stream_destroy(s->platform, s->stream));
}

static void soak_released(void *user) {
  ++*(uint64_t *)user;
}

// Every seventh on the stream, every thousandth a fault; owners and tickets on some.
static void soak_launch(soak_t *s, uint64_t number) {
  bool fault = number % 1000 == 999;
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  if (fault) {
    slip_fixture_frame_control(&frame, s->context, s->control, s->state, (int64_t)number, 1);
  } else {
    slip_fixture_frame_add(&frame, s->context, s->add, s->x, s->y, s->z, 8);
  }
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = fault ? s->control : s->add,
                                 .context = s->context,
                                 .frame = &frame,
                                 .stream = number % 7 == 0 ? s->stream : SLIP_STREAM_INLINE,
                                 .release = soak_released,
                                 .user = &s->released};
  slip_status_t status = slip_launch(&record, number % 35 == 0 ? &ticket : NULL);
  slip_frame_deinitialize(&frame);
  if (fault && number % 7 != 0) {
    SLIP_CHECK_CODE(status, SLIP_CODE_GRAPH_USER_FAIL);
  } else {
    SLIP_CHECK_OK(status);
  }
  if (ticket) {
    slip_status_t result = slip_ticket_wait(ticket, -1);
    SLIP_CHECK_EQ(slip_status_code(result), fault ? SLIP_CODE_GRAPH_USER_FAIL : SLIP_CODE_OK);
    slip_status_free(result);
  }
  slip_ticket_release(ticket);
}

SLIP_TEST_TIMEOUT(soak_launches_keep_memory_flat, 1500) {
  static soak_t s = {.memory = SLIP_TEST_ALLOCATOR_INIT};
  uint64_t launches = soak_size("SLIP_SOAK_LAUNCHES", 10000000), warm = launches / 10;
  for (int i = 0; i < 8; ++i) {
    s.x[i] = (float)i;
    s.y[i] = (float)(10 * i);
  }
  soak_open(&s);
  for (uint64_t i = 0; i < warm; ++i) soak_launch(&s, i);
  SLIP_CHECK_OK(slip_context_drain(s.context));
  uint64_t bytes = s.memory.live_bytes, resident = soak_resident_kib();
  for (uint64_t i = 0; i < launches; ++i) soak_launch(&s, i);
  SLIP_CHECK_OK(slip_context_drain(s.context));
  uint64_t after = soak_resident_kib(), growth = after > resident ? after - resident : 0;
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(s.context, &stats));
  SLIP_CHECK_EQ(stats.launches, launches + warm);
  SLIP_CHECK_EQ(stats.retired, launches + warm);
  SLIP_CHECK_EQ(s.released, launches + warm);
  SLIP_CHECK_EQ(s.memory.live_bytes, bytes);
  for (int i = 0; i < 8; ++i) SLIP_CHECK(s.z[i] == s.x[i] + s.y[i]);
  soak_close(&s);
  slip_test_allocator_check_empty(&s.memory);
  printf("RESULT launches=%llu rss_growth_kib=%llu\n", (unsigned long long)launches, (unsigned long long)growth);
  fflush(stdout);
  SLIP_CHECK(growth < SOAK_FLAT_KIB);
}

static void soak_cycle(soak_t *s) {
  soak_open(s);
  for (uint64_t i = 0; i < 20; ++i) soak_launch(s, i);
  SLIP_CHECK_OK(slip_context_release(s->context, s->add));
  soak_close(s);
}

SLIP_TEST_TIMEOUT(soak_cycles_keep_memory_flat, 1500) {
  static soak_t s = {.memory = SLIP_TEST_ALLOCATOR_INIT};
  uint64_t cycles = soak_size("SLIP_SOAK_CYCLES", 1000), warm = cycles / 10 + 5;
  for (uint64_t i = 0; i < warm; ++i) soak_cycle(&s);
  uint64_t resident = soak_resident_kib();
  uint32_t descriptors = soak_entries("/proc/self/fd");
  for (uint64_t i = 0; i < cycles; ++i) soak_cycle(&s);
  uint64_t after = soak_resident_kib(), growth = after > resident ? after - resident : 0;
  slip_test_allocator_check_empty(&s.memory);
  SLIP_CHECK_EQ(soak_entries("/proc/self/fd"), descriptors);
  SLIP_CHECK_EQ(s.released, 20 * (cycles + warm));
  printf("RESULT launches=%llu cycles=%llu rss_growth_kib=%llu\n", (unsigned long long)(20 * cycles), (unsigned long long)cycles,
         (unsigned long long)growth);
  fflush(stdout);
  SLIP_CHECK(growth < SOAK_FLAT_KIB);
}

// --- captures and replays on the simulator -----------------------------------------------------------------------------------------------

typedef struct soak_sim_t {
  slip_test_allocator_t memory;
  slip_platform_t *platform;
  slip_context_t *context;
  slip_stream_t stream;
  int32_t add;
  float *x, *y, *z;  // on the device
  uint64_t released;
  slip_frame_t frame;
} soak_sim_t;

static void soak_sim_open(soak_sim_t *s) {
  slip_sim_options_t sim = SLIP_SIM_OPTIONS_INIT;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  sim.delay_ns = UINT64_MAX;
  SLIP_CHECK_OK(slip_platform_find("sim", &s->platform));
  SLIP_CHECK_OK(slip_sim_reset(&sim));
  options.platform = "sim";
  options.allocator = slip_test_allocator(&s->memory);
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.max_pending = 64;
  options.max_captured = 64;
  SLIP_CHECK_OK(slip_context_open(&options, &s->context));
  s->add = slip_fixture_prepare(s->context, slip_fixture_add());
  SLIP_CHECK_OK(slip_stream_create(s->platform, 0, &s->stream));
  s->x = slip_fixture_ramp(s->platform, 0, 8, 1, 0);
  s->y = slip_fixture_ramp(s->platform, 0, 8, 2, 0);
  s->z = slip_fixture_ramp(s->platform, 0, 8, 0, 0);
  slip_fixture_frame_add(&s->frame, s->context, s->add, s->x, s->y, s->z, 8);
}

static void soak_sim_launch(soak_sim_t *s) {
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = s->add,
                                 .context = s->context,
                                 .frame = &s->frame,
                                 .stream = s->stream,
                                 .release = soak_released,
                                 .user = &s->released};
  SLIP_CHECK_OK(slip_launch(&record, NULL));
}

// Two launches captured, replayed three times with an eager one in between.
static void soak_sim_cycle(soak_sim_t *s, uint64_t number) {
  slip_graph_exec_t graph = NULL;
  // Graphs live until the device is through with them, and the host is faster.
  if (number % 8 == 0) SLIP_CHECK_OK(slip_stream_synchronize(s->platform, s->stream));
  SLIP_CHECK_OK(slip_stream_capture_begin(s->platform, s->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  soak_sim_launch(s);
  soak_sim_launch(s);
  SLIP_CHECK_OK(slip_stream_capture_end(s->platform, s->stream, &graph));
  SLIP_CHECK_OK(slip_graph_exec_launch(s->platform, graph, s->stream));
  soak_sim_launch(s);
  SLIP_CHECK_OK(slip_graph_exec_launch(s->platform, graph, s->stream));
  SLIP_CHECK_OK(slip_graph_exec_launch(s->platform, graph, s->stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(s->platform, graph));
}

static void soak_sim_close(soak_sim_t *s) {
  slip_frame_deinitialize(&s->frame);
  SLIP_CHECK_OK(slip_stream_destroy(s->platform, s->stream));
  SLIP_CHECK_OK(slip_context_close(s->context));
  SLIP_CHECK_OK(slip_context_destroy(s->context));
  SLIP_CHECK_OK(slip_memory_free(s->platform, 0, s->x));
  SLIP_CHECK_OK(slip_memory_free(s->platform, 0, s->y));
  SLIP_CHECK_OK(slip_memory_free(s->platform, 0, s->z));
  slip_fixture_sim_check_clean("soak");
}

SLIP_TEST_TIMEOUT(soak_captures_keep_memory_flat, 1500) {
  static soak_sim_t s = {.memory = SLIP_TEST_ALLOCATOR_INIT};
  uint64_t captures = soak_size("SLIP_SOAK_CAPTURES", 10000), warm = captures / 10 + 50;
  float z[8] = {0};
  soak_sim_open(&s);
  for (uint64_t i = 0; i < warm; ++i) soak_sim_cycle(&s, i);
  SLIP_CHECK_OK(slip_stream_synchronize(s.platform, s.stream));
  SLIP_CHECK_OK(slip_context_drain(s.context));
  uint64_t bytes = s.memory.live_bytes, resident = soak_resident_kib();
  for (uint64_t i = 0; i < captures; ++i) soak_sim_cycle(&s, i);
  SLIP_CHECK_OK(slip_stream_synchronize(s.platform, s.stream));
  SLIP_CHECK_OK(slip_context_drain(s.context));
  uint64_t after = soak_resident_kib(), growth = after > resident ? after - resident : 0;
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(s.context, &stats));
  SLIP_CHECK_EQ(stats.captured, 0);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(s.memory.live_bytes, bytes);
  SLIP_CHECK_EQ(s.released, 3 * (captures + warm));
  SLIP_CHECK_OK(slip_memory_copy(s.platform, 0, z, s.z, sizeof(z), SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < 8; ++i) SLIP_CHECK(z[i] == 3);
  soak_sim_close(&s);
  slip_test_allocator_check_empty(&s.memory);
  printf("RESULT launches=%llu captures=%llu replays=%llu rss_growth_kib=%llu\n", (unsigned long long)(3 * captures),
         (unsigned long long)captures, (unsigned long long)(3 * captures), (unsigned long long)growth);
  fflush(stdout);
  SLIP_CHECK(growth < SOAK_FLAT_KIB);
}
