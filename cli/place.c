// SPDX-License-Identifier: Apache-2.0
// Tensors of a call on its device: allocated, filled, fetched, freed.
//
// On an inline stream the device's memory is the host's: the bytes are written where they are used, and an input stays in its file's
// mapping where it can. On any other stream they travel through page-locked memory by copies in stream order, as on a device whose memory
// the host cannot reach; nobody waits for them but who looks at an output.
#include <string.h>

#include "bind.h"

static slip_status_t cli_output_dims(const cli_bindings_t *b, const cli_binding_t *binding, int64_t *dims) {
  const slip_param_t *param = binding->param;
  for (uint8_t d = 0; d < param->rank; ++d) {
    const cli_bound_dim_t *known = param->dim_names[d] ? cli_dim_find(b, param->dim_names[d]) : NULL;
    dims[d] = param->dims[d] != SLIP_DIM_DYNAMIC ? param->dims[d] : known ? known->value : -1;
    if (dims[d] >= 0) continue;
    if (param->dim_names[d]) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "output '%s': no input fixes its dimension %s; give --dim %s=VALUE", param->name,
                         param->dim_names[d], param->dim_names[d]);
    }
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "output '%s': its dimension %u has no name to fix it by; give a file of its shape: --arg %s=@file.npy", param->name,
                       d, param->name);
  }
  return slip_ok_status();
}

static bool cli_is_inline(const cli_place_t *place) {
  return place->stream == SLIP_STREAM_INLINE;
}

// Device code may read a file's mapping only where the device is the host.
static bool cli_stays_in_file(const cli_place_t *place, const cli_binding_t *binding) {
  return binding->has_array && binding->param->direction == SLIP_DIRECTION_IN && place->device.platform == SLIP_PLATFORM_CPU &&
         (uintptr_t)binding->array.data.data % slip_dtype_size_bytes(binding->array.dtype) == 0;
}

// |source| NULL: zeros.
static slip_status_t cli_fill(const cli_place_t *place, cli_binding_t *binding, const void *source, uint64_t size) {
  void *target = cli_is_inline(place) ? binding->memory : binding->staging;
  if (source) {
    memcpy(target, source, (size_t)size);
  } else {
    memset(target, 0, (size_t)size);
  }
  if (cli_is_inline(place)) return slip_ok_status();
  return slip_memory_copy_async(place->platform, place->stream, binding->memory, target, size, SLIP_COPY_HOST_TO_DEVICE);
}

static slip_status_t cli_allocate(const cli_place_t *place, cli_binding_t *binding, uint64_t size) {
  const char *name = binding->param->name;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_memory_allocate(place->platform, place->device.ordinal, size, &binding->memory), "allocating '%s'",
                                 name);
  if (cli_is_inline(place)) return slip_ok_status();
  return slip_status_annotate(slip_host_allocate(place->platform, size, &binding->staging), "allocating page-locked memory for '%s'", name);
}

slip_status_t cli_binding_place(cli_bindings_t *b, cli_binding_t *binding) {
  const cli_place_t *place = &b->place;
  const slip_param_t *param = binding->param;
  cli_array_t array = binding->array;
  uint64_t size = array.data.size;
  if (!binding->has_array) {
    array = (cli_array_t){.dtype = param->dtype, .rank = param->rank};
    SLIP_RETURN_IF_ERROR(cli_output_dims(b, binding, array.dims));
    if (!cli_array_size(array.dtype, array.rank, array.dims, &size)) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "output '%s' would take more than 2^63-1 bytes; look at --dim", param->name);
    }
  }
  bool in_file = cli_stays_in_file(place, binding);
  if (!in_file && size > 0) {
    SLIP_RETURN_IF_ERROR(cli_allocate(place, binding, size));
    // The simulator tells outputs that were never written from those that were: it is left to see the difference.
    bool fill = binding->has_array || place->device.platform != SLIP_PLATFORM_SIM;
    if (fill) SLIP_RETURN_IF_ERROR_ANNOTATED(cli_fill(place, binding, array.data.data, size), "copying '%s' to the device", param->name);
  }
  void *data = in_file ? (void *)(uintptr_t)array.data.data : binding->memory;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_initialize(&binding->tensor, array.dtype, array.rank, array.dims, data, place->device),
                                 "argument '%s'", param->name);
  if (in_file) binding->tensor.flags |= SLIP_TENSOR_READ_ONLY;
  return slip_ok_status();
}

slip_status_t cli_binding_download(const cli_bindings_t *b, const cli_binding_t *binding, cli_array_t *out) {
  const cli_place_t *place = &b->place;
  const slip_tensor_t *tensor = &binding->tensor;
  uint64_t size = 0;
  *out = (cli_array_t){.dtype = tensor->dtype, .rank = tensor->rank};
  memcpy(out->dims, tensor->dims, sizeof(out->dims));
  if (!cli_array_size(out->dtype, out->rank, out->dims, &size))
    return SLIP_STATUS(SLIP_CODE_INTERNAL, "output '%s' has lost its size", binding->param->name);
  if (size == 0) return slip_ok_status();
  out->data = (slip_const_bytes_t){cli_is_inline(place) ? binding->memory : binding->staging, (size_t)size};
  if (cli_is_inline(place)) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(
      slip_memory_copy_async(place->platform, place->stream, binding->staging, binding->memory, size, SLIP_COPY_DEVICE_TO_HOST));
  return slip_stream_synchronize(place->platform, place->stream);
}

slip_status_t cli_binding_free(const cli_bindings_t *b, cli_binding_t *binding) {
  slip_status_t status = slip_memory_free(b->place.platform, b->place.device.ordinal, binding->memory);
  status = slip_status_join(status, slip_host_free(b->place.platform, binding->staging));
  binding->memory = NULL;
  binding->staging = NULL;
  return status;
}
