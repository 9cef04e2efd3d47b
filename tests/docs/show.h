// SPDX-License-Identifier: Apache-2.0
// What the examples of docs/status-codes share, so that each shows its mistake and little else.
#ifndef SLIPSTREAM_TESTS_DOCS_SHOW_H_
#define SLIPSTREAM_TESTS_DOCS_SHOW_H_

#include <slipstream/sim.h>
#include <slipstream/slipstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Prints a failure as slip_status_format() writes it, frees it, and returns its code.
static inline slip_code_t show(slip_status_t status) {
  static char text[4096];
  slip_code_t code = slip_status_code(status);
  slip_status_format(status, text, sizeof(text));
  printf("%s\n", text);
  slip_status_free(status);
  return code;
}

// What must not fail here.
static inline void must(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  show(status);
  exit(1);
}

// A context with a prepared callable, y += a * x or one of tests/docs/faults.c, and a frame for it.
typedef struct demo_t {
  slip_platform_t *platform;
  slip_artifact_t *artifact;
  slip_context_t *context;
  slip_stream_t stream;
  void *x, *y;  // four f32 each
  slip_frame_t frame;
  int32_t id;
} demo_t;

static inline void demo_tensor(demo_t *demo, const slip_device_t *device, void **memory, slip_tensor_t *out) {
  static const float values[4] = {1, 2, 3, 4};
  const int64_t n = 4;
  must(slip_memory_allocate(demo->platform, 0, sizeof(values), memory));
  must(slip_memory_copy(demo->platform, 0, *memory, values, sizeof(values), SLIP_COPY_HOST_TO_DEVICE));
  must(slip_tensor_initialize(out, SLIP_DTYPE_F32, 1, &n, *memory, *device));
}

// |options| NULL: defaults. One thread, if they do not say otherwise.
static inline void demo_open(demo_t *demo, const char *platform, const char *artifact, slip_scalar_t scalar,
                             const slip_context_options_t *options) {
  slip_context_options_t mine = SLIP_CONTEXT_OPTIONS_INIT;
  slip_tensor_t x, y;
  if (options) mine = *options;
  mine.platform = platform;
  if (mine.scheduler_threads == 0) mine.flags |= SLIP_CONTEXT_SINGLE_THREAD;
  memset(demo, 0, sizeof(*demo));
  must(slip_platform_find(platform, &demo->platform));
  must(slip_stream_create(demo->platform, 0, &demo->stream));
  must(slip_artifact_open(artifact, NULL, slip_allocator_system(), &demo->artifact));
  must(slip_context_open(&mine, &demo->context));
  must(slip_context_prepare_artifact(demo->context, demo->artifact, &demo->id));
  const slip_device_t device = slip_context_device(demo->context);
  demo_tensor(demo, &device, &demo->x, &x);
  demo_tensor(demo, &device, &demo->y, &y);
  const slip_arg_t args[3] = {slip_arg_tensor(&x, NULL), slip_arg_tensor(&y, NULL), slip_arg_scalar(scalar)};
  must(slip_frame_initialize(&demo->frame, slip_artifact_params(demo->artifact), NULL, device, args, 3, SLIP_FRAME_NONE));
}

static inline void demo_axpy(demo_t *demo, const char *platform, const slip_context_options_t *options) {
  demo_open(demo, platform, "axpy.slipc", slip_scalar_f32(2.0f), options);
}

static inline slip_status_t demo_launch(demo_t *demo, slip_ticket_t **out_ticket) {
  return slip_context_launch(demo->context, demo->id, &demo->frame, demo->stream, out_ticket);
}

static inline void demo_close(demo_t *demo) {
  must(slip_context_close(demo->context));
  must(slip_context_destroy(demo->context));
  slip_frame_deinitialize(&demo->frame);
  slip_artifact_release(demo->artifact);
  must(slip_memory_free(demo->platform, 0, demo->x));
  must(slip_memory_free(demo->platform, 0, demo->y));
  must(slip_stream_destroy(demo->platform, demo->stream));
}

// Launches mistake |which| of tests/docs/faults.c on the inline stream, shows its status and returns the code.
static inline slip_code_t show_fault(int32_t which, const slip_context_options_t *options) {
  demo_t demo;
  demo_open(&demo, "cpu", "faults.slipc", slip_scalar_i32(which), options);
  slip_code_t code = show(slip_context_launch(demo.context, demo.id, &demo.frame, SLIP_STREAM_INLINE, NULL));
  demo_close(&demo);
  return code;
}

#endif  // SLIPSTREAM_TESTS_DOCS_SHOW_H_
