// SPDX-License-Identifier: Apache-2.0
// What the launch path reads out of a call frame: the memory behind slip_frame_t.opaque.
#ifndef SLIPSTREAM_SRC_CONTRACT_CALL_FRAME_H_
#define SLIPSTREAM_SRC_CONTRACT_CALL_FRAME_H_

#include "slipstream/frame.h"
#include "slipstream/kernel/orch.h"

// Tensors and scalars each in signature order, ready to be copied into an argument block. The tensor form is the engine's own, so that
// launch copies and never converts.
typedef struct slip__frame_view_t {
  slip_signature_t *signature;
  uint64_t signature_hash;
  slip_device_t device;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t flags;
  const slip_otensor_t *tensors;
  const uint64_t *scalars;
} slip__frame_view_t;

// False for a frame that was never initialised (or is deinitialised).
bool slip__frame_view(const slip_frame_t *frame, slip__frame_view_t *out);

#endif  // SLIPSTREAM_SRC_CONTRACT_CALL_FRAME_H_
