// SPDX-License-Identifier: Apache-2.0
// From a command line to the arguments of a call: files are mapped, scalars parsed, outputs sized and allocated.
#ifndef SLIPSTREAM_CLI_BIND_H_
#define SLIPSTREAM_CLI_BIND_H_

#include "cli.h"
#include "io/safetensors.h"

// A mapped input file, shared by all arguments that come from it.
typedef struct cli_input_t {
  struct cli_input_t *next;
  char *path;
  slip_const_bytes_t bytes;
  cli_safetensors_t tensors;  // of a .safetensors file
} cli_input_t;

// Where the call runs. On SLIP_STREAM_INLINE the device's memory is the host's; else tensors travel by copies on the stream.
typedef struct cli_place_t {
  slip_platform_t *platform;
  slip_device_t device;
  slip_stream_t stream;
} cli_place_t;

// What one parameter got.
typedef struct cli_binding_t {
  const slip_param_t *param;
  const char *text;  // of --arg; NULL: none
  bool has_array;
  cli_array_t array;  // borrowed from a file
  slip_scalar_t scalar;
  slip_tensor_t tensor;
  void *memory;          // the device's, where the tensor does not lie in its file
  void *staging;         // page-locked memory that its bytes travel through; NULL on an inline stream
  const char *out_path;  // of --out; NULL: none
} cli_binding_t;

typedef struct cli_bound_dim_t {
  const char *name;
  int64_t value;
  const char *source;  // the parameter or "--dim"
} cli_bound_dim_t;

typedef struct cli_bindings_t {
  const char *name;  // of the callable
  slip_signature_t *signature;
  cli_place_t place;
  cli_binding_t *items;  // one for each parameter
  size_t count;
  cli_bound_dim_t *dims;
  size_t dim_count;
  cli_input_t *inputs;
} cli_bindings_t;

// Reads --arg, --weights, --dim and --out of |invocation| against |signature| and makes every tensor; copies to the device are enqueued,
// not waited for. Deinitialise |*out| in any case. INVALID_ARGUMENT names the option and the remedy; also what files and the platform's
// memory give.
slip_status_t cli_bindings_initialize(cli_bindings_t *out, const cli_invocation_t *invocation, slip_signature_t *signature,
                                      const char *name, const cli_place_t *place) SLIP_MUST_USE;
// Frees everything, once nothing on the stream uses it any more. Returns the first failure to free.
slip_status_t cli_bindings_deinitialize(cli_bindings_t *bindings) SLIP_MUST_USE;
// The device's memory is gone already: there is nothing of it to free.
void cli_bindings_forget(cli_bindings_t *bindings);
// The call frame of the bindings; deinitialise it in any case.
slip_status_t cli_bindings_frame(const cli_bindings_t *bindings, slip_frame_t *frame) SLIP_MUST_USE;
// What --dim or an input says of the dimension |name|; NULL: nothing.
cli_bound_dim_t *cli_dim_find(const cli_bindings_t *bindings, const char *name);

// --- place.c: tensors on the device
// Gives |binding| its tensor: where its file is mapped, or in memory of the device with its starting content.
slip_status_t cli_binding_place(cli_bindings_t *bindings, cli_binding_t *binding) SLIP_MUST_USE;
// Waits for the stream and shows the output |binding| as it is now: in host memory of the binding, valid until the next call.
slip_status_t cli_binding_download(const cli_bindings_t *bindings, const cli_binding_t *binding, cli_array_t *out) SLIP_MUST_USE;
slip_status_t cli_binding_free(const cli_bindings_t *bindings, cli_binding_t *binding) SLIP_MUST_USE;

static inline bool cli_param_is_output(const slip_param_t *param) {
  return param->direction == SLIP_DIRECTION_OUT || param->direction == SLIP_DIRECTION_INOUT;
}

#endif  // SLIPSTREAM_CLI_BIND_H_
