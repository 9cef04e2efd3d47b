// SPDX-License-Identifier: Apache-2.0
// A context on the platform under test with a callable whose results tell the order of its calls, and cells of device memory for it.
#ifndef SLIP_CONFORMANCE_KERNEL_H_
#define SLIP_CONFORMANCE_KERNEL_H_

#include "conformance.h"
#include "fixture.h"

typedef struct conform_kernel_t {
  slip_platform_t *platform;
  slip_context_t *context;
  int32_t id;
  slip_signature_t *signature;
} conform_kernel_t;

// Opens with |options| changed to the platform under test (NULL: defaults) and prepares. Unsupported where host-native callables do not
// run.
void conform_kernel_open(conform_kernel_t *kernel, const slip_context_options_t *options);
// Closes and destroys.
void conform_kernel_close(conform_kernel_t *kernel);
slip_context_options_t conform_kernel_options(void);
slip_context_stats_t conform_kernel_stats(conform_kernel_t *kernel);

// A value in device memory, and what it must be by the calls made so far.
typedef struct conform_cell_t {
  int64_t *state;   // in device memory
  int64_t *pinned;  // to copy through
  uint64_t expected;
} conform_cell_t;

void conform_cell_make(conform_kernel_t *kernel, conform_cell_t *cell, int64_t value);
void conform_cell_free(conform_kernel_t *kernel, conform_cell_t *cell);
// The value now; the device must be through with it.
int64_t conform_cell_read(conform_kernel_t *kernel, const conform_cell_t *cell);
// It must be |expected|.
void conform_cell_check(conform_kernel_t *kernel, const conform_cell_t *cell);
// What one call does to a value.
static inline uint64_t conform_affine(uint64_t value, int64_t factor, int64_t term) {
  return value * (uint64_t)factor + (uint64_t)term;
}

// cell = cell * factor + term.
void conform_frame(conform_kernel_t *kernel, slip_frame_t *frame, const conform_cell_t *cell, int64_t factor, int64_t term);
slip_status_t conform_launch_try(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term,
                                 uint32_t flags, _Atomic uint32_t *released, slip_ticket_t **out_ticket) SLIP_MUST_USE;
// Must succeed; |cell->expected| follows.
void conform_launch(conform_kernel_t *kernel, slip_stream_t stream, conform_cell_t *cell, int64_t factor, int64_t term);
// The same without |expected|: for captures.
void conform_launch_silent(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term);

// A record's owner: counts.
void conform_released(void *user);

// For captures with launches in them. Ends the test as unsupported where there is no capture.
void conform_capture_open(conform_kernel_t *kernel, const slip_context_options_t *options);
void conform_begin(conform_kernel_t *kernel, slip_stream_t stream);  // global mode
slip_graph_exec_t conform_end(conform_kernel_t *kernel, slip_stream_t stream);
// A graph of one call.
slip_graph_exec_t conform_graph(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term);
slip_capture_state_e conform_state(conform_kernel_t *kernel, slip_stream_t stream);

#endif  // SLIP_CONFORMANCE_KERNEL_H_
