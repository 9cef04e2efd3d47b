// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

slip_context_options_t conform_kernel_options(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = conform_platform_name();
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  return options;
}

void conform_kernel_open(conform_kernel_t *kernel, const slip_context_options_t *options) {
  slip_context_options_t defaults = conform_kernel_options();
  *kernel = (conform_kernel_t){.platform = conform_platform(), .id = -1};
  conform_need(kernel->platform, SLIP_PLATFORM_CAN_STREAMS, "streams");
  conform_need(kernel->platform, SLIP_PLATFORM_CAN_HOST_NATIVE, "to run host-native callables");
  SLIP_CHECK_OK(slip_context_open(options ? options : &defaults, &kernel->context));
  kernel->id = slip_fixture_prepare(kernel->context, slip_fixture_affine());
  SLIP_CHECK_OK(slip_context_signature(kernel->context, kernel->id, &kernel->signature));
}

void conform_kernel_close(conform_kernel_t *kernel) {
  slip_signature_release(kernel->signature);
  SLIP_CHECK_OK(slip_context_close(kernel->context));
  SLIP_CHECK_OK(slip_context_destroy(kernel->context));
}

slip_context_stats_t conform_kernel_stats(conform_kernel_t *kernel) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(kernel->context, &stats));
  return stats;
}

void conform_cell_make(conform_kernel_t *kernel, conform_cell_t *cell, int64_t value) {
  *cell = (conform_cell_t){conform_memory(kernel->platform, sizeof(int64_t)), conform_pinned(kernel->platform, sizeof(int64_t)),
                           (uint64_t)value};
  *cell->pinned = value;
  SLIP_CHECK_OK(slip_memory_copy(kernel->platform, 0, cell->state, cell->pinned, sizeof(int64_t), SLIP_COPY_HOST_TO_DEVICE));
}

void conform_cell_free(conform_kernel_t *kernel, conform_cell_t *cell) {
  SLIP_CHECK_OK(slip_memory_free(kernel->platform, 0, cell->state));
  SLIP_CHECK_OK(slip_host_free(kernel->platform, cell->pinned));
}

int64_t conform_cell_read(conform_kernel_t *kernel, const conform_cell_t *cell) {
  int64_t value = 0;
  SLIP_CHECK_OK(slip_memory_copy(kernel->platform, 0, &value, cell->state, sizeof(value), SLIP_COPY_DEVICE_TO_HOST));
  return value;
}

void conform_cell_check(conform_kernel_t *kernel, const conform_cell_t *cell) {
  SLIP_CHECK_EQ(conform_cell_read(kernel, cell), (int64_t)cell->expected);
}

void conform_frame(conform_kernel_t *kernel, slip_frame_t *frame, const conform_cell_t *cell, int64_t factor, int64_t term) {
  const int64_t elements = 1;
  slip_tensor_t tensor;
  slip_scalar_t scalars[2];
  slip_device_t device = slip_context_device(kernel->context);
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, SLIP_DTYPE_I64, 1, &elements, cell->state, device));
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, factor, &scalars[0]));
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, term, &scalars[1]));
  slip_arg_t args[3] = {slip_arg_tensor(&tensor, cell->state), slip_arg_scalar(scalars[0]), slip_arg_scalar(scalars[1])};
  SLIP_CHECK_OK(slip_frame_initialize(frame, kernel->signature, "affine", device, args, 3, 0));
}

void conform_released(void *user) {
  atomic_fetch_add((_Atomic uint32_t *)user, 1);
}

slip_status_t conform_launch_try(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term,
                                 uint32_t flags, _Atomic uint32_t *released, slip_ticket_t **out_ticket) {
  slip_frame_t frame = {0};
  conform_frame(kernel, &frame, cell, factor, term);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = kernel->id,
                                 .context = kernel->context,
                                 .frame = &frame,
                                 .stream = stream,
                                 .flags = flags,
                                 .release = released ? conform_released : NULL,
                                 .user = released};
  slip_status_t status = slip_launch(&record, out_ticket);
  slip_frame_deinitialize(&frame);
  memset(&frame, 0xee, sizeof(frame));  // the launch has copied what it needs
  return status;
}

void conform_launch_silent(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term) {
  SLIP_CHECK_OK(conform_launch_try(kernel, stream, cell, factor, term, 0, NULL, NULL));
}

void conform_launch(conform_kernel_t *kernel, slip_stream_t stream, conform_cell_t *cell, int64_t factor, int64_t term) {
  conform_launch_silent(kernel, stream, cell, factor, term);
  cell->expected = conform_affine(cell->expected, factor, term);
}

// --- captures

void conform_capture_open(conform_kernel_t *kernel, const slip_context_options_t *options) {
  conform_need(conform_platform(), SLIP_PLATFORM_CAN_CAPTURE, "capture");
  conform_kernel_open(kernel, options);
}

void conform_begin(conform_kernel_t *kernel, slip_stream_t stream) {
  SLIP_CHECK_OK(slip_stream_capture_begin(kernel->platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
}

slip_graph_exec_t conform_end(conform_kernel_t *kernel, slip_stream_t stream) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip_stream_capture_end(kernel->platform, stream, &graph));
  SLIP_CHECK(graph != NULL);
  return graph;
}

// A graph of one call.
slip_graph_exec_t conform_graph(conform_kernel_t *kernel, slip_stream_t stream, const conform_cell_t *cell, int64_t factor, int64_t term) {
  conform_begin(kernel, stream);
  conform_launch_silent(kernel, stream, cell, factor, term);
  return conform_end(kernel, stream);
}

slip_capture_state_e conform_state(conform_kernel_t *kernel, slip_stream_t stream) {
  slip_capture_info_t info;
  SLIP_CHECK_OK(slip_stream_capture_info(kernel->platform, stream, &info));
  return (slip_capture_state_e)info.state;
}
