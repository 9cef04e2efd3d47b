// SPDX-License-Identifier: Apache-2.0
// Signature: the immutable ordered list of parameters of an entry, with return aliases.
//
// Created once, reference-counted, immutable: thread-safe. It owns its memory; what accessors return is borrowed from it.
#ifndef SLIPSTREAM_SIGNATURE_H_
#define SLIPSTREAM_SIGNATURE_H_

#include "slipstream/dtype.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

typedef enum slip_direction_e {
  SLIP_DIRECTION_IN = 1,
  SLIP_DIRECTION_OUT = 2,
  SLIP_DIRECTION_INOUT = 3,
  SLIP_DIRECTION_SCALAR = 4,
} slip_direction_e;

typedef enum slip_layout_e {
  SLIP_LAYOUT_ND = 1,
  SLIP_LAYOUT_NZ = 2,
} slip_layout_e;

#define SLIP_DIM_DYNAMIC (-1)

// Limits of a chip entry and of a kernel (checked by slip_signature_check_capacity, not at creation).
#define SLIP_ENTRY_MAX_TENSORS 256
#define SLIP_ENTRY_MAX_SCALARS 128

// One parameter. In a created signature all pointers are owned by the signature.
typedef struct slip_param_t {
  const char *name;
  uint32_t direction;  // slip_direction_e
  uint32_t layout;     // slip_layout_e; ND for tensors by default; 0 for a scalar
  slip_dtype_t dtype;
  uint8_t rank;  // 0 for a scalar
  uint8_t reserved[6];
  int64_t dims[SLIP_MAX_RANK];           // > 0, or SLIP_DIM_DYNAMIC
  const char *dim_names[SLIP_MAX_RANK];  // symbol of a dynamic dim ("M"); NULL: anonymous. Equal symbols must agree within one call
} slip_param_t;

typedef struct slip_signature_t slip_signature_t;

// Creates a signature from copies of |params|. |return_aliases| are indices into |params| (complete list), in return order, repeats
// allowed. INVALID_ARGUMENT, each with its own sentence: empty, duplicate or non-identifier name; unknown direction, dtype or layout; rank
// > SLIP_MAX_RANK; dim 0 or below -1; a dim name that is no identifier or stands on a static dim; a scalar with rank or layout or of a
// dtype that is no scalar; an alias that is out of range or names an IN tensor or a scalar. OUT_OF_MEMORY. On failure |*out| is NULL. The
// result has one reference.
SLIP_API slip_status_t slip_signature_create(const slip_param_t *params, size_t param_count, const int32_t *return_aliases,
                                             size_t alias_count, slip_allocator_t allocator, slip_signature_t **out) SLIP_MUST_USE;
SLIP_API void slip_signature_retain(slip_signature_t *signature);
// NULL is fine.
SLIP_API void slip_signature_release(slip_signature_t *signature);

SLIP_API size_t slip_signature_param_count(const slip_signature_t *signature);
SLIP_API size_t slip_signature_tensor_count(const slip_signature_t *signature);
SLIP_API size_t slip_signature_scalar_count(const slip_signature_t *signature);
// Borrowed; NULL if |index| is out of range.
SLIP_API const slip_param_t *slip_signature_param(const slip_signature_t *signature, size_t index);
// Index of the parameter called |name|, or -1.
SLIP_API int32_t slip_signature_find(const slip_signature_t *signature, const char *name);
// Number of returned values and the parameter each of them is; |*out_indices| is borrowed.
SLIP_API size_t slip_signature_return_aliases(const slip_signature_t *signature, const int32_t **out_indices);
// Hash of everything in the signature (names included), stable across processes and builds. Equal signatures have equal hashes.
SLIP_API uint64_t slip_signature_hash(const slip_signature_t *signature);
SLIP_API bool slip_signature_equal(const slip_signature_t *a, const slip_signature_t *b);
// INCOMPATIBLE if there are more tensors or scalars than a chip entry (256, 128) takes, naming the count and the limit.
SLIP_API slip_status_t slip_signature_check_capacity(const slip_signature_t *signature) SLIP_MUST_USE;

// The text form, which both functions read and write exactly:
//   (in x: bf16[M,2048], w: bf16[2048], out y: bf16[M,2048], inout s: f32[?] nz, eps: f32) -> (y)
// Canonical text comes back unchanged, and every signature comes back equal; a mistake is INVALID_ARGUMENT, naming the column.
// A direction holds until the next one; `in` is the default; a type without brackets is a scalar, `f32[]` a tensor of rank 0; a dim is a
// number, a symbol or `?`.
SLIP_API slip_status_t slip_signature_parse(const char *text, size_t length, slip_allocator_t allocator,
                                            slip_signature_t **out) SLIP_MUST_USE;
// Returns the length as snprintf does.
SLIP_API size_t slip_signature_format(const slip_signature_t *signature, char *buffer, size_t capacity);

// JSON form: {"params":[{"name","direction","dtype","dims":[...],"dim_names":[...],"layout"}...],"return_aliases":[...]}; the round trip is
// exact. A tensor has "dims", and may have "dim_names" (strings and nulls) and "layout" ("nd" when absent); a scalar has none of the three.
// Unknown or duplicate keys, wrong types and whatever slip_signature_create() refuses are CORRUPT, naming the field or parameter.
// |*out_text| is allocated with |allocator|, terminated, size without the terminator.
SLIP_API slip_status_t slip_signature_from_json(const char *text, size_t length, slip_allocator_t allocator,
                                                slip_signature_t **out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_signature_to_json(const slip_signature_t *signature, slip_allocator_t allocator,
                                              slip_bytes_t *out_text) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_SIGNATURE_H_
