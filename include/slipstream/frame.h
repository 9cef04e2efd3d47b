// SPDX-License-Identifier: Apache-2.0
// Call frame: the validated description of one call's borrowed tensors and scalars.
//
// A frame lives where the caller puts it (the stack), is built once per call and is immutable afterwards. Building it runs every rule of a
// call that needs no device: completeness, residence, dtype, rank and dims, contiguity, format, bounds, aliasing, gradients. No heap is
// used up to SLIP_FRAME_INLINE_TENSORS tensors and SLIP_FRAME_INLINE_SCALARS scalars. The tensors' memory must stay valid until the launch
// that used the frame has finished; the frame itself may be deinitialised as soon as launch returned.
#ifndef SLIPSTREAM_FRAME_H_
#define SLIPSTREAM_FRAME_H_

#include "slipstream/scalar.h"
#include "slipstream/signature.h"
#include "slipstream/tensor.h"

SLIP_EXTERN_C_BEGIN

#define SLIP_FRAME_INLINE_TENSORS 32
#define SLIP_FRAME_INLINE_SCALARS 32

typedef enum slip_arg_kind_e {
  SLIP_ARG_MISSING = 0,
  SLIP_ARG_TENSOR = 1,
  SLIP_ARG_SCALAR = 2,
} slip_arg_kind_e;

// One argument, in signature order. |object| is the caller's own handle, given back by slip_frame_alias(); may be NULL.
typedef struct slip_arg_t {
  uint32_t kind;  // slip_arg_kind_e
  uint32_t reserved;
  union {
    const slip_tensor_t *tensor;  // borrowed until slip_frame_initialize returns
    slip_scalar_t scalar;
  } value;
  void *object;
} slip_arg_t;

static inline slip_arg_t slip_arg_tensor(const slip_tensor_t *tensor, void *object) {
  slip_arg_t arg;
  arg.kind = SLIP_ARG_TENSOR;
  arg.reserved = 0;
  arg.value.scalar.bits = 0;
  arg.value.scalar.dtype = 0;
  arg.value.tensor = tensor;
  arg.object = object;
  return arg;
}
static inline slip_arg_t slip_arg_scalar(slip_scalar_t scalar) {
  slip_arg_t arg;
  arg.kind = SLIP_ARG_SCALAR;
  arg.reserved = 0;
  arg.value.scalar = scalar;
  arg.object = NULL;
  return arg;
}

typedef enum slip_frame_bits_e {
  SLIP_FRAME_NONE = 0,
  SLIP_FRAME_GRAD_ENABLED = 1,  // autograd is on: a tensor that requires grad is refused
} slip_frame_bits_e;

// The blocked (physical) dims of a tensor in a vendor format, as its framework reports them.
typedef struct slip_physical_t {
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[8];
} slip_physical_t;

// Questions that only the framework can answer, asked lazily: a call without NZ tensors never asks. Start from SLIP_FRAME_HOOKS_INIT.
typedef struct slip_frame_hooks_t {
  uint32_t struct_size;
  uint32_t reserved;
  // Physical dims of |tensor| (the caller's |object|). NULL: judged by logical dims and storage size alone.
  slip_status_t (*physical)(void *user, const slip_tensor_t *tensor, void *object, slip_physical_t *out);
  void *user;
} slip_frame_hooks_t;

#define SLIP_FRAME_HOOKS_INIT \
  { (uint32_t)sizeof(slip_frame_hooks_t), 0, NULL, NULL }

// Opaque; about 5 KiB so that it fits a stack.
typedef struct slip_frame_t {
  uint64_t opaque[704];
} slip_frame_t;

// Validates |args| (all of |signature|'s parameters, in order) against |signature| for |device| and builds |*frame|. |signature| is
// retained until deinitialise. |name| (may be NULL) is the callable's name for messages. Every refusal names it, the parameter's index,
// name and direction, what was expected, what came and the remedy. INVALID_ARGUMENT: any rule broken. OUT_OF_MEMORY: only above the inline
// capacities. On failure |*frame| is safe to deinitialise. Thread-safe for different frames; never blocks; touches no device and no tensor
// data.
SLIP_API slip_status_t slip_frame_initialize(slip_frame_t *frame, slip_signature_t *signature, const char *name, slip_device_t device,
                                             const slip_arg_t *args, size_t arg_count, uint32_t flags) SLIP_MUST_USE;
// The same with |hooks| (may be NULL), for an adapter of a framework with vendor formats.
SLIP_API slip_status_t slip_frame_initialize_hooked(slip_frame_t *frame, slip_signature_t *signature, const char *name,
                                                    slip_device_t device, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                                                    const slip_frame_hooks_t *hooks) SLIP_MUST_USE;
// Releases what the frame holds. A zeroed frame is fine.
SLIP_API void slip_frame_deinitialize(slip_frame_t *frame);
// The caller's objects for the signature's return aliases, in order: the very pointers given as slip_arg_t.object. Returns their number;
// writes at most |capacity|.
SLIP_API size_t slip_frame_alias(const slip_frame_t *frame, void **out_objects, size_t capacity);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_FRAME_H_
