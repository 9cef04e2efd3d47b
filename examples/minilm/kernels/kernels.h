// SPDX-License-Identifier: Apache-2.0
// What all kernels of the encoder include. The comment above each kernel gives its arguments: tensors; scalars -> the tensors written.
#ifndef MINILM_KERNELS_KERNELS_H_
#define MINILM_KERNELS_KERNELS_H_

#include "slip_program.h"  // made by slip compile: numbers and prototypes of what the manifest lists
#include "panel.h"

#define MINILM_UNKNOWN_TOKEN 100  // "[UNK]" of the vocabulary

#endif  // MINILM_KERNELS_KERNELS_H_
