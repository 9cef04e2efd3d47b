// SPDX-License-Identifier: Apache-2.0
#include "op.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct slip__torch_op_t {
  uint32_t param_count;
  uint32_t slot_count;  // arguments of the schema: param_count, or less by what a list takes together
  slip_device_t device;
  slip__torch_op_options_t options;
  char name[128];
} slip__torch_op_t;

void *slip__torch_allocate(size_t size_bytes) {
  slip_allocator_t allocator = slip_allocator_system();
  void *memory = allocator.control(allocator.self, NULL, 0, size_bytes, sizeof(void *));
  return memory ? memset(memory, 0, size_bytes) : NULL;
}

void slip__torch_free(void *memory, size_t size_bytes) {
  slip_allocator_t allocator = slip_allocator_system();
  if (memory) allocator.control(allocator.self, memory, size_bytes, 0, sizeof(void *));
}

slip__torch_gate_t *slip__torch_gate_create(void) {
  return slip__torch_allocate(sizeof(slip__torch_gate_t));
}

bool slip__torch_gate_enter(slip__torch_gate_t *gate) {
  atomic_fetch_add_explicit(&gate->users, 1, memory_order_seq_cst);
  if (__builtin_expect(atomic_load_explicit(&gate->shut, memory_order_seq_cst) == 0, 1)) return true;
  slip__torch_gate_leave(gate);
  return false;
}

void slip__torch_gate_leave(slip__torch_gate_t *gate) {
  atomic_fetch_sub_explicit(&gate->users, 1, memory_order_release);
}

void slip__torch_gate_shut(slip__torch_gate_t *gate) {
  const struct timespec moment = {0, 100000};  // calls are short; closing is rare
  atomic_store_explicit(&gate->shut, 1, memory_order_seq_cst);
  while (atomic_load_explicit(&gate->users, memory_order_seq_cst) != 0) nanosleep(&moment, NULL);
}

void slip__torch_gate_open(slip__torch_gate_t *gate) {
  atomic_store_explicit(&gate->shut, 0, memory_order_seq_cst);
}

static slip__torch_op_t slip__torch_ops[SLIP_TORCH_OPS];
static int32_t slip__torch_op_count;  // under the GIL

_Thread_local slip__torch_failure_t slip__torch_failure;

// What a person reads: without the code in front, which the exception's class tells, and without the place in the library's sources.
static void slip__torch_failure_trim(char *text, slip_code_t code) {
  const char *name = slip_code_name(code);
  const size_t head = strlen(name);
  if (strncmp(text, name, head) == 0 && strncmp(text + head, ": ", 2) == 0) memmove(text, text + head + 2, strlen(text + head + 2) + 1);
  char *place = strrchr(text, '[');
  if (place && place > text && place[-1] == ' ' && strstr(place, ".c:") && text[strlen(text) - 1] == ']') place[-1] = '\0';
}

void slip__torch_failure_set(slip_status_t status) {
  slip__torch_failure.code = slip_status_code(status);
  slip__torch_failure.platform_code = slip_status_platform_code(status);
  slip_status_format(status, slip__torch_failure.text, sizeof(slip__torch_failure.text));
  slip__torch_failure_trim(slip__torch_failure.text, slip__torch_failure.code);
  slip_status_free(status);
}

// One call's arguments. Up to SLIP_TORCH_INLINE_PARAMS of them are on the caller's stack.
#define SLIP_TORCH_INLINE_PARAMS 32
typedef struct slip__torch_arguments_t {
  slip_arg_t *args;
  slip_tensor_t *tensors;
} slip__torch_arguments_t;

// Handles that a launch keeps until the device is done with them.
typedef struct slip__torch_held_t {
  size_t size_bytes;
  size_t count;
  slip__torch_tensor_t handles[];
} slip__torch_held_t;

static void slip__torch_held_release(void *user) {
  slip__torch_held_t *held = user;
  for (size_t i = 0; i < held->count; ++i) slip__torch_shim.aoti_torch_delete_tensor_object(held->handles[i]);
  slip__torch_free(held, held->size_bytes);
}

