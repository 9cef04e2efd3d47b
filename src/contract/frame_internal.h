// SPDX-License-Identifier: Apache-2.0
// The memory of a call frame, and what its two halves (checking, refusing) share.
#ifndef SLIPSTREAM_SRC_CONTRACT_FRAME_INTERNAL_H_
#define SLIPSTREAM_SRC_CONTRACT_FRAME_INTERNAL_H_

#include "contract/alias.h"
#include "contract/call_frame.h"
#include "contract/signature.h"

// Behind slip_frame_t.opaque. Only what the call uses is ever written: a 3-tensor call touches about 600 of the 5632 bytes.
typedef struct slip__frame_t {
  uint64_t magic;
  slip_signature_t *signature;
  void *heap;  // tensors, objects, scalars of a call above the inline capacities; NULL: the arrays below
  size_t heap_bytes;
  slip_device_t device;
  uint32_t flags;
  slip_otensor_t *tensors;
  void **objects;
  uint64_t *scalars;
  uint64_t reserved[8];
  slip_otensor_t inline_tensors[SLIP_FRAME_INLINE_TENSORS];
  void *inline_objects[SLIP_FRAME_INLINE_TENSORS];
  uint64_t inline_scalars[SLIP_FRAME_INLINE_SCALARS];
} slip__frame_t;
_Static_assert(sizeof(slip__frame_t) <= sizeof(slip_frame_t), "the frame fits its public type");
_Static_assert(sizeof(slip_otensor_t) == 128, "the size the public type was planned with");

// "SLIPFRAM"
#define SLIP__FRAME_MAGIC 0x4d41524650494c53ull

// One call being checked.
typedef struct slip__frame_build_t {
  slip__frame_t *frame;
  const slip_signature_t *signature;
  const char *name;  // never NULL
  const slip_arg_t *args;
  const slip_frame_hooks_t *hooks;
  slip_device_t device;
  uint32_t flags;
} slip__frame_build_t;

// Refusals: each makes the INVALID_ARGUMENT status for parameter |index|. None is reached by a call that passes.
slip_status_t slip__frame_refuse_count(const slip__frame_build_t *build, size_t arg_count) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_kind(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_scalar(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_shape(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_strides(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_address(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;
slip_status_t slip__frame_refuse_overlap(const slip__frame_build_t *build, uint32_t writer_slot, uint32_t other_slot) SLIP_MUST_USE;
// The closer look at a tensor whose head or device is not the plain one: residence, flags, gradients, dtype, rank, format. OK where an
// exception allows it.
slip_status_t slip__frame_check_head(const slip__frame_build_t *build, uint32_t index) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_CONTRACT_FRAME_INTERNAL_H_
