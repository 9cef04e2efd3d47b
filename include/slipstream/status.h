// SPDX-License-Identifier: Apache-2.0
// Status: what every fallible function returns.
//
// NULL is success and costs nothing. A failure is a code (what the caller may do next), a sentence, the place that made it and the
// annotations added on the way up. Failures own memory: give each to slip_status_free() once, or return it. When memory for the text is
// short the status degrades to its bare code, held in the pointer itself; every function here accepts such a value.
//
// A status object is thread-compatible: one thread at a time.
#ifndef SLIPSTREAM_STATUS_H_
#define SLIPSTREAM_STATUS_H_

#include "slipstream/base.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_status_s *slip_status_t;
typedef int32_t slip_code_t;

// X(NAME, number, meaning). Numbers are stable for ever.
#define SLIP_CODE_TABLE(X)                                                                         \
  X(OK, 0, "success")                                                                              \
  X(INTERNAL, -1, "a promise of a platform or of this library was broken")                         \
  X(UNSUPPORTED, -2, "the capability is absent here; the caller may fall back")                    \
  X(INCOMPATIBLE, -3, "artifact, target, contract or build identity does not match; recompile")    \
  X(INVALID_ARGUMENT, -4, "the call is wrong; nothing happened")                                   \
  X(INVALID_STATE, -5, "the call is right but comes at the wrong time; nothing happened")          \
  X(MODE_CONFLICT, -6, "the process is already claimed for the other mode")                        \
  X(CONFLICT, -7, "the context is already open with other options")                                \
  X(RECURSIVE, -8, "open was called from inside an open on the same thread")                       \
  X(FORKED, -9, "the process was forked after the parent had claimed kernel mode; use spawn")      \
  X(CAPTURE_UNSUPPORTED, -10, "not allowed while a stream is capturing; nothing happened")         \
  X(OUT_OF_MEMORY, -11, "memory is short")                                                         \
  X(NOT_FOUND, -12, "no such object")                                                              \
  X(IO, -13, "the operating system refused a file operation")                                      \
  X(CORRUPT, -14, "bytes are not what their format promises")                                      \
  X(TIMEOUT, -15, "the time given ran out")                                                        \
  X(CANCELLED, -16, "stopped on request")                                                          \
  X(NOT_READY, -17, "not finished yet")                                                            \
  X(BUSY, -18, "in use at the moment; try again")                                                  \
  X(DEVICE, -20, "the device or its driver reported an error; see the platform code")              \
  X(POISONED, -21, "an earlier error made the context unusable; only close works")                 \
  X(NOT_PREPARED, -1004, "the callable id is unknown, released or of another context")             \
  X(CAPACITY_COUNT, -1005, "too many prepared callables")                                          \
  X(CAPACITY_BYTES, -1006, "too many resident bytes")                                              \
  X(CAPACITY_IMAGE, -1007, "the image alone exceeds the resident limit")                           \
  X(GRAPH_SCOPE_DEADLOCK, -1101, "the submitter waits for what only its own scope's end can free") \
  X(GRAPH_HEAP_EXHAUSTED, -1102, "an intermediate does not fit the heap ring")                     \
  X(GRAPH_WINDOW_EXHAUSTED, -1103, "the task window is full and cannot drain")                     \
  X(GRAPH_DEPENDENCY_POOL, -1104, "the dependency pool is full and cannot drain")                  \
  X(GRAPH_INVALID_TASK, -1105, "a submitted task has wrong arguments")                             \
  X(GRAPH_TOO_MANY_DEPENDENCIES, -1106, "a task names more dependencies than a task may have")     \
  X(GRAPH_GANG_TOO_LARGE, -1107, "a gang start asks for more cores than there are")                \
  X(GRAPH_ELEMENT_TIMEOUT, -1108, "an element read or write waited too long for its producer")     \
  X(GRAPH_USER_FAIL, -1109, "the orchestration called fail()")                                     \
  X(GRAPH_STALLED, -1110, "the scheduler made no progress")                                        \
  X(GRAPH_KERNEL_FAULT, -1111, "a kernel faulted")                                                 \
  X(GRAPH_PREDICATE_UNREADABLE, -1112, "a dispatch predicate's tensor cannot be read")             \
  X(GRAPH_STALE_TENSOR, -1113, "a tensor was used after the scope that made it had ended")

