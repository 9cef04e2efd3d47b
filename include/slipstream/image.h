// SPDX-License-Identifier: Apache-2.0
// Callable image: one contiguous, pointer-free, versioned byte image of a callable.
//
// slip_image_open() is the only parser: it validates everything (20.1) before any content is used, and the view it fills borrows from the
// bytes. A view is immutable and thread-safe while the bytes live.
#ifndef SLIPSTREAM_IMAGE_H_
#define SLIPSTREAM_IMAGE_H_

#include "slipstream/signature.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

#define SLIP_IMAGE_MAX_KERNELS 1024
#define SLIP_IMAGE_MAX_ENTRIES 64
#define SLIP_IMAGE_MAX_RETURNS 1024  // return aliases of one entry
#define SLIP_IMAGE_MAX_NAME    1024  // bytes of a name or of the build id, terminator not counted
#define SLIP_IMAGE_MAX_TARGET  63
#define SLIP_IMAGE_ALIGNMENT   64

typedef enum slip_contract_e {
  SLIP_CONTRACT_PROGRAM = 1,
  SLIP_CONTRACT_KERNEL = 2,
} slip_contract_e;

// How the device side of the image is executed.
typedef enum slip_runtime_kind_e {
  SLIP_RUNTIME_HOST_NATIVE = 1,     // native code in one loadable object, run by the task-graph engine on host threads (null, cpu, sim)
  SLIP_RUNTIME_DEVICE_KERNELS = 2,  // each kernel has a device binary of its own (cuda, ascend)
} slip_runtime_kind_e;

typedef struct slip_image_entry_t {
  const char *name;
  slip_signature_t *signature;  // lowered; packing: given by the caller. Reading: see slip_image_entry_signature()
} slip_image_entry_t;

typedef struct slip_image_kernel_t {
  const char *name;
  uint32_t function_id;  // index in the table
  uint32_t core;         // slip_core_e
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t scratch_bytes;
  uint32_t reserved;
  slip_const_bytes_t binary;  // empty where the kernel's code lies in the orchestration object (host-native)
} slip_image_kernel_t;

// What slip_image_pack() takes; everything is borrowed for the call.
typedef struct slip_image_desc_t {
  uint16_t platform;  // slip_platform_e
  uint16_t reserved0;
  uint32_t contract;      // slip_contract_e
  uint32_t runtime_kind;  // slip_runtime_kind_e
  uint32_t entry_count;
  const char *target;    // "x86-64-v3": letters, digits, _ + - . (not in front)
  const char *build_id;  // identity of the compiler build: printable ASCII, not empty
  const slip_image_entry_t *entries;
  const slip_image_kernel_t *kernels;
  uint32_t kernel_count;
  uint32_t reserved1;
  slip_const_bytes_t orchestration;
} slip_image_desc_t;

// A validated image. Plain data; needs no release. All pointers are into the image.
typedef struct slip_image_view_t {
  slip_const_bytes_t bytes;
  uint16_t platform;
  uint16_t reserved0;
  uint32_t contract;
  uint32_t runtime_kind;
  uint32_t entry_count;
  uint32_t kernel_count;
  uint32_t reserved1;
  const char *target;
  const char *build_id;
  slip_const_bytes_t orchestration;
  uint64_t content_hash[2];
  const void *internal[8];  // the library's own
} slip_image_view_t;

// Packs a canonical image: the same description gives the same bytes. |*out| is allocated with |allocator| at SLIP_IMAGE_ALIGNMENT, which
// its release must name again. A kernel-contract image has exactly one entry. Host-native: the orchestration is an ELF shared object and
// kernels have no binaries of their own; device kernels: each has one. INVALID_ARGUMENT names what is out of limits; OUT_OF_MEMORY. |*out|
// is empty on failure.
SLIP_API slip_status_t slip_image_pack(const slip_image_desc_t *desc, slip_allocator_t allocator, slip_bytes_t *out) SLIP_MUST_USE;
// Validates |bytes| completely. CORRUPT names the section and the offset; INCOMPATIBLE: another format version. |*out| is zeroed on
// failure. |bytes.data| may have any alignment. Pure; thread-safe; allocates nothing.
SLIP_API slip_status_t slip_image_open(slip_const_bytes_t bytes, slip_image_view_t *out) SLIP_MUST_USE;
// Name of entry |index| (NULL if out of range) and of kernel |index| with its facts (false if out of range).
SLIP_API const char *slip_image_entry_name(const slip_image_view_t *view, uint32_t index);
SLIP_API bool slip_image_kernel(const slip_image_view_t *view, uint32_t index, slip_image_kernel_t *out);
// A new signature object (one reference) for entry |index|. INVALID_ARGUMENT, OUT_OF_MEMORY.
SLIP_API slip_status_t slip_image_entry_signature(const slip_image_view_t *view, uint32_t index, slip_allocator_t allocator,
                                                  slip_signature_t **out) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_IMAGE_H_
