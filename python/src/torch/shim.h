// SPDX-License-Identifier: Apache-2.0
// PyTorch's C shim ("libtorch stable ABI"), bound at run time, and tensors read by it. Compiled into both extensions: _torch for the
// operators, _core for tensors that come as Python objects. Each has a table of its own.
//
// The prototypes are this library's own declarations of published C functions; nothing of PyTorch is included or linked. They are resolved
// together from the libtorch_cpu that the process has loaded, and published only if all required ones are there.
#ifndef SLIPSTREAM_PYTHON_TORCH_SHIM_H_
#define SLIPSTREAM_PYTHON_TORCH_SHIM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slipstream/tensor.h"

typedef struct slip__torch_tensor_s *slip__torch_tensor_t;    // AtenTensorHandle
typedef struct slip__torch_library_s *slip__torch_library_t;  // TorchLibraryHandle
typedef struct slip__torch_list_s *slip__torch_list_t;        // StableListHandle
typedef void (*slip__torch_kernel_t)(uint64_t *stack, uint64_t input_count, uint64_t output_count);

// X(result, name, parameters): since 2.9. Functions that return int32_t give 0 on success.
#define SLIP_TORCH_REQUIRED(X)                                                                                            \
  X(uint64_t, aoti_torch_abi_version, (void))                                                                             \
  X(int32_t, aoti_torch_get_data_ptr, (slip__torch_tensor_t, void **))                                                    \
  X(int32_t, aoti_torch_get_storage_size, (slip__torch_tensor_t, int64_t *))                                              \
  X(int32_t, aoti_torch_get_storage_offset, (slip__torch_tensor_t, int64_t *))                                            \
  X(int32_t, aoti_torch_get_dim, (slip__torch_tensor_t, int64_t *))                                                       \
  X(int32_t, aoti_torch_get_sizes, (slip__torch_tensor_t, int64_t **))                                                    \
  X(int32_t, aoti_torch_get_strides, (slip__torch_tensor_t, int64_t **))                                                  \
  X(int32_t, aoti_torch_get_dtype, (slip__torch_tensor_t, int32_t *))                                                     \
  X(int32_t, aoti_torch_get_device_type, (slip__torch_tensor_t, int32_t *))                                               \
  X(int32_t, aoti_torch_get_device_index, (slip__torch_tensor_t, int32_t *))                                              \
  X(int32_t, aoti_torch_get_layout, (slip__torch_tensor_t, int32_t *))                                                    \
  X(int32_t, aoti_torch_delete_tensor_object, (slip__torch_tensor_t))                                                     \
  X(int32_t, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, slip__torch_library_t *)) \
  X(int32_t, aoti_torch_library_init_fragment, (const char *, const char *, uint32_t, slip__torch_library_t *))           \
  X(int32_t, aoti_torch_library_def, (slip__torch_library_t, const char *))                                               \
  X(int32_t, aoti_torch_library_impl, (slip__torch_library_t, const char *, slip__torch_kernel_t))                        \
  X(int32_t, aoti_torch_delete_library_object, (slip__torch_library_t))                                                   \
  X(int32_t, aoti_torch_get_current_device_index, (int32_t *))                                                            \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                                                                        \
  X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))                                   \
  X(int32_t, aoti_torch_layout_strided, (void))                                                                           \
  X(int32_t, aoti_torch_device_type_cpu, (void))                                                                          \
  X(int32_t, aoti_torch_device_type_cuda, (void))                                                                         \
  X(int32_t, aoti_torch_device_type_meta, (void))                                                                         \
  X(int32_t, aoti_torch_device_type_privateuse1, (void))

