// SPDX-License-Identifier: Apache-2.0
// Operators of PyTorch that run a prepared callable.
//
// A kernel of PyTorch's C shim is a bare function, without a pointer of ours beside it. So there is a table of SLIP_TORCH_OPS operators,
// and for each of its places one function that knows the place's number.
//
// A place is written once, by create under the GIL, and published by registering its entry point; it is never used again, since PyTorch may
// hold on to the function.
//
// What a call uses belongs to a context, which is destroyed when it is closed. So each context has a gate, which is never given back:
//
//   call                                      close
//   users += 1            (seq_cst)           shut = 1                 (seq_cst)
//   shut? users -= 1, refuse (seq_cst)        wait until users is 0    (seq_cst), then close and destroy the context
//   use the context
//   users -= 1            (release)           ... which pairs with the load that sees 0
//
// Each side writes its own word before it reads the other's, in one total order: either the call sees the gate shut, or close sees the
// call.
#ifndef SLIPSTREAM_PYTHON_TORCH_OP_H_
#define SLIPSTREAM_PYTHON_TORCH_OP_H_

#include <stdatomic.h>

#include "shim.h"
#include "slipstream/slipstream.h"

#define SLIP_TORCH_OPS 256

typedef struct slip__torch_gate_t {
  _Atomic uint32_t users;
  _Atomic uint32_t shut;
} slip__torch_gate_t;

// Zeroed memory by the system's allocator; usable without the GIL. NULL when memory is short.
void *slip__torch_allocate(size_t size_bytes);
void slip__torch_free(void *memory, size_t size_bytes);

// A new open gate; NULL when memory is short. Never freed.
slip__torch_gate_t *slip__torch_gate_create(void);
// True: leave must follow.
bool slip__torch_gate_enter(slip__torch_gate_t *gate);
void slip__torch_gate_leave(slip__torch_gate_t *gate);
// Shuts the gate and waits until nobody is inside. Blocks: not with the GIL, not from inside. A second time is fine.
void slip__torch_gate_shut(slip__torch_gate_t *gate);
// After a close that did nothing: the context is as it was.
void slip__torch_gate_open(slip__torch_gate_t *gate);

typedef enum slip__torch_stream_e {
  SLIP_TORCH_STREAM_INLINE = 0,  // cpu: on the calling thread
  SLIP_TORCH_STREAM_CUDA = 1,    // PyTorch's current CUDA stream
  SLIP_TORCH_STREAM_ASKED = 2,   // what |ask| answers
} slip__torch_stream_e;

typedef struct slip__torch_op_options_t {
  slip__torch_gate_t *gate;  // of |context|
  slip_context_t *context;
  slip_signature_t *signature;
  const char *name;
  int32_t id;
  int32_t stream;        // slip__torch_stream_e
  uint16_t privateuse1;  // slip_platform_e that PyTorch's PrivateUse1 device stands for here
  int32_t packed_first;  // the parameters that PyTorch passes as one list, from here ...
  int32_t packed_count;  // ... so many; 0: none
  bool hold;             // keep the tensors until the device is done with them: for memory whose release is not ordered by the stream
  // SLIP_TORCH_STREAM_ASKED: the current device and stream. May take the GIL; called with no lock held, and after all other checks.
  slip_status_t (*ask)(void *user, int32_t device, int32_t *out_current, slip_stream_t *out_stream);
  void *user;
} slip__torch_op_options_t;

// Describes the tensor behind |handle|, which stays the caller's. |grad|: whether to ask if it requires grad. |index|, |param| and |name|
// are for messages. INVALID_ARGUMENT for what no slip_tensor_t can say: sparse and other layouts, more than SLIP_MAX_RANK dims, other
// dtypes.
slip_status_t slip__torch_tensor_read(slip__torch_tensor_t handle, bool grad, uint16_t privateuse1, const char *name, size_t index,
                                      const slip_param_t *param, slip_tensor_t *out) SLIP_MUST_USE;

// Takes a place; returns its number, or -1 if all are taken or this PyTorch cannot pass what the operator wants. Copies |options| and its
// name. Under the GIL.
int32_t slip__torch_op_create(const slip__torch_op_options_t *options);
// The function that PyTorch calls for |op|.
slip__torch_kernel_t slip__torch_op_kernel(int32_t op);
// (Tensor x) -> bool: whether |x| requires grad, as the calls see it.
void slip__torch_op_probe(uint64_t *stack, uint64_t input_count, uint64_t output_count);

// Tells autograd that the tensor behind |handle| is written. False for an inference tensor outside of inference mode, which PyTorch lets
// nobody write. Only where the shim has what it needs.
bool slip__torch_tensor_written(slip__torch_tensor_t handle);
// (Tensor(a!) x) -> (): does that.
void slip__torch_op_bump_probe(uint64_t *stack, uint64_t input_count, uint64_t output_count);

// The calling thread's last refused or failed call, for whoever turns it into a typed exception; |code| 0 if there is none.
typedef struct slip__torch_failure_t {
  int32_t code;
  int64_t platform_code;
  char text[2048];
} slip__torch_failure_t;
extern _Thread_local slip__torch_failure_t slip__torch_failure;
// Stores and frees |status|.
void slip__torch_failure_set(slip_status_t status);

#endif  // SLIPSTREAM_PYTHON_TORCH_OP_H_
