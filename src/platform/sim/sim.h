// SPDX-License-Identifier: Apache-2.0
// What the parts of the simulator share. One process-wide simulation; n devices.
//
//   part        holds                                                             lock
//   config.c    options, seed, limits, per-thread current device                  atomics, set at rest
//   report.c    violations, sticky device faults                                  its own, innermost
//   memory.c    the entries for memory; block.c, defined.c, use.c,
//               map.c: allocations, guards, definedness, uses in flight           memory lock
//   board.c     the lock, its waiting, its tables (board.h)                       the board
//   stream.c    streams and their queues; worker.c: their threads                 board
//   event.c     events: last record                                               board
//   capture.c   captures: one origin, one flat set of members, the nodes          board
//   graph.c     instantiated graphs and their executions                          board
//   module.c    loaded code                                                       its own, nothing is taken under it
//   control.c   slipstream/sim.h                                                  takes the others'
//   sim.c       the function table                                                -
//
// Lock order: board, memory, report. No lock is held while a host function, a device function or a retain's release runs.
#ifndef SLIPSTREAM_SRC_PLATFORM_SIM_SIM_H_
#define SLIPSTREAM_SRC_PLATFORM_SIM_SIM_H_

#include <stdatomic.h>

#include "os/thread.h"
#include "slipstream/platform/platform.h"
#include "slipstream/sim.h"

#define SLIP__SIM_MAX_DEVICES 16

// --- config.c
typedef struct slip__sim_config_t {
  uint32_t flavour;  // slip_sim_flavour_e
  int32_t device_count;
  uint64_t seed;
  uint64_t memory_bytes;
  uint64_t delay_ns;
  uint32_t max_streams;
  uint32_t max_events;
} slip__sim_config_t;

// Reads the environment once. INVALID_ARGUMENT names the variable; nothing is kept then and the next call reads again. Called by load.
slip_status_t slip__sim_config_load(void) SLIP_MUST_USE;
// Resolved at the first use from the environment (the defaults, where that is malformed); replaced by slip_sim_reset while everything
// rests.
const slip__sim_config_t *slip__sim_config(void);
// INVALID_ARGUMENT names the option or environment variable.
slip_status_t slip__sim_config_set(const slip_sim_options_t *options) SLIP_MUST_USE;
// What slip__sim_config_set would answer.
slip_status_t slip__sim_config_check(const slip_sim_options_t *options) SLIP_MUST_USE;
// The calling thread's: the top of its push stack, else what slip_sim_set_device chose, else 0.
int32_t slip__sim_current_device(void);
// What slip_sim_set_device chooses: the top of the stack if something was pushed.
void slip__sim_choose_device(int32_t device);
// OUT_OF_RESOURCES beyond a depth of 16. Pop: INVALID_CONTEXT unless |device| is what was pushed last.
slip_status_t slip__sim_device_push(int32_t device) SLIP_MUST_USE;
slip_status_t slip__sim_device_pop(int32_t device) SLIP_MUST_USE;
// INVALID_CONTEXT unless |device| is the calling thread's current one. Every call that names a device, or a stream or event of one, asks.
slip_status_t slip__sim_check_current(int32_t device, const char *call) SLIP_MUST_USE;
static inline bool slip__sim_is_ascend(void) {
  return slip__sim_config()->flavour == SLIP_SIM_FLAVOUR_ASCEND;
}

// Random decisions. |where| names the place (a stream, a call), |ordinal| counts there: the same seed decides alike at the same place.
uint64_t slip__sim_random(uint64_t where, uint64_t ordinal);
// Yields, spins or sleeps for up to config's delay.
void slip__sim_delay(uint64_t where, uint64_t ordinal);

// --- report.c
// Vendor numbers of one error in both flavours.
// X(NAME, cuda, ascend, text)
#define SLIP__SIM_ERROR_TABLE(X)                                                                \
  X(INVALID_VALUE, 1, 107000, "an argument is invalid")                                         \
  X(OUT_OF_MEMORY, 2, 207001, "out of memory")                                                  \
  X(INVALID_DEVICE, 101, 107001, "no such device")                                              \
  X(INVALID_CONTEXT, 201, 107002, "the calling thread's current device is another one")         \
  X(INVALID_HANDLE, 400, 107017, "the handle is stale or of another kind")                      \
  X(OUT_OF_RESOURCES, 701, 207005, "no more of these can be created")                           \
  X(ILLEGAL_ADDRESS, 700, 507015, "device code accessed memory that is not its own")            \
  X(LAUNCH_FAILED, 719, 507018, "device code failed")                                           \
  X(NOT_PERMITTED, 800, 107030, "this call is not allowed from a host or device function")      \
  X(CAPTURE_UNSUPPORTED, 900, 107030, "not allowed while a stream is capturing")                \
  X(CAPTURE_INVALIDATED, 901, 507903, "the capture was invalidated by an earlier error")        \
  X(CAPTURE_MERGE, 902, 107032, "two captures would be merged")                                 \
  X(CAPTURE_UNMATCHED, 903, 107036, "the capture did not begin on this stream")                 \
  X(CAPTURE_UNJOINED, 904, 107025, "a stream was forked into the capture and not joined again") \
  X(CAPTURE_ISOLATION, 905, 107024, "the event was recorded outside the capture")               \
  X(CAPTURE_IMPLICIT, 906, 107031, "the default stream cannot take part in a capture")          \
  X(CAPTURED_EVENT, 907, 107028, "the event was last recorded in a capture")                    \
  X(CAPTURE_WRONG_THREAD, 908, 107038, "the capture was begun by another thread")               \
  X(NOT_CAPTURING, 1, 107029, "the stream is not capturing")                                    \
  X(ALREADY_CAPTURING, 900, 107027, "the stream is capturing")                                  \
  X(COPY_WOULD_WAIT, 900, 107041, "an asynchronous copy would have to wait, which a capture cannot")

