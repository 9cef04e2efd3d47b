// SPDX-License-Identifier: Apache-2.0
// Export marks, version and the few plain types every public header uses.
#ifndef SLIPSTREAM_BASE_H_
#define SLIPSTREAM_BASE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLIP_VERSION_MAJOR  0
#define SLIP_VERSION_MINOR  1
#define SLIP_VERSION_PATCH  0
#define SLIP_VERSION_STRING "0.1.0"

#ifdef __cplusplus
#define SLIP_EXTERN_C_BEGIN extern "C" {
#define SLIP_EXTERN_C_END   }
#else
#define SLIP_EXTERN_C_BEGIN
#define SLIP_EXTERN_C_END
#endif

// Marks exactly the public functions; everything else has hidden visibility.
#define SLIP_API __attribute__((visibility("default")))
// A returned status must be looked at or given to slip_status_free().
#define SLIP_MUST_USE                    __attribute__((warn_unused_result))
#define SLIP_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

#ifdef __cplusplus
// What the SLIP_..._INIT macros of growing structs are in C++, which has no designated initialisers before C++20 and warns of missing ones:
// zero but for |struct_size|.
template <typename T>
inline T slip_initial() {
  T result = T();
  result.struct_size = static_cast<uint32_t>(sizeof(T));
  return result;
}
#endif

SLIP_EXTERN_C_BEGIN

// Borrowed, read-only bytes. {NULL, 0} is the empty range.
typedef struct slip_const_bytes_t {
  const uint8_t *data;
  size_t size;
} slip_const_bytes_t;

// Bytes owned by whoever holds them; freed with the allocator that made them.
typedef struct slip_bytes_t {
  uint8_t *data;
  size_t size;
} slip_bytes_t;

// A memory allocator, passed by value. |control| does all three operations, told apart by its arguments:
//   allocate: |ptr| NULL, |new_size| > 0;  resize: both set (|alignment| as at allocation);  free: |new_size| 0, returns NULL.
// Returns NULL when memory is short. |old_size| is exact. |alignment| is a power of two, at least sizeof(void *).
// Must be callable from any thread, and must not call the library: locks are held.
typedef struct slip_allocator_t {
  void *self;
  void *(*control)(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment);
} slip_allocator_t;

// The C library's malloc family. Thread-safe.
SLIP_API slip_allocator_t slip_allocator_system(void);

// Version of the loaded library, "MAJOR.MINOR.PATCH"; static storage.
SLIP_API const char *slip_version(void);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_BASE_H_
