// SPDX-License-Identifier: Apache-2.0
// The same launches in C, in the process and on the context that Python uses: called by ctypes.
#include <slipstream/slipstream.h>
#include <time.h>

enum { MAX_TENSORS = 32, MAX_ARGS = 64 };

// Nanoseconds a launch, of |calls|: each describes its tensors anew, builds the frame with all checks, launches inline. Negative: it
// failed.
__attribute__((visibility("default"))) double bench_launches(slip_context_t *context, int32_t id, slip_signature_t *signature, void **data,
                                                             int64_t count, int64_t tensors, int64_t scalars, int64_t calls);

double bench_launches(slip_context_t *context, int32_t id, slip_signature_t *signature, void **data, int64_t count, int64_t tensors,
                      int64_t scalars, int64_t calls) {
  struct timespec from, to;
  if (tensors > MAX_TENSORS || tensors + scalars > MAX_ARGS) return -1;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int64_t call = 0; call < calls; ++call) {
    slip_tensor_t described[MAX_TENSORS];
    slip_arg_t args[MAX_ARGS];
    slip_frame_t frame;
    slip_status_t status = slip_ok_status();
    for (int64_t i = 0; i < tensors && slip_status_is_ok(status); ++i) {
      status = slip_tensor_initialize(&described[i], SLIP_DTYPE_F32, 1, &count, data[i], slip_device_cpu());
      args[i] = slip_arg_tensor(&described[i], NULL);
    }
    for (int64_t i = 0; i < scalars; ++i) args[tensors + i] = slip_arg_scalar(slip_scalar_f32((float)i));
    if (slip_status_is_ok(status))
      status = slip_frame_initialize(&frame, signature, "bench", slip_device_cpu(), args, (size_t)(tensors + scalars), SLIP_FRAME_NONE);
    if (slip_status_is_ok(status)) {
      status = slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL);
      slip_frame_deinitialize(&frame);
    }
    if (!slip_status_is_ok(status)) {
      slip_status_free(status);
      return -1;
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)calls;
}