typedef enum slip__sim_error_e {
#define SLIP__SIM_ERROR_ENUM(name, cuda, ascend, text) SLIP__SIM_##name,
  SLIP__SIM_ERROR_TABLE(SLIP__SIM_ERROR_ENUM)
#undef SLIP__SIM_ERROR_ENUM
      SLIP__SIM_ERROR_COUNT
} slip__sim_error_e;

int64_t slip__sim_error_number(slip__sim_error_e error);
// A status with the flavour's number. Code: INVALID_ARGUMENT for values, handles, devices and contexts, OUT_OF_MEMORY for memory and
// resources, DEVICE for the rest. "sentence (vendor text)".
slip_status_t slip__sim_error(slip__sim_error_e error, const char *format, ...) SLIP_MUST_USE SLIP_PRINTF(2, 3);
// Records a violation of the rules by somebody's code. Breaks |device| if >= 0 and |fatal|.
void slip__sim_violation(int32_t device, bool fatal, slip__sim_error_e error, const char *format, ...) SLIP_PRINTF(4, 5);
// The sticky fault of a broken device, else OK. Every entry that touches a device asks.
slip_status_t slip__sim_check_device(int32_t device) SLIP_MUST_USE;
bool slip__sim_device_broken(int32_t device);
// Breaks a device without a violation; the first fault stays.
void slip__sim_device_break(int32_t device, slip__sim_error_e error, const char *sentence);
// Heals one device.
void slip__sim_device_heal(int32_t device);
// Forgets all violations and heals all devices.
void slip__sim_report_reset(void);
uint64_t slip__sim_violation_total(void);
// Text of the |index|th violation, as snprintf; 0 for what is not kept.
size_t slip__sim_violation_text(uint64_t index, char *buffer, size_t capacity);
void slip__sim_report_watch_fork(void);

// --- who is calling
typedef enum slip__sim_role_e {
  SLIP__SIM_ROLE_HOST,             // an ordinary thread
  SLIP__SIM_ROLE_HOST_FUNCTION,    // inside a host function of a stream: no call at all
  SLIP__SIM_ROLE_DEVICE_FUNCTION,  // inside a launched function: device_map and device_unmap only
} slip__sim_role_e;
// Set by stream.c around the functions it runs. (report.c)
extern _Thread_local slip__sim_role_e slip__sim_role;
// The device whose function is running on this thread; -1.
extern _Thread_local int32_t slip__sim_running_device;
// Device functions that run at this moment, by device; kept by stream.c.
extern _Atomic uint32_t slip__sim_running[SLIP__SIM_MAX_DEVICES];
// NOT_PERMITTED (and a violation) from inside a host or device function. First line of every entry but device_map and device_unmap.
slip_status_t slip__sim_enter(const char *call) SLIP_MUST_USE;

// Counts a call of the platform; |call| is a slip__platform_call_e (dispatch.h). (control.c)
void slip__sim_count(uint32_t call);
// Calls so far.
uint64_t slip__sim_call_total(void);

