// SPDX-License-Identifier: Apache-2.0
// Kernel mode: open, prepare, launch, close on a borrowed device, stream and memory.
//
//   state            set by                                             then legal
//   UNINITIALIZED    (no context yet)                                   open
//   INITIALIZING     open, while it runs                                -
//   READY            open succeeded                                     prepare release launch drain close
//   FAILED           open failed after taking resources and could not give them back   close (may be repeated)
//   CLOSING          close began; it failed and is owed                 close (may be repeated)
//   CLOSED           close succeeded                                    destroy
//
// One context per device and process. All functions are thread-safe unless they say otherwise. In the child of a process that had claimed
// kernel mode every function that returns a status returns FORKED, touches nothing of the parent's and never blocks; those that return none
// do nothing or tell what the parent's context was at the fork.
//
// Ending. Whoever opened closes, while the device is still alive: a framework's adapter hooks the framework's own teardown (its shutdown
// function or an atexit handler that it registers after the framework's, which therefore runs before it), and there closes and destroys.
// There is no exit handler of our own that closes: it could not know whether the device is still there, and an exit may come from any
// thread, with launches in flight. A context still open when the process ends is left as it is, told in one line on stderr.
//
// A broken device (a sticky fault) cannot give anything back: each close returns DEVICE and keeps everything, until the process ends.
// Nothing here ever resets it. If somebody else did, the context's handles mean nothing any more: close then ends (CLOSED), and returns
// DEVICE once to tell so.
#ifndef SLIPSTREAM_CONTEXT_H_
#define SLIPSTREAM_CONTEXT_H_

#include "slipstream/artifact.h"
#include "slipstream/device.h"
#include "slipstream/frame.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_context_t slip_context_t;
typedef struct slip_ticket_t slip_ticket_t;

#define SLIP_RING_COUNT 4

typedef enum slip_context_state_e {
  SLIP_CONTEXT_UNINITIALIZED = 0,
  SLIP_CONTEXT_INITIALIZING = 1,
  SLIP_CONTEXT_READY = 2,
  SLIP_CONTEXT_FAILED = 3,
  SLIP_CONTEXT_CLOSING = 4,
  SLIP_CONTEXT_CLOSED = 5,
} slip_context_state_e;

// Zero always means "the default". Start from SLIP_CONTEXT_OPTIONS_INIT. Append-only.
typedef struct slip_context_options_t {
  uint32_t struct_size;
  int32_t device;                             // must be the caller's current device
  const char *platform;                       // NULL: "cpu"
  const char *target;                         // NULL: the best the device runs
  uint64_t generation;                        // 0: minted from the process-wide counter; at most INT64_MAX
  uint32_t task_window[SLIP_RING_COUNT];      // tasks in flight per scope depth: power of two in [4, INT32_MAX]; 0: 16384
  uint64_t heap_bytes[SLIP_RING_COUNT];       // intermediates per scope depth: >= 1024; 0: 64 MiB reserved, committed as used
  uint32_t dependency_pool[SLIP_RING_COUNT];  // in [4, INT32_MAX]; 0: 65536
  uint32_t scheduler_threads;       // workers, the launching thread included: 0 (as many as the process may use) or >= 2; 1 is spelled
                                    // SLIP_CONTEXT_SINGLE_THREAD
  uint32_t max_in_flight;           // run slots, at most 64; 0: 2
  uint32_t max_pending;             // launches enqueued and not yet retired, at most 2^20; 0: 1024
  uint32_t max_callables;           // at most 65536; 0: 1024
  uint64_t max_resident_bytes;      // sum of resident images; 0: 1 GiB
  uint64_t max_image_bytes;         // one image; 0: 256 MiB
  uint64_t workspace_budget_bytes;  // 0 (no limit) or >= 1024; borrowed tensors never count
  uint32_t runtime_kind;            // slip_runtime_kind_e; 0: the platform's own
  uint32_t diagnostics;             // collectors wanted (none exist yet: must be 0)
  const char *output_directory;     // needed when |diagnostics| is not 0
  uint32_t flags;                   // slip_context_bits_e
  uint32_t stall_timeout_ms;        // a launch in which nothing has happened and nothing can happen for so long ends with GRAPH_STALLED
                                    // (long kernels are no stall); 0: 500, UINT32_MAX: never
  slip_allocator_t allocator;       // {NULL, NULL}: the system's
  // Called by close and drain before anything else, to hand over what a framework still has in its own queue; may be NULL. It may launch;
  // it must not call close or drain (INVALID_STATE). If it fails, that drain or close returns its failure and the context stays as it was
  // (a poisoned one is closed all the same).
  slip_status_t (*synchronize_hook)(void *user);
  void *synchronize_user;
  uint32_t max_captured;  // launches recorded in graphs that are alive, at most 2^20; 0: 4096
  uint32_t max_captures;  // captures in progress at the same time that hold launches, at most 16; 0: 2. Platforms with helper streams only
} slip_context_options_t;

