// SPDX-License-Identifier: Apache-2.0
#include "encoder.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// Address space for intermediates, committed as used: 6 KiB a token, so this is for 80,000 tokens in one launch (the default serves
// 10,000).
#define HEAP_BYTES ((uint64_t)512 << 20)

struct minilm_encoder_t {
  slip_artifact_t *artifact;
  slip_platform_t *platform;
  slip_stream_t stream;
  slip_context_t *context;
  slip_signature_t *signature;
  minilm_weights_t *weights;
  int32_t id;
  // One per parameter of the signature; those of the weights are filled once.
  slip_tensor_t *tensors;
  slip_arg_t *args;
  size_t count;
  int32_t ids, mask, out;
};

static slip_status_t minilm_encoder_bind(minilm_encoder_t *e, const char *weights) {
  SLIP_RETURN_IF_ERROR(minilm_weights_open(weights, &e->weights));
  SLIP_RETURN_IF_ERROR(slip_context_signature(e->context, e->id, &e->signature));
  e->count = slip_signature_param_count(e->signature);
  e->tensors = calloc(e->count, sizeof(*e->tensors));
  e->args = calloc(e->count, sizeof(*e->args));
  if (!e->tensors || !e->args) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu arguments", e->count);
  e->ids = slip_signature_find(e->signature, "ids");
  e->mask = slip_signature_find(e->signature, "mask");
  e->out = slip_signature_find(e->signature, "embedding");
  if (e->ids < 0 || e->mask < 0 || e->out < 0)
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the artifact is not the encoder: it lacks ids, mask or embedding");
  for (size_t i = 0; i < e->count; ++i) {
    e->args[i] = slip_arg_tensor(&e->tensors[i], NULL);
    if ((int32_t)i == e->ids || (int32_t)i == e->mask || (int32_t)i == e->out) continue;
    SLIP_RETURN_IF_ERROR(minilm_weights_find(e->weights, slip_signature_param(e->signature, i)->name, &e->tensors[i]));
  }
  return slip_ok_status();
}

slip_status_t minilm_encoder_open(const char *artifact, const char *weights, uint32_t threads, minilm_stream_e stream,
                                  minilm_encoder_t **out) {
  *out = NULL;
  minilm_encoder_t *e = calloc(1, sizeof(*e));
  if (!e) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the encoder");
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = "cpu";
  options.scheduler_threads = threads > 1 ? threads : 0;
  options.heap_bytes[0] = HEAP_BYTES;
  options.flags = threads == 1 ? SLIP_CONTEXT_SINGLE_THREAD : SLIP_CONTEXT_NONE;
  slip_status_t status = slip_artifact_open(artifact, NULL, slip_allocator_system(), &e->artifact);
  if (slip_status_is_ok(status)) status = slip_context_open(&options, &e->context);
  if (slip_status_is_ok(status)) status = slip_context_prepare_artifact(e->context, e->artifact, &e->id);
  if (slip_status_is_ok(status)) status = minilm_encoder_bind(e, weights);
  if (slip_status_is_ok(status)) status = slip_platform_find("cpu", &e->platform);
  if (slip_status_is_ok(status) && stream == MINILM_STREAM_ASYNC) status = slip_stream_create(e->platform, 0, &e->stream);
  if (slip_status_is_ok(status)) {
    *out = e;
  } else {
    status = slip_status_join(status, minilm_encoder_close(e));
  }
  return status;
}

static uint64_t minilm_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// From the call to the results being there.
static slip_status_t minilm_encoder_launch(minilm_encoder_t *e, const slip_frame_t *frame) {
  slip_ticket_t *ticket = NULL;
  if (!e->stream) return slip_context_launch(e->context, e->id, frame, SLIP_STREAM_INLINE, NULL);
  slip_status_t status = slip_context_launch(e->context, e->id, frame, e->stream, &ticket);
  if (ticket) status = slip_status_join(status, slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  return status;
}

slip_status_t minilm_encoder_embed(minilm_encoder_t *e, const int32_t *ids, const int32_t *mask, int64_t batch, int64_t sequence,
                                   float *out, uint64_t *out_ns) {
  const int64_t tokens[2] = {batch, sequence}, features[2] = {batch, MINILM_FEATURES};
  const slip_device_t cpu = slip_device_cpu();
  slip_frame_t frame = {{0}};
  uint64_t start = minilm_now_ns();
  // The encoder only reads ids and mask (their parameters are IN); a tensor descriptor has no const.
  SLIP_RETURN_IF_ERROR(slip_tensor_initialize(&e->tensors[e->ids], SLIP_DTYPE_I32, 2, tokens, (void *)(uintptr_t)ids, cpu));
  SLIP_RETURN_IF_ERROR(slip_tensor_initialize(&e->tensors[e->mask], SLIP_DTYPE_I32, 2, tokens, (void *)(uintptr_t)mask, cpu));
  SLIP_RETURN_IF_ERROR(slip_tensor_initialize(&e->tensors[e->out], SLIP_DTYPE_F32, 2, features, out, cpu));
  slip_status_t status = slip_frame_initialize(&frame, e->signature, "minilm", cpu, e->args, e->count, SLIP_FRAME_NONE);
  if (slip_status_is_ok(status)) status = minilm_encoder_launch(e, &frame);
  slip_frame_deinitialize(&frame);
  if (out_ns) *out_ns = minilm_now_ns() - start;
  return status;
}

slip_status_t minilm_encoder_close(minilm_encoder_t *e) {
  slip_status_t status = slip_ok_status();
  if (!e) return status;
  slip_signature_release(e->signature);
  if (e->context) {
    status = slip_context_close(e->context);
    if (slip_status_is_ok(status)) status = slip_context_destroy(e->context);
  }
  if (e->stream) status = slip_status_join(status, slip_stream_destroy(e->platform, e->stream));
  slip_artifact_release(e->artifact);
  minilm_weights_close(e->weights);
  free(e->tensors);
  free(e->args);
  free(e);
  return status;
}
