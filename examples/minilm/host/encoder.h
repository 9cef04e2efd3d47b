// SPDX-License-Identifier: Apache-2.0
// The encoder as a C program uses it: opened once, one launch per batch, closed. Thread-compatible.
#ifndef MINILM_HOST_ENCODER_H_
#define MINILM_HOST_ENCODER_H_

#include "files.h"

#define MINILM_FEATURES 384

typedef struct minilm_encoder_t minilm_encoder_t;

typedef enum minilm_stream_e {
  MINILM_STREAM_INLINE,  // launches run on the calling thread
  MINILM_STREAM_ASYNC,   // launches run on a stream; embed waits for them
} minilm_stream_e;

// Opens the artifact and the weights (mapped, never copied), a kernel-mode context on the cpu platform with |threads| threads (0: all
// usable cores) and prepares the callable.
slip_status_t minilm_encoder_open(const char *artifact, const char *weights, uint32_t threads, minilm_stream_e stream,
                                  minilm_encoder_t **out) SLIP_MUST_USE;
// Embeds |batch| sentences of up to |sequence| tokens: |ids| and |mask| are [batch, sequence], |out| is [batch, 384]. |out_ns| (may be
// NULL) receives the time of the launch, checks included.
slip_status_t minilm_encoder_embed(minilm_encoder_t *encoder, const int32_t *ids, const int32_t *mask, int64_t batch, int64_t sequence,
                                   float *out, uint64_t *out_ns) SLIP_MUST_USE;
// NULL is fine.
slip_status_t minilm_encoder_close(minilm_encoder_t *encoder) SLIP_MUST_USE;

#endif  // MINILM_HOST_ENCODER_H_
