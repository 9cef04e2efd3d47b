// SPDX-License-Identifier: Apache-2.0
// The inside of a signature: what creation precomputes so that a call frame only compares.
#ifndef SLIPSTREAM_SRC_CONTRACT_SIGNATURE_H_
#define SLIPSTREAM_SRC_CONTRACT_SIGNATURE_H_

#include <stdatomic.h>

#include "slipstream/signature.h"
#include "slipstream/tensor.h"

// "This dim has no earlier dim to agree with."
#define SLIP__NO_PEER UINT32_MAX

// The first 8 bytes of slip_tensor_t as one number: a tensor whose head equals its rule's head needs no closer look.
typedef struct slip__tensor_head_t {
  uint32_t struct_size;
  slip_dtype_t dtype;
  uint8_t rank;
  uint8_t format;
  uint8_t flags;
} slip__tensor_head_t;
_Static_assert(sizeof(slip__tensor_head_t) == 8 && offsetof(slip_tensor_t, data) == 8, "head of the tensor descriptor");

// One parameter as a call frame checks it.
typedef struct slip__param_rule_t {
  int64_t dims[SLIP_MAX_RANK];  // SLIP_DIM_DYNAMIC or the exact size
  // First dim with the same symbol, as tensor slot * 8 + dim; SLIP__NO_PEER where it is this one or has no symbol.
  uint32_t peers[SLIP_MAX_RANK];
  uint32_t slot;  // among the tensors or among the scalars
  // Tensor: slip__tensor_head_t of a plain one, where there is such a thing. Scalar: its largest bits.
  uint64_t head;
  bool plain;  // |head| decides; false (NZ): each call needs the closer look. No value of |head| can say so: all may be in a tensor
  uint8_t direction;
  uint8_t dtype;
  uint8_t rank;
  uint8_t size_bytes;
} slip__param_rule_t;

// One allocation, laid out behind the structure; immutable but for the references.
struct slip_signature_t {
  atomic_uint references;
  uint32_t param_count;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t alias_count;
  uint32_t table_mask;
  uint64_t hash;
  slip_param_t *params;
  slip__param_rule_t *rules;
  int32_t *aliases;
  uint32_t *table;    // open addressing over the names: parameter index + 1, 0 is free
  uint8_t *encoding;  // canonical bytes: equal signatures have equal bytes
  char *strings;
  size_t encoding_size;
  size_t block_size;
  slip_allocator_t allocator;
};

// [A-Za-z_][A-Za-z0-9_]*
bool slip__is_identifier(const char *name);
static inline bool slip__is_identifier_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool slip__is_identifier_part(char c) {
  return slip__is_identifier_start(c) || (c >= '0' && c <= '9');
}
// "in", "out", "inout", "scalar"; "" if unknown.
const char *slip__direction_name(uint32_t direction);
// "nd", "nz"; "" if unknown.
const char *slip__layout_name(uint32_t layout);

#endif  // SLIPSTREAM_SRC_CONTRACT_SIGNATURE_H_
