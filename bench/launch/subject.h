// SPDX-License-Identifier: Apache-2.0
// What is measured: a trivial callable, prepared on a platform, with its tensors there.
#ifndef SLIP_BENCH_SUBJECT_H_
#define SLIP_BENCH_SUBJECT_H_

#include "slipstream/slipstream.h"

#define BENCH_ELEMENTS 8
#define BENCH_NODES    16

typedef struct bench_t {
  slip_platform_t *platform;
  slip_device_t device;
  slip_context_t *context;
  slip_signature_t *signature;
  slip_graph_t *graph;  // BENCH_NODES times the callable
  int32_t id;
  slip_tensor_t tensors[3];
  void *memory[3];  // of the device
} bench_t;

// Prints |status| and ends the program.
_Noreturn void bench_fail(slip_status_t status, const char *what);
static inline void bench_check(slip_status_t status, const char *what) {
  if (!slip_status_is_ok(status)) bench_fail(status, what);
}
uint64_t bench_now_ns(void);
// Sorts |values|.
double bench_median(double *values, size_t count);

// |platform|: "cpu", "sim". |flags|: slip_context_bits_e.
void bench_open(bench_t *b, const char *platform, uint32_t flags);
void bench_close(bench_t *b);
// Ends the program unless the callable has computed what it must.
void bench_verify(bench_t *b);

static inline void bench_frame(bench_t *b, slip_frame_t *frame) {
  slip_arg_t args[3] = {slip_arg_tensor(&b->tensors[0], b), slip_arg_tensor(&b->tensors[1], b), slip_arg_tensor(&b->tensors[2], b)};
  bench_check(slip_frame_initialize(frame, b->signature, "add", b->device, args, 3, 0), "frame");
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

#endif  // SLIP_BENCH_SUBJECT_H_