// X(result, name, parameters): NULL where this PyTorch has none.
//   torch_library_impl                    2.10; the same with the version that the extension was built for
//   aoti_torch_get_current_cuda_stream    CUDA builds; in libtorch_cuda
//   torch_parallel_for                   2.10; used for its try and catch: it turns what a C++ function throws into a code
// Three are no part of the stable ABI, but exported functions of one pointer. They are believed only after probes with known tensors have
// answered rightly (_torch: op.h; _core: direct.c):
//   _ZNK3c1010TensorImpl13requires_gradEv   c10::TensorImpl::requires_grad() const, of libc10
//   _ZN5torch8autograd4impl12bump_versionERKN2at6TensorE   torch::autograd::impl::bump_version(const at::Tensor &)
//   _ZN2at6native6is_negERKNS_6TensorE      at::native::is_neg(const at::Tensor &)
//   aoti_torch__reinterpret_tensor       another tensor of the same storage; AOTInductor's part of the shim, which is kept as stable
//   torch_list_...                        2.10; needed for operators with a tensor list
#define SLIP_TORCH_OPTIONAL(X)                                                                            \
  X(int32_t, torch_library_impl, (slip__torch_library_t, const char *, slip__torch_kernel_t, uint64_t))   \
  X(int32_t, torch_list_size, (slip__torch_list_t, size_t *))                                             \
  X(int32_t, torch_list_get_item, (slip__torch_list_t, size_t, uint64_t *))                               \
  X(int32_t, torch_delete_list, (slip__torch_list_t))                                                     \
  X(int32_t, aoti_torch_get_current_cuda_stream, (int32_t, void **))                                      \
  X(int32_t, torch_parallel_for, (int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *)) \
  X(void, _ZN5torch8autograd4impl12bump_versionERKN2at6TensorE, (slip__torch_tensor_t))                   \
  X(int32_t, aoti_torch__reinterpret_tensor,                                                              \
    (slip__torch_tensor_t, int64_t, const int64_t *, const int64_t *, int64_t, slip__torch_tensor_t *))   \
  X(bool, _ZN2at6native6is_negERKNS_6TensorE, (slip__torch_tensor_t))                                     \
  X(bool, _ZNK3c1010TensorImpl13requires_gradEv, (const void *))

// X(slip dtype, shim's suffix): the number behind a name is the running PyTorch's.
#define SLIP_TORCH_DTYPES(X) \
  X(F32, float32)            \
  X(F16, float16)            \
  X(BF16, bfloat16)          \
  X(F64, float64)            \
  X(I8, int8)                \
  X(I16, int16)              \
  X(I32, int32)              \
  X(I64, int64)              \
  X(U8, uint8)               \
  X(U16, uint16)             \
  X(U32, uint32)             \
  X(U64, uint64)             \
  X(BOOL, bool)              \
  X(F8E4M3FN, float8_e4m3fn) \
  X(F8E5M2, float8_e5m2)     \
  X(F8E8M0, float8_e8m0fnu)  \
  X(F4E2M1X2, float4_e2m1fn_x2)

#define SLIP_TORCH_DTYPE_COUNT 64

typedef struct slip__torch_shim_t {
#define SLIP_TORCH_MEMBER(result, name, parameters) result(*name) parameters;
  SLIP_TORCH_REQUIRED(SLIP_TORCH_MEMBER)
  SLIP_TORCH_OPTIONAL(SLIP_TORCH_MEMBER)
#undef SLIP_TORCH_MEMBER
  uint8_t dtypes[SLIP_TORCH_DTYPE_COUNT];  // by PyTorch's number: slip_dtype_t, or NONE
  slip_tensor_t
      blank;  // what a description begins with: copied, since to store zeros compilers take a string instruction, which begins slowly
  int32_t strided;
  int32_t cpu;
  int32_t cuda;
  int32_t meta;
  int32_t privateuse1;
  bool believes_requires_grad;
  bool believes_version;
} slip__torch_shim_t;

// Empty until slip__torch_shim_load() has succeeded; constant after.
extern slip__torch_shim_t slip__torch_shim;

// Binds what the process has loaded as |cpu| (libtorch_cpu), |c10| and |cuda| (may be NULL): paths. Returns NULL, or the name of the
// library or symbol that is missing; nothing is bound then. Called with the GIL held; a second call does nothing.
const char *slip__torch_shim_load(const char *cpu, const char *c10, const char *cuda);

// Whether the bound PyTorch's ABI is one that this was written for: 2.9, the first with library functions, to before 3.0, which may mean
// other things by the same names.
bool slip__torch_shim_fits(void);

static inline bool slip__torch_requires_grad(slip__torch_tensor_t handle) {
  return slip__torch_shim._ZNK3c1010TensorImpl13requires_gradEv(*(void *const *)(const void *)handle);
}

// Describes the tensor behind |handle|, which stays the caller's, with its storage's bounds and without flags but FAKE (of a meta tensor,
// which has no address). |privateuse1|: slip_platform_e that PyTorch's PrivateUse1 device stands for. False, and nothing said, for what no
// slip_tensor_t can describe: see tensor.c for the reasons. Any thread.
bool slip__torch_describe(slip__torch_tensor_t handle, uint16_t privateuse1, slip_tensor_t *out);

#endif  // SLIPSTREAM_PYTHON_TORCH_SHIM_H_
