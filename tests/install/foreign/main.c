/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows nothing of Slipstream's source tree: only the installed package. Built as C11 and as C++17 (main.cc includes it). */
#include <slipstream/slipstream.h>
#include <stdio.h>
#include <string.h>

#define COUNT 1000

static int fail(const char *what, slip_status_t status) {
  char text[512];
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s: %s\n", what, text);
  slip_status_free(status);
  return 1;
}

/* argv[1]: an artifact with the signature (in x: f32[N], inout y: f32[N], a: f32), computing y = a * x + y. */
int main(int argc, char **argv) {
  static float x[COUNT], y[COUNT];
  slip_artifact_t *artifact = NULL;
  slip_context_t *context = NULL;
  slip_signature_t *signature = NULL;
  slip_status_t status;
  slip_tensor_t tensors[2];
  slip_arg_t args[3];
  slip_frame_t frame;
  int64_t count = COUNT;
  int32_t id = -1;
  int i, wrong = 0;
  if (strcmp(slip_version(), SLIP_VERSION_STRING) != 0) {
    fprintf(stderr, "library %s, headers %s\n", slip_version(), SLIP_VERSION_STRING);
    return 1;
  }
  if (argc < 2) return 2;
  for (i = 0; i < COUNT; ++i) {
    x[i] = (float)i;
    y[i] = 1.0f;
  }
  status = slip_artifact_open(argv[1], NULL, slip_allocator_system(), &artifact);
  if (!slip_status_is_ok(status)) return fail("artifact", status);
  status = slip_context_open(NULL, &context);
  if (!slip_status_is_ok(status)) return fail("open", status);
  status = slip_context_prepare_artifact(context, artifact, &id);
  if (!slip_status_is_ok(status)) return fail("prepare", status);
  status = slip_context_signature(context, id, &signature);
  if (!slip_status_is_ok(status)) return fail("signature", status);
  status = slip_tensor_initialize(&tensors[0], SLIP_DTYPE_F32, 1, &count, x, slip_device_cpu());
  if (slip_status_is_ok(status)) status = slip_tensor_initialize(&tensors[1], SLIP_DTYPE_F32, 1, &count, y, slip_device_cpu());
  if (!slip_status_is_ok(status)) return fail("tensor", status);
  for (i = 0; i < 3; ++i) {
    const slip_param_t *param = slip_signature_param(signature, (size_t)i);
    if (strcmp(param->name, "x") == 0) {
      args[i] = slip_arg_tensor(&tensors[0], NULL);
    } else if (strcmp(param->name, "y") == 0) {
      args[i] = slip_arg_tensor(&tensors[1], NULL);
    } else {
      args[i] = slip_arg_scalar(slip_scalar_f32(2.0f));
    }
  }
  status = slip_frame_initialize(&frame, signature, "axpy", slip_device_cpu(), args, 3, SLIP_FRAME_NONE);
  if (!slip_status_is_ok(status)) return fail("frame", status);
  status = slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL);
  slip_frame_deinitialize(&frame);
  if (!slip_status_is_ok(status)) return fail("launch", status);
  for (i = 0; i < COUNT; ++i) wrong += y[i] != 2.0f * (float)i + 1.0f;
  slip_signature_release(signature);
  slip_artifact_release(artifact);
  status = slip_context_close(context);
  if (!slip_status_is_ok(status)) return fail("close", status);
  status = slip_context_destroy(context);
  if (!slip_status_is_ok(status)) return fail("destroy", status);
  if (wrong) {
    fprintf(stderr, "%d wrong elements\n", wrong);
    return 1;
  }
  printf("ok %s\n", slip_version());
  return 0;
}
