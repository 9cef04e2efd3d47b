// SPDX-License-Identifier: Apache-2.0
// Loading the code of one image onto the context's device, and taking it off again. States and locking: registry.h.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_RESIDENT_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_RESIDENT_H_

#include "kernel_mode/context.h"

// Loads |view|'s code into |resident| and checks that the object keeps what the image says of it. Called without the lock by the prepare
// that owns LOADING. CORRUPT, INCOMPATIBLE (ABI), OUT_OF_MEMORY, DEVICE. On failure nothing is loaded, except when even the unload failed:
// then |resident->module| is still set.
slip_status_t slip__resident_load(slip_context_t *context, const slip_image_view_t *view, slip__resident_t *resident) SLIP_MUST_USE;
// Without the lock. On failure the module stays.
slip_status_t slip__resident_unload(slip_context_t *context, slip__resident_t *resident) SLIP_MUST_USE;
// What the object must keep, apart from the loading: for tests.
slip_status_t slip__resident_check_object(const slip_object_t *object, const slip_image_view_t *view) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_RESIDENT_H_