typedef enum slip_context_bits_e {
  SLIP_CONTEXT_NONE = 0,
  SLIP_CONTEXT_SINGLE_THREAD = 1,     // no worker threads: the launching thread does everything
  SLIP_CONTEXT_SKIP_BUILD_CHECK = 2,  // accept a platform whose build identity is missing or another one
  SLIP_CONTEXT_PIN_WORKERS = 4,       // each worker to a core of its own of the opening thread's mask, if there are more cores than workers
} slip_context_bits_e;

#ifdef __cplusplus
#define SLIP_CONTEXT_OPTIONS_INIT (slip_initial<slip_context_options_t>())
#else
#define SLIP_CONTEXT_OPTIONS_INIT \
  { .struct_size = (uint32_t)sizeof(slip_context_options_t) }
#endif

// Opens (or finds) the kernel-mode context of a device and claims the process for kernel mode. |options| NULL means all defaults.
//
// Everything is checked before anything is claimed. Identical options give the same context again; other options CONFLICT, naming the first
// differing field. Concurrent opens: one does the work, all get its result. Each success must be matched by one slip_context_destroy()
// after close. May block on device work; not allowed in a capture.
//
// |*out| is set whenever there is a context to close: on success, and when a failed open still owes teardown (state FAILED), which needs
// close and one slip_context_destroy() as well; else NULL.
// Status: INVALID_ARGUMENT, NOT_FOUND (platform), UNSUPPORTED, INCOMPATIBLE, MODE_CONFLICT, CONFLICT, RECURSIVE, FORKED,
// CAPTURE_UNSUPPORTED, OUT_OF_MEMORY, BUSY (closing right now), INVALID_STATE (an earlier close failed and must be repeated by whoever
// holds the context), DEVICE.
SLIP_API slip_status_t slip_context_open(const slip_context_options_t *options, slip_context_t **out) SLIP_MUST_USE;

SLIP_API slip_context_state_e slip_context_state(const slip_context_t *context);
// True only in READY. NULL is false. Never fails.
SLIP_API bool slip_context_initialized(const slip_context_t *context);
SLIP_API uint64_t slip_context_generation(const slip_context_t *context);
SLIP_API slip_device_t slip_context_device(const slip_context_t *context);