static slip__torch_tensor_t slip__torch_stack_tensor(const uint64_t *stack, size_t index) {
  slip__torch_tensor_t handle;
  memcpy(&handle, &stack[index], sizeof(handle));
  return handle;
}

// Scalars lie in a stack slot as the C++ object would: int64_t, double, bool, the rest of the slot undefined.
static slip_status_t slip__torch_stack_scalar(const slip__torch_op_t *op, const uint64_t *slot, size_t index, const slip_param_t *param,
                                              slip_arg_t *out) {
  slip_scalar_t scalar = {0};
  slip_status_t status;
  switch (slip_dtype_kind(param->dtype)) {
    case SLIP_DTYPE_KIND_FLOAT: {
      double value;
      memcpy(&value, slot, sizeof(value));
      status = slip_scalar_from_f64(param->dtype, value, &scalar);
      break;
    }
    case SLIP_DTYPE_KIND_BOOL: {
      uint8_t value;
      memcpy(&value, slot, sizeof(value));
      status = slip_scalar_from_bool(param->dtype, value != 0, &scalar);
      break;
    }
    default: {
      int64_t value;
      memcpy(&value, slot, sizeof(value));
      status = slip_scalar_from_i64(param->dtype, value, &scalar);
      break;
    }
  }
  *out = slip_arg_scalar(scalar);
  return slip_status_is_ok(status) ? status : slip_status_annotate(status, "%s: parameter %zu '%s'", op->name, index, param->name);
}

static slip_status_t slip__torch_op_read(const slip__torch_op_t *op, const uint64_t *stack, bool grad, slip__torch_arguments_t arguments) {
  for (size_t i = 0; i < op->param_count; ++i) {
    const slip_param_t *param = slip_signature_param(op->options.signature, i);
    if (param->direction == SLIP_DIRECTION_SCALAR) {
      SLIP_RETURN_IF_ERROR(slip__torch_stack_scalar(op, &stack[i], i, param, &arguments.args[i]));
    } else {
      SLIP_RETURN_IF_ERROR(slip__torch_tensor_read(slip__torch_stack_tensor(stack, i), grad, op->options.privateuse1, op->name, i, param,
                                                   &arguments.tensors[i]));
      arguments.args[i] = slip_arg_tensor(&arguments.tensors[i], NULL);
    }
  }
  return slip_ok_status();
}

// Device and stream, asked after everything else has been found right, and at every call.
static slip_status_t slip__torch_op_stream(const slip__torch_op_t *op, slip_stream_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int32_t current = -1;
  *out = SLIP_STREAM_INLINE;
  if (op->options.stream == SLIP_TORCH_STREAM_INLINE) return slip_ok_status();
  if (op->options.stream == SLIP_TORCH_STREAM_ASKED) {
    SLIP_RETURN_IF_ERROR(op->options.ask(op->options.user, op->device.ordinal, &current, out));
  } else if (!shim->aoti_torch_get_current_cuda_stream || shim->aoti_torch_get_current_device_index(&current) != 0 ||
             shim->aoti_torch_get_current_cuda_stream(op->device.ordinal, out) != 0) {
    return SLIP_STATUS(SLIP_CODE_DEVICE, "%s: PyTorch does not tell its current CUDA device and stream", op->name);
  } else if (!*out) {
    // PyTorch's 0 is CUDA's legacy default stream, which a launch wants by its name (cudaStreamLegacy).
    *out = (slip_stream_t)(uintptr_t)1;
  }
  if (current == op->device.ordinal) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "%s: the current device is %" PRId32 ", but the tensors are on device %d; call it with that device current", op->name,
                     current, op->device.ordinal);
}