// --- memory.c (what a pointer may be used for, at the call) use.c and map.c (while it is used)
slip_status_t slip__sim_memory_allocate(int32_t device, uint64_t size_bytes, void **out) SLIP_MUST_USE;
slip_status_t slip__sim_memory_free(int32_t device, void *memory) SLIP_MUST_USE;
slip_status_t slip__sim_memory_copy(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) SLIP_MUST_USE;
slip_status_t slip__sim_memory_fill(int32_t device, void *target, uint8_t value, uint64_t size_bytes) SLIP_MUST_USE;
slip_status_t slip__sim_pointer_info(const void *pointer, slip_pointer_info_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_host_allocate(uint64_t size_bytes, void **out) SLIP_MUST_USE;
slip_status_t slip__sim_host_free(void *memory) SLIP_MUST_USE;
slip_status_t slip__sim_device_map(int32_t device, void *address, uint64_t size_bytes, uint32_t access, void **out_view) SLIP_MUST_USE;
slip_status_t slip__sim_device_unmap(int32_t device, void *address, uint64_t size_bytes, uint32_t access) SLIP_MUST_USE;

// The calling thread's device function has returned: what it has mapped and not unmapped ends. (map.c)
void slip__sim_maps_end(void);

// A copy that a stream will execute later, checked when it is enqueued: both sides belong to live allocations of the kind that |kind| says
// (host sides of a capture must be page-locked; outside one, pageable host memory is allowed and copied at enqueue time for
// host-to-device).
typedef struct slip__sim_copy_t {
  void *target;
  const void *source;
  uint64_t size_bytes;
  uint32_t kind;
  void *staged;  // the bytes themselves, taken from pageable memory; owned by the operation; NULL
} slip__sim_copy_t;
// INVALID_VALUE, OUT_OF_MEMORY (staging). |capturing|: the copy becomes a node and will run many times.
slip_status_t slip__sim_copy_prepare(int32_t device, slip__sim_copy_t *copy, bool capturing) SLIP_MUST_USE;
// In a stream. Marks uses in flight while it copies. Memory that was freed meanwhile breaks the device; undefined bytes that reach the host
// are a violation.
void slip__sim_copy_execute(int32_t device, const slip__sim_copy_t *copy);
void slip__sim_copy_discard(slip__sim_copy_t *copy);
// Operations that are enqueued and will touch |pointer|'s allocation (a host or device side): freeing it meanwhile is a violation.
void slip__sim_memory_hold(const void *pointer);
void slip__sim_memory_release(const void *pointer);
void slip__sim_memory_statistics(slip_sim_statistics_t *out);
// Drops all allocations of |device| (device reset); -1: none alive is a precondition, tables are emptied.
void slip__sim_memory_reset(int32_t device);
void slip__sim_memory_watch_fork(void);

// --- stream.c, event.c, capture.c, graph.c: the table's entries of the same names (and more below). On a broken device they fail, but what
// is enqueued already completes: its copies and device functions are left out, its host functions run (a vendor's are left out too; here
// who counts on completion gets it).
slip_status_t slip__sim_stream_create(int32_t device, slip_stream_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_stream_destroy(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__sim_stream_synchronize(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__sim_stream_query(slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__sim_stream_device(slip_stream_t stream, int32_t *out_device) SLIP_MUST_USE;
slip_status_t slip__sim_stream_capture_info(slip_stream_t stream, slip_capture_info_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_stream_enqueue_host(slip_stream_t stream, void (*function)(void *user), void *user) SLIP_MUST_USE;
slip_status_t slip__sim_stream_launch(slip_stream_t stream, void (*run)(void *user), void *user) SLIP_MUST_USE;
slip_status_t slip__sim_stream_wait_event(slip_stream_t stream, slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__sim_memory_copy_async(slip_stream_t stream, void *target, const void *source, uint64_t size_bytes,
                                          uint32_t kind) SLIP_MUST_USE;
slip_status_t slip__sim_event_create(int32_t device, slip_event_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_event_destroy(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__sim_event_record(slip_event_t event, slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__sim_event_query(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__sim_event_synchronize(slip_event_t event) SLIP_MUST_USE;
slip_status_t slip__sim_thread_capture_info(slip_capture_info_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_capture_begin(slip_stream_t stream, uint32_t mode) SLIP_MUST_USE;
slip_status_t slip__sim_capture_end(slip_stream_t stream, slip_graph_exec_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_capture_retain(slip_stream_t stream, void (*release)(void *user), void *user) SLIP_MUST_USE;
slip_status_t slip__sim_graph_launch(slip_graph_exec_t graph, slip_stream_t stream) SLIP_MUST_USE;
slip_status_t slip__sim_graph_destroy(slip_graph_exec_t graph) SLIP_MUST_USE;

// For every call that is unsafe in a capture (allocate, free, blocking copies and fills, module load and unload, stream and event creation
// and destruction, synchronisation): CAPTURE_UNSUPPORTED if a capture forbids it to this thread, which in the cuda flavour invalidates that
// capture. Called before anything else changes.
slip_status_t slip__sim_check_unsafe(const char *call) SLIP_MUST_USE;
void slip__sim_stream_statistics(slip_sim_statistics_t *out);
slip_status_t slip__sim_stream_synchronize_device(int32_t device) SLIP_MUST_USE;
// Drops everything of |device| (-1: of all). What was enqueued is not done any more, except host functions.
void slip__sim_stream_reset(int32_t device);
// Before the other parts': locks are held across a fork in their order. (board.c)
void slip__sim_stream_watch_fork(void);

// --- module.c
slip_status_t slip__sim_module_load(int32_t device, slip_const_bytes_t binary, slip_module_t *out) SLIP_MUST_USE;
slip_status_t slip__sim_module_unload(slip_module_t module) SLIP_MUST_USE;
slip_status_t slip__sim_module_symbol(slip_module_t module, const char *name, void **out) SLIP_MUST_USE;
void slip__sim_module_statistics(slip_sim_statistics_t *out);
// Unloads all modules of |device|.
void slip__sim_module_reset(int32_t device);
void slip__sim_module_watch_fork(void);

#endif  // SLIPSTREAM_SRC_PLATFORM_SIM_SIM_H_