// Prepares |image| for launching and returns its id. The whole image is validated before any byte is used. Equal images get different ids;
// ids start at 0 and are never reused. |image| may be freed after return. On failure |*out_id| is -1 and the context is unchanged. May
// block on device work. Status: CORRUPT, INCOMPATIBLE (contract, platform, target, runtime kind), CAPACITY_COUNT, CAPACITY_BYTES,
// CAPACITY_IMAGE, BUSY (kernels need more scratch than is reserved, and launches are running), INVALID_STATE, CAPTURE_UNSUPPORTED, FORKED,
// OUT_OF_MEMORY, DEVICE.
SLIP_API slip_status_t slip_context_prepare(slip_context_t *context, slip_const_bytes_t image, int32_t *out_id) SLIP_MUST_USE;
// The artifact's effective image, after its contract was checked. Same states and codes, plus those of slip_artifact_image().
SLIP_API slip_status_t slip_context_prepare_artifact(slip_context_t *context, slip_artifact_t *artifact, int32_t *out_id) SLIP_MUST_USE;
// Ends |id|; residency returns once its launches have retired. The id stays dead, also when the platform fails to unload the code (DEVICE,
// IO): the bytes then stay resident until a later release, drain or close succeeds. NOT_PREPARED, INVALID_STATE, POISONED,
// CAPTURE_UNSUPPORTED.
SLIP_API slip_status_t slip_context_release(slip_context_t *context, int32_t id) SLIP_MUST_USE;
// The signature that frames for |id| are built with; one reference for the caller. NOT_PREPARED.
SLIP_API slip_status_t slip_context_signature(slip_context_t *context, int32_t id, slip_signature_t **out) SLIP_MUST_USE;

typedef enum slip_launch_bits_e {
  SLIP_LAUNCH_NONE = 0,
  SLIP_LAUNCH_NO_WAIT = 1,  // BUSY instead of waiting for one of max_pending places or, inline, of max_in_flight run slots
} slip_launch_bits_e;

// One launch as a plain record, for a framework's queue thread: it needs no interpreter, no allocation and no manager lock. A longer
// record, of a program built with a newer release, is taken as long as what this library does not know of it is zero: else
// INVALID_ARGUMENT, since something that was asked for would be left out.
typedef struct slip_launch_record_t {
  uint32_t struct_size;
  int32_t id;
  slip_context_t *context;
  const slip_frame_t *frame;  // borrowed until the call returns
  slip_stream_t stream;       // borrowed for the call, never stored beyond the launch
  uint32_t flags;             // slip_launch_bits_e
  uint32_t reserved;          // 0
  // Called exactly once, on any thread, after the device is done with the launch's tensors, or before return if the launch was refused; but
  // not if struct_size is too small: the fields are not read then. May be NULL. Best calls nothing of the context. What would wait there is
  // refused (drain, close, wait and bind: INVALID_STATE); a launch is allowed, never waits for room (BUSY), and other releases may run
  // inside this one. After an asynchronous launch it runs in whichever call finds the launch finished: the next launch, wait, query, drain
  // or close; in none while a capture forbids the calling thread unsafe calls.
  void (*release)(void *user);
  void *user;
} slip_launch_record_t;

// Enqueues one call. Asynchronous on an asynchronous stream: work enqueued before it is seen, work enqueued after it sees its results.
// On SLIP_STREAM_INLINE it has finished when it returns, and a fault of the callable is the returned status. No allocation, no lock, no
// system call on the inline path.
//
// While |stream| is capturing the launch is recorded with its addresses and scalars as they are now, and never waits. The record's owner is
// released, and the callable's residency may end, when the graph is gone and the device is through with it. The ticket of a captured launch
// is NOT_READY to a query until then, unless a replay faulted, whose error it then tells; waiting for it is INVALID_STATE (wait for the
// stream that replays). BUSY: max_captured or max_captures is reached. INVALID_STATE: another thread began, ended or broke the stream's
// capture in the middle of the launch, which then is in no graph.
//
// |out_ticket| may be NULL (nobody will ask); else it receives a reference to be given to slip_ticket_release(), also on inline streams.
// NULL on failure. Status: NOT_PREPARED, INVALID_ARGUMENT (null stream, frame of another signature or device, stream of another device),
// INVALID_STATE, FORKED, BUSY, POISONED, DEVICE (the platform refused), CAPTURE_UNSUPPORTED (the stream is capturing and the platform has
// no helper streams), OUT_OF_MEMORY; the callable's own fault (inline). A refused launch leaves no trace; if the platform refused in the
// middle of enqueuing, the context may be POISONED by it.
SLIP_API slip_status_t slip_context_launch(slip_context_t *context, int32_t id, const slip_frame_t *frame, slip_stream_t stream,
                                           slip_ticket_t **out_ticket) SLIP_MUST_USE;