// |*inout_owned| becomes false when the launch has taken over the tensor handles.
static slip_status_t slip__torch_op_launch(const slip__torch_op_t *op, const uint64_t *stack, const slip_frame_t *frame,
                                           bool *inout_owned) {
  slip_launch_record_t record = {
      .struct_size = (uint32_t)sizeof(record), .id = op->options.id, .context = op->options.context, .frame = frame};
  SLIP_RETURN_IF_ERROR(slip__torch_op_stream(op, &record.stream));
  if (op->options.hold) {
    const size_t size = sizeof(slip__torch_held_t) + op->param_count * sizeof(slip__torch_tensor_t);
    slip__torch_held_t *held = slip__torch_allocate(size);
    if (!held) return slip_status_from_code(SLIP_CODE_OUT_OF_MEMORY);
    held->size_bytes = size;
    for (size_t i = 0; i < op->param_count; ++i) {
      if (slip_signature_param(op->options.signature, i)->direction != SLIP_DIRECTION_SCALAR) {
        held->handles[held->count++] = slip__torch_stack_tensor(stack, i);
      }
    }
    record.release = slip__torch_held_release;
    record.user = held;
    *inout_owned = false;
  }
  return slip_launch(&record, NULL);
}

// Runs inside the shim's try and catch.
static void slip__torch_bump(int64_t begin, int64_t end, void *handle) {
  (void)begin;
  (void)end;
  slip__torch_shim._ZN5torch8autograd4impl12bump_versionERKN2at6TensorE(handle);
}

bool slip__torch_tensor_written(slip__torch_tensor_t handle) {
  return slip__torch_shim.torch_parallel_for(0, 1, 1, slip__torch_bump, handle) == 0;
}