typedef enum slip_code_e {
#define SLIP_CODE_ENUM(name, number, meaning) SLIP_CODE_##name = (number),
  SLIP_CODE_TABLE(SLIP_CODE_ENUM)
#undef SLIP_CODE_ENUM
} slip_code_e;

static inline slip_status_t slip_ok_status(void) {
  return (slip_status_t)0;
}
static inline bool slip_status_is_ok(slip_status_t status) {
  return status == (slip_status_t)0;
}

// The failure |code| without text: allocates nothing, so it suits answers that are no news (NOT_READY from a query).
static inline slip_status_t slip_status_from_code(slip_code_t code) {
  return code == 0 ? (slip_status_t)0 : (slip_status_t)(((uintptr_t)(intptr_t)code << 1) | 1u);
}

// The code; SLIP_CODE_OK for NULL.
SLIP_API slip_code_t slip_status_code(slip_status_t status);
// The vendor's own error number beside SLIP_CODE_DEVICE (errno beside SLIP_CODE_IO); 0 if there is none.
SLIP_API int64_t slip_status_platform_code(slip_status_t status);
// "INVALID_ARGUMENT" and so on; "UNKNOWN" for other numbers. Static storage.
SLIP_API const char *slip_code_name(slip_code_t code);
// The meaning column of SLIP_CODE_TABLE; "" for other numbers. Static storage.
SLIP_API const char *slip_code_meaning(slip_code_t code);
// The first sentence, without annotations; "" for OK. Borrowed from |status|.
SLIP_API const char *slip_status_message(slip_status_t status);

// Makes a failure. |file| must have static storage. |code| OK gives NULL. Never fails: degrades to the bare code when memory is short.
SLIP_API slip_status_t slip_status_make(slip_code_t code, int64_t platform_code, const char *file, uint32_t line, const char *format,
                                        ...) SLIP_MUST_USE SLIP_PRINTF(5, 6);
// Adds context ("preparing for cpu:0") to a failure and returns it; OK stays OK. Consumes |status|.
SLIP_API slip_status_t slip_status_annotate(slip_status_t status, const char *format, ...) SLIP_MUST_USE SLIP_PRINTF(2, 3);
// The first failure with the second one kept as its follow-up; what the first tells already (same code, platform code and sentence) is not
// told twice, only its annotations are added. Consumes both; either may be OK.
SLIP_API slip_status_t slip_status_join(slip_status_t first, slip_status_t second) SLIP_MUST_USE;
// A deep copy; the original stays with its owner.
SLIP_API slip_status_t slip_status_clone(slip_status_t status) SLIP_MUST_USE;
// Releases a status. OK is fine.
SLIP_API void slip_status_free(slip_status_t status);
// Writes "CODE: sentence; annotation; ... [file:line]" into |buffer|, always terminated when |capacity| > 0, follow-ups included.
// Returns the full length without the terminator, as snprintf does. |buffer| may be NULL with |capacity| 0.
SLIP_API size_t slip_status_format(slip_status_t status, char *buffer, size_t capacity);

#define SLIP_STATUS(code, ...)                         slip_status_make((code), 0, __FILE__, __LINE__, __VA_ARGS__)
#define SLIP_STATUS_PLATFORM(code, platform_code, ...) slip_status_make((code), (platform_code), __FILE__, __LINE__, __VA_ARGS__)

// Returns from the calling function when |expression| is a failure; further arguments annotate it first.
#define SLIP_RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                            \
    slip_status_t slip_return_status_ = (expression);                                             \
    if (__builtin_expect(slip_return_status_ != (slip_status_t)0, 0)) return slip_return_status_; \
  } while (0)
#define SLIP_RETURN_IF_ERROR_ANNOTATED(expression, ...)                                                                              \
  do {                                                                                                                               \
    slip_status_t slip_return_status_ = (expression);                                                                                \
    if (__builtin_expect(slip_return_status_ != (slip_status_t)0, 0)) return slip_status_annotate(slip_return_status_, __VA_ARGS__); \
  } while (0)

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_STATUS_H_