SLIP_API slip_status_t slip_launch(const slip_launch_record_t *record, slip_ticket_t **out_ticket) SLIP_MUST_USE;

// Blocks until the launch has retired; returns its result (each call gets its own copy). |timeout_ns| < 0: for ever. TIMEOUT,
// CAPTURE_UNSUPPORTED.
SLIP_API slip_status_t slip_ticket_wait(slip_ticket_t *ticket, int64_t timeout_ns) SLIP_MUST_USE;
// NOT_READY, or the result. While a capture forbids this thread unsafe calls a query looks for nothing new: NOT_READY until the capture
// ends, unless the launch had retired before.
SLIP_API slip_status_t slip_ticket_query(slip_ticket_t *ticket) SLIP_MUST_USE;
// Gives the reference back; the launch goes on. NULL is fine.
SLIP_API void slip_ticket_release(slip_ticket_t *ticket);

// Blocks until every launch made before the call has retired. INVALID_STATE (also from inside another call on the context, such as the
// synchronize hook), CAPTURE_UNSUPPORTED, POISONED, or the hook's failure.
SLIP_API slip_status_t slip_context_drain(slip_context_t *context) SLIP_MUST_USE;
// Staged teardown. A failed close keeps what is left and may be repeated; a closed context stays closed (OK). DEVICE with the state
// CLOSED tells of a device that was reset under the context (above), and is not to be repeated. CAPTURE_UNSUPPORTED,
// FORKED, BUSY (another thread is closing; slip_graph_t of the context are alive, empty ones too; or graphs that hold captured launches are
// alive or being replayed, for which drain does not wait: destroy them and wait for the streams that replay them), INVALID_STATE (called
// from inside another call on the context), and what a stage returned. If the platform cannot tell, twice, whether the thread is in a
// capture, close goes on all the same: a capture that there was is the caller's loss.
SLIP_API slip_status_t slip_context_close(slip_context_t *context) SLIP_MUST_USE;
// Gives back one reference of open. The last one frees the context, which must be CLOSED: else INVALID_STATE and nothing happens. NULL is
// fine.
SLIP_API slip_status_t slip_context_destroy(slip_context_t *context) SLIP_MUST_USE;

typedef struct slip_context_stats_t {
  uint32_t struct_size;
  uint32_t callables;  // prepared and not released
  uint64_t resident_bytes;
  uint64_t launches;  // admitted
  uint64_t refused;   // refused before enqueue
  uint64_t retired;
  uint64_t faulted;          // retired with a failure
  uint64_t pending;          // admitted, not retired
  uint64_t tasks;            // executed by the task-graph engine
  uint64_t workspace_bytes;  // committed
  uint32_t workers;
  uint32_t captured;  // launches in graphs that are alive
  // Of launches that come again and of the graphs that orchestrations name (slip_graph_begin).
  uint64_t recordings;
  uint64_t recordings_refused;  // graphs that are never replayed; of named ones the log says why (SLIP_LOG)
  uint64_t replays;
} slip_context_stats_t;
// Fills the first |out->struct_size| bytes; whatever this library does not know of a longer struct becomes 0. Never blocks on the device;
// |workspace_bytes| is as of a recent launch. INVALID_STATE unless READY.
SLIP_API slip_status_t slip_context_stats(slip_context_t *context, slip_context_stats_t *out) SLIP_MUST_USE;

// The process's mode: what has been claimed so far.
typedef enum slip_mode_e {
  SLIP_MODE_UNCLAIMED = 0,
  SLIP_MODE_PROGRAM = 1,
  SLIP_MODE_KERNEL = 2,
} slip_mode_e;
SLIP_API slip_mode_e slip_process_mode(void);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_CONTEXT_H_
