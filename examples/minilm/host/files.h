// SPDX-License-Identifier: Apache-2.0
// The three kinds of files this example reads: lines of text, .npy arrays and .safetensors weights. All are mapped read-only.
#ifndef MINILM_HOST_FILES_H_
#define MINILM_HOST_FILES_H_

#include "slipstream/slipstream.h"

typedef struct minilm_map_t {
  const char *data;
  size_t size;
} minilm_map_t;

// NOT_FOUND, IO. Unmap with minilm_unmap() (an empty map is fine).
slip_status_t minilm_map(const char *path, minilm_map_t *out) SLIP_MUST_USE;
void minilm_unmap(minilm_map_t *map);

// A C-ordered .npy array of |dtype| and rank 2 as a tensor over |map|. CORRUPT names what is wrong.
slip_status_t minilm_npy_view(const minilm_map_t *map, const char *path, slip_dtype_t dtype, slip_tensor_t *out) SLIP_MUST_USE;

// Finds in |map|, a .safetensors file, the F32 tensor whose name with '.' read as '_' is |name|, as a tensor over |map|. The header is
// checked against the file's size before anything is read through it. NOT_FOUND, CORRUPT.
typedef struct minilm_weights_t minilm_weights_t;
slip_status_t minilm_weights_open(const char *path, minilm_weights_t **out) SLIP_MUST_USE;
slip_status_t minilm_weights_find(const minilm_weights_t *weights, const char *name, slip_tensor_t *out) SLIP_MUST_USE;
void minilm_weights_close(minilm_weights_t *weights);

#endif  // MINILM_HOST_FILES_H_