// Autograd must learn that tensors change: one that was saved for a derivative would give wrong gradients in silence.
static slip_status_t slip__torch_op_mark(const slip__torch_op_t *op, const uint64_t *stack) {
  for (size_t i = 0; i < op->param_count && slip__torch_shim.believes_version; ++i) {
    const slip_param_t *param = slip_signature_param(op->options.signature, i);
    if (param->direction != SLIP_DIRECTION_OUT && param->direction != SLIP_DIRECTION_INOUT) continue;
    if (!slip__torch_tensor_written(slip__torch_stack_tensor(stack, i))) {
      return SLIP_STATUS(
          SLIP_CODE_INVALID_ARGUMENT,
          "%s: parameter %zu '%s' (%s): an inference tensor, which PyTorch lets nobody write outside of inference mode; call "
          "it under torch.inference_mode(), or pass a clone",
          op->name, i, param->name, param->direction == SLIP_DIRECTION_OUT ? "out" : "inout");
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__torch_op_frame(const slip__torch_op_t *op, const uint64_t *stack, slip__torch_arguments_t arguments,
                                          bool *inout_owned) {
  slip_frame_t frame;
  const bool grad = slip__torch_shim.aoti_torch_grad_mode_is_enabled();
  SLIP_RETURN_IF_ERROR(slip__torch_op_read(op, stack, grad, arguments));
  slip_status_t status = slip_frame_initialize(&frame, op->options.signature, op->name, op->device, arguments.args, op->param_count,
                                               grad ? SLIP_FRAME_GRAD_ENABLED : SLIP_FRAME_NONE);
  if (slip_status_is_ok(status)) status = slip__torch_op_mark(op, stack);
  if (slip_status_is_ok(status)) status = slip__torch_op_launch(op, stack, &frame, inout_owned);
  slip_frame_deinitialize(&frame);
  return status;
}

static slip_status_t slip__torch_op_call(const slip__torch_op_t *op, const uint64_t *stack, bool *inout_owned) {
  slip_arg_t args[SLIP_TORCH_INLINE_PARAMS];
  slip_tensor_t tensors[SLIP_TORCH_INLINE_PARAMS];
  slip__torch_arguments_t arguments = {args, tensors};
  if (op->param_count <= SLIP_TORCH_INLINE_PARAMS) return slip__torch_op_frame(op, stack, arguments, inout_owned);

  const size_t size = op->param_count * (sizeof(slip_arg_t) + sizeof(slip_tensor_t));
  void *memory = slip__torch_allocate(size);
  if (!memory) return slip_status_from_code(SLIP_CODE_OUT_OF_MEMORY);
  arguments.tensors = memory;
  arguments.args = (slip_arg_t *)(void *)(arguments.tensors + op->param_count);
  slip_status_t status = slip__torch_op_frame(op, stack, arguments, inout_owned);
  slip__torch_free(memory, size);
  return status;
}

static slip_status_t slip__torch_op_enter(const slip__torch_op_t *op, const uint64_t *stack, bool *inout_owned) {
  if (!slip__torch_gate_enter(op->options.gate)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "%s: called after close; call init() and load the artifact again", op->name);
  }
  slip_status_t status = slip__torch_op_call(op, stack, inout_owned);
  slip__torch_gate_leave(op->options.gate);
  return status;
}

// Runs a call whose arguments lie in |flat|, one a parameter, and gives up the tensors in it.
static slip_status_t slip__torch_op_consume(const slip__torch_op_t *op, const uint64_t *flat) {
  bool owned = true;
  slip_status_t status = slip__torch_op_enter(op, flat, &owned);
  for (size_t i = 0; owned && i < op->param_count; ++i) {
    if (slip_signature_param(op->options.signature, i)->direction != SLIP_DIRECTION_SCALAR) {
      slip__torch_shim.aoti_torch_delete_tensor_object(slip__torch_stack_tensor(flat, i));
    }
  }
  return status;
}

// The same for an operator with a tensor list: takes the list apart, whose elements are then ours.
static slip_status_t slip__torch_op_unpack(const slip__torch_op_t *op, const uint64_t *stack) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  uint64_t flat[SLIP_ENTRY_MAX_TENSORS + SLIP_ENTRY_MAX_SCALARS];
  const size_t first = (size_t)op->options.packed_first, count = (size_t)op->options.packed_count;
  slip__torch_list_t list;
  size_t size = 0;
  memcpy(&list, &stack[first], sizeof(list));
  int32_t wrong = shim->torch_list_size(list, &size);
  for (size_t i = 0; i < size && i < count && !wrong; ++i) wrong = shim->torch_list_get_item(list, i, &flat[first + i]);
  if (!wrong && size == count) {
    for (size_t i = 0; i < first; ++i) flat[i] = stack[i];
    for (size_t i = first + count; i < op->param_count; ++i) flat[i] = stack[i - count + 1];
    shim->torch_delete_list(list);
    return slip__torch_op_consume(op, flat);
  }
  // Refused: whatever came is still ours to give back.
  for (size_t i = 0; i < size; ++i) {
    uint64_t item;
    if (shim->torch_list_get_item(list, i, &item) == 0) shim->aoti_torch_delete_tensor_object(slip__torch_stack_tensor(&item, 0));
  }
  shim->torch_delete_list(list);
  for (size_t i = 0; i < op->param_count; ++i) {
    const bool listed = i >= first && i < first + count;
    if (!listed && slip_signature_param(op->options.signature, i)->direction != SLIP_DIRECTION_SCALAR) {
      shim->aoti_torch_delete_tensor_object(slip__torch_stack_tensor(stack, i < first ? i : i - count + 1));
    }
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: the list of inputs has %zu tensors, expected %zu; pass one for each parameter",
                     op->name, size, count);
}

// The callee owns what is on the stack. A failure leaves as the C++ exception that the shim throws for us, when nothing is held any more;
// it passes through this frame, which therefore has unwind tables (-fexceptions) and no cleanup.
static void slip__torch_op_run(int32_t index, uint64_t *stack, uint64_t input_count) {
  const slip__torch_op_t *op = &slip__torch_ops[index];
  slip_status_t status;
  if (__builtin_expect(input_count != op->slot_count, 0)) {  // PyTorch checks it; were it ever wrong, a leak is better than a guess
    status = SLIP_STATUS(SLIP_CODE_INTERNAL, "%s: PyTorch passes %" PRIu64 " arguments, expected %" PRIu32, op->name, input_count,
                         op->slot_count);
  } else {
    status = op->options.packed_count ? slip__torch_op_unpack(op, stack) : slip__torch_op_consume(op, stack);
  }
  if (__builtin_expect(slip_status_is_ok(status), 1)) return;
  slip__torch_failure_set(status);
  slip__torch_shim.aoti_torch_check(false, op->name, "slipstream", 0, slip__torch_failure.text);
}

// The entry points: slip__torch_entry_00 to slip__torch_entry_FF.
#define SLIP_TORCH_ENTRY(n)                                                                         \
  static void slip__torch_entry_##n(uint64_t *stack, uint64_t input_count, uint64_t output_count) { \
    (void)output_count;                                                                             \
    slip__torch_op_run(0x##n, stack, input_count);                                                  \
  }
#define SLIP_TORCH_NAME(n) slip__torch_entry_##n,
#define SLIP_TORCH_16(X, h) \
  X(h##0) X(h##1) X(h##2) X(h##3) X(h##4) X(h##5) X(h##6) X(h##7) X(h##8) X(h##9) X(h##A) X(h##B) X(h##C) X(h##D) X(h##E) X(h##F)
#define SLIP_TORCH_256(X) \
  SLIP_TORCH_16(X, 0)     \
  SLIP_TORCH_16(X, 1)     \
  SLIP_TORCH_16(X, 2)     \
  SLIP_TORCH_16(X, 3)     \
  SLIP_TORCH_16(X, 4)     \
  SLIP_TORCH_16(X, 5)     \
  SLIP_TORCH_16(X, 6)     \
  SLIP_TORCH_16(X, 7)     \
  SLIP_TORCH_16(X, 8)     \
  SLIP_TORCH_16(X, 9)     \
  SLIP_TORCH_16(X, A) SLIP_TORCH_16(X, B) SLIP_TORCH_16(X, C) SLIP_TORCH_16(X, D) SLIP_TORCH_16(X, E) SLIP_TORCH_16(X, F)
SLIP_TORCH_256(SLIP_TORCH_ENTRY)
static const slip__torch_kernel_t slip__torch_entries[SLIP_TORCH_OPS] = {SLIP_TORCH_256(SLIP_TORCH_NAME)};

slip__torch_kernel_t slip__torch_op_kernel(int32_t op) {
  return op >= 0 && op < SLIP_TORCH_OPS ? slip__torch_entries[op] : NULL;
}

int32_t slip__torch_op_create(const slip__torch_op_options_t *options) {
  const size_t count = slip_signature_param_count(options->signature);
  if (slip__torch_op_count == SLIP_TORCH_OPS || count > SLIP_ENTRY_MAX_TENSORS + SLIP_ENTRY_MAX_SCALARS) return -1;
  if (options->packed_count &&
      (!slip__torch_shim.torch_list_size || !slip__torch_shim.torch_list_get_item || !slip__torch_shim.torch_delete_list)) {
    return -1;
  }
  slip__torch_op_t *op = &slip__torch_ops[slip__torch_op_count];
  op->options = *options;
  snprintf(op->name, sizeof(op->name), "%s", options->name);
  op->options.name = op->name;
  op->param_count = (uint32_t)count;
  op->slot_count = options->packed_count ? op->param_count - (uint32_t)options->packed_count + 1 : op->param_count;
  op->device = slip_context_device(options->context);
  return slip__torch_op_count++;
}

void slip__torch_op_probe(uint64_t *stack, uint64_t input_count, uint64_t output_count) {
  (void)input_count;
  (void)output_count;
  slip__torch_tensor_t handle = slip__torch_stack_tensor(stack, 0);
  const bool answer = slip__torch_requires_grad(handle);
  slip__torch_shim.aoti_torch_delete_tensor_object(handle);
  stack[0] = answer;
}

void slip__torch_op_bump_probe(uint64_t *stack, uint64_t input_count, uint64_t output_count) {
  (void)input_count;
  (void)output_count;
  slip__torch_tensor_t handle = slip__torch_stack_tensor(stack, 0);
  const bool written = slip__torch_tensor_written(handle);
  slip__torch_shim.aoti_torch_delete_tensor_object(handle);
  slip__torch_shim.aoti_torch_check(written, "bump", "slipstream", 0, "an inference tensor outside of inference mode");
}
