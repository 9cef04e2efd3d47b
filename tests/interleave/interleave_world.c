// SPDX-License-Identifier: Apache-2.0
#include "interleave.h"

static void interleave_thread_open(interleave_world_t *world, uint32_t index) {
  interleave_thread_t *thread = &world->threads[index];
  thread->world = world;
  thread->index = index;
  thread->random = world->seed * INTERLEAVE_THREADS + index;
  thread->id = -1;
  thread->close_at = -1;
  SLIP_CHECK_OK(slip_event_create(world->platform, 0, &thread->last));
  for (uint32_t b = 0; b < INTERLEAVE_BUFFERS; ++b) {
    for (uint32_t i = 0; i < INTERLEAVE_ELEMENTS; ++i) thread->oracle[b][i] = (float)(1 + index + 10 * b + 100 * i);
    thread->device[b] = slip_fixture_vector(world->platform, 0, thread->oracle[b], INTERLEAVE_ELEMENTS);
  }
}

void interleave_world_open(interleave_world_t *world, uint64_t seed) {
  slip_sim_options_t sim = SLIP_SIM_OPTIONS_INIT;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_fixture_t add = slip_fixture_add();
  memset(world, 0, sizeof(*world));
  world->seed = seed;
  sim.seed = seed + 1;
  sim.flavour = seed % 2 ? SLIP_SIM_FLAVOUR_ASCEND : SLIP_SIM_FLAVOUR_CUDA;
  sim.delay_ns = 4000;
  SLIP_CHECK_OK(slip_platform_find("sim", &world->platform));
  SLIP_CHECK_OK(slip_sim_reset(&sim));
  options.platform = "sim";
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.max_pending = 8;
  options.max_captured = 64;
  options.max_captures = 2 + (uint32_t)(seed / 4 % 3);  // with fewer than the threads some launches are BUSY
  SLIP_CHECK_OK(slip_context_open(&options, &world->context));
  world->image = slip_fixture_pack(&add);
  SLIP_CHECK_OK(slip_context_prepare(world->context, slip_fixture_bytes(world->image), &world->shared_id));
  for (uint32_t i = 0; i < INTERLEAVE_STREAMS; ++i) {
    pthread_mutex_init(&world->streams[i].lock, NULL);
    SLIP_CHECK_OK(slip_stream_create(world->platform, 0, &world->streams[i].handle));
  }
  for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i) interleave_thread_open(world, i);
  // In every second pair of seeds some thread closes the context while the others use it.
  uint32_t closer = (uint32_t)(seed / 8 % INTERLEAVE_THREADS);
  if (seed / 2 % 2 != 0) world->threads[closer].close_at = (int32_t)interleave_pick(&world->threads[closer], INTERLEAVE_STEPS);
}

static uint32_t interleave_thread_close(interleave_thread_t *thread) {
  interleave_world_t *world = thread->world;
  uint32_t different = 0;
  slip_ticket_release(thread->ticket);
  for (uint32_t b = 0; b < INTERLEAVE_BUFFERS; ++b) {
    float result[INTERLEAVE_ELEMENTS];
    SLIP_CHECK_OK(slip_memory_copy(world->platform, 0, result, thread->device[b], sizeof(result), SLIP_COPY_DEVICE_TO_HOST));
    different += memcmp(result, thread->oracle[b], sizeof(result)) != 0;
    SLIP_CHECK_OK(slip_memory_free(world->platform, 0, thread->device[b]));
  }
  SLIP_CHECK_OK(slip_event_destroy(world->platform, thread->last));
  return different;
}

uint32_t interleave_world_close(interleave_world_t *world) {
  char seed[32];
  uint32_t different = 0;
  for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i) {
    for (uint32_t g = 0; g < INTERLEAVE_GRAPHS; ++g)
      SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, world->threads[i].graphs[g].exec));
  }
  for (uint32_t i = 0; i < INTERLEAVE_STREAMS; ++i) {
    SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->streams[i].handle));
    SLIP_CHECK_OK(slip_stream_destroy(world->platform, world->streams[i].handle));
    pthread_mutex_destroy(&world->streams[i].lock);
  }
  SLIP_CHECK_OK(slip_context_close(world->context));
  for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i) different += interleave_thread_close(&world->threads[i]);
  SLIP_CHECK_OK(slip_context_destroy(world->context));
  slip_fixture_free(world->image);
  (void)snprintf(seed, sizeof(seed), "seed %llu", (unsigned long long)world->seed);
  slip_fixture_sim_check_clean(seed);
  SLIP_CHECK_EQ(atomic_load(&world->released), atomic_load(&world->owners));
  return different;
}
