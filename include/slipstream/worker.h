// SPDX-License-Identifier: Apache-2.0
// Program mode: a worker that owns device, memory and lifetime, for programs that have no framework to ride in: tools, benchmarks, tests,
// stand-alone C programs.
//
//   state          set by                                                     then legal
//   NEW            create; an open that failed and left nothing behind        open, and what opens first: allocate, tensor_create,
//   register, submit, run; close, destroy INITIALIZING   open, while it runs                                        - (other callers wait
//   for its result) READY          open succeeded                                             everything but destroy FAILED         open
//   failed after taking resources that it could not give back   close (may be repeated) CLOSING        close began; if it failed, it is
//   owed                      close (may be repeated), what runs tell CLOSED         close succeeded destroy, what runs tell
//
// A process is in one mode for its life: the first open of a worker claims it for program mode, after which slip_context_open() is
// MODE_CONFLICT; in a process that holds a kernel-mode context open is MODE_CONFLICT, and the worker stays NEW. A process may have several
// workers, also on one device. In the child of a fork every call on a worker or run of the parent is refused (FORKED), touches nothing of
// the parent's and never blocks; the child of a program-mode process is unclaimed and may make workers of its own.
//
// All functions are thread-safe unless they say otherwise, and may block on device work where they say so. None may be called while the
// calling thread is in a capture that forbids unsafe calls (CAPTURE_UNSUPPORTED from the platform). Times are nanoseconds, sizes bytes.
// NULL for a worker, a run or an |out| is INVALID_ARGUMENT unless a function says otherwise. On failure |*out| is zeroed and nothing has
// changed, except where a function says so.
#ifndef SLIPSTREAM_WORKER_H_
#define SLIPSTREAM_WORKER_H_

#include "slipstream/artifact.h"
#include "slipstream/context.h"
#include "slipstream/device.h"
#include "slipstream/frame.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_worker_t slip_worker_t;
typedef struct slip_run_t slip_run_t;

// Runs that are accepted and not done: one executes while the next one is prepared.
#define SLIP_WORKER_DEPTH 2

typedef enum slip_worker_state_e {
  SLIP_WORKER_NEW = 0,
  SLIP_WORKER_INITIALIZING = 1,
  SLIP_WORKER_READY = 2,
  SLIP_WORKER_FAILED = 3,
  SLIP_WORKER_CLOSING = 4,
  SLIP_WORKER_CLOSED = 5,
} slip_worker_state_e;

typedef enum slip_worker_bits_e {
  SLIP_WORKER_NONE = 0,
  SLIP_WORKER_SINGLE_THREAD = 1,     // a task graph runs on one thread, without scheduler threads beside it
  SLIP_WORKER_SKIP_BUILD_CHECK = 2,  // accept a platform whose build identity is missing or another one
  SLIP_WORKER_PIN_WORKERS = 4,       // each scheduler thread to a core of its own, if there are more cores than threads
} slip_worker_bits_e;

// Zero always means "the default". Start from SLIP_WORKER_OPTIONS_INIT. Append-only.
typedef struct slip_worker_options_t {
  uint32_t struct_size;
  int32_t device;        // ordinal; it need not be the calling thread's current device
  const char *platform;  // NULL: "cpu"
  const char *target;    // NULL: the best the device runs
  uint32_t flags;        // slip_worker_bits_e
  // Threads that run a task graph, the one that starts it included: 0 (as many as the process may use) or >= 2; 1 is spelled
  // SLIP_WORKER_SINGLE_THREAD.
  uint32_t scheduler_threads;
  uint32_t stall_timeout_ms;  // as slip_context_options_t: 0: 500, UINT32_MAX: never
  uint32_t max_callables;     // registered at a time, at most 65536; 0: 1024
  uint64_t
      memory_budget_bytes;  // device memory that the worker may hold for its callers, its runs' copies and outputs included; 0: no limit
  uint64_t workspace_budget_bytes;        // 0 (no limit) or >= 1024
  uint32_t task_window[SLIP_RING_COUNT];  // these three as slip_context_options_t
  uint64_t heap_bytes[SLIP_RING_COUNT];
  uint32_t dependency_pool[SLIP_RING_COUNT];
  slip_allocator_t allocator;  // host memory; {NULL, NULL}: the system's
} slip_worker_options_t;

#ifdef __cplusplus
#define SLIP_WORKER_OPTIONS_INIT (slip_initial<slip_worker_options_t>())
#else
#define SLIP_WORKER_OPTIONS_INIT \
  { .struct_size = (uint32_t)sizeof(slip_worker_options_t) }
#endif

// -- life

// Makes a worker in state NEW from a copy of |options| (NULL: all defaults). Checks what can be checked without a platform; claims nothing,
// loads nothing, starts no thread. The caller owns the worker: slip_worker_close(), then slip_worker_destroy().
// INVALID_ARGUMENT (naming the option), OUT_OF_MEMORY, FORKED.
SLIP_API slip_status_t slip_worker_create(const slip_worker_options_t *options, slip_worker_t **out) SLIP_MUST_USE;
// Takes the device: claims program mode, starts the engine's threads. Every call that needs the device does this first, so that calling it
// is a way to choose the moment and to see the failure by itself. OK if the worker is READY. Concurrent opens: one does the work, all get
// its result. May block on device work.
//
// If it fails, everything it took has been given back and the worker is NEW again, so that open may be repeated; or that failed too, and it
// is FAILED with the teardown owed to close. Status: INVALID_ARGUMENT (no such device), NOT_FOUND (platform), UNSUPPORTED, INCOMPATIBLE
// (build identity), MODE_CONFLICT, OUT_OF_MEMORY, INVALID_STATE (FAILED, CLOSING, CLOSED), FORKED, DEVICE.
SLIP_API slip_status_t slip_worker_open(slip_worker_t *worker) SLIP_MUST_USE;
// Stops admission, waits for all accepted runs, then gives back callables, device memory (what callers forgot included), stream and
// threads. Staged: a failed close keeps what is left, and a second one retries only that. Terminal: CLOSED never opens again. A NEW worker
// becomes CLOSED at once; OK on a CLOSED one. DEVICE with the state CLOSED tells, once, of a device that was reset under the worker; there
// is nothing left to repeat.
//
// Blocks until the runs are done. BUSY (another thread is closing), INVALID_STATE (an open is running), FORKED, and what a stage returned.
SLIP_API slip_status_t slip_worker_close(slip_worker_t *worker) SLIP_MUST_USE;
// Frees the worker, which must be NEW or CLOSED (else INVALID_STATE and nothing happens). Runs that callers still hold stay valid. NULL is
// fine. No other call on the worker may be under way.
SLIP_API slip_status_t slip_worker_destroy(slip_worker_t *worker) SLIP_MUST_USE;

// NULL: NEW. Never blocks.
SLIP_API slip_worker_state_e slip_worker_state(const slip_worker_t *worker);
// Where the worker's tensors live: known once it is READY; before, and for NULL, the platform is SLIP_PLATFORM_NONE.
SLIP_API slip_device_t slip_worker_device(const slip_worker_t *worker);

// -- resident memory. It lives until it is freed or the worker is closed, across any number of runs: weights, caches.
//
// A copy is ordered behind the runs that were accepted before it and use the memory: it waits for them. Memory may be freed while runs use
// it: from then on the pointer is refused, and the bytes go back when those runs are done. A pointer that this worker never gave out, or
// that was freed before, is INVALID_ARGUMENT, as is a range that leaves its allocation.

// |size_bytes| of device memory with undefined contents, aligned to 64. Size 0 gives NULL. Opens the worker. OUT_OF_MEMORY (the budget or
// the device), INVALID_STATE, POISONED, DEVICE, and what open returns.
SLIP_API slip_status_t slip_worker_allocate(slip_worker_t *worker, uint64_t size_bytes, void **out) SLIP_MUST_USE;
// |memory| as allocate gave it. NULL is fine. If the platform fails to take it back, the bytes are kept and close tries again.
SLIP_API slip_status_t slip_worker_free(slip_worker_t *worker, void *memory) SLIP_MUST_USE;
// Copies |size_bytes|; blocks until done. |kind| is a slip_copy_e and says which of the two is device memory, which must lie inside one
// allocation of this worker; the other is the caller's host memory. Device to device: the ranges must not overlap. INVALID_ARGUMENT,
// INVALID_STATE, POISONED, DEVICE.
SLIP_API slip_status_t slip_worker_copy(slip_worker_t *worker, void *target, const void *source, uint64_t size_bytes,
                                        uint32_t kind) SLIP_MUST_USE;

typedef enum slip_worker_tensor_bits_e {
  SLIP_WORKER_TENSOR_NONE = 0,
  SLIP_WORKER_TENSOR_ZERO = 1,  // filled with zero bytes; else the contents are undefined
} slip_worker_tensor_bits_e;

// A contiguous tensor in device memory of its own; |dims| may be NULL for rank 0. |*out| is a descriptor with SLIP_TENSOR_WORKER_OWNED,
// which is copied freely, and may be sliced and reshaped: the memory belongs to the worker until slip_worker_tensor_free(). Kernel mode and
// other workers refuse it. INVALID_ARGUMENT (dtype, rank, dims, flags) and what allocate returns.
SLIP_API slip_status_t slip_worker_tensor_create(slip_worker_t *worker, slip_dtype_t dtype, uint8_t rank, const int64_t *dims,
                                                 uint32_t flags, slip_tensor_t *out) SLIP_MUST_USE;
// Frees the memory behind |tensor| (a view frees the whole storage). The descriptor is left as it is, and refused from then on.
SLIP_API slip_status_t slip_worker_tensor_free(slip_worker_t *worker, const slip_tensor_t *tensor) SLIP_MUST_USE;
// Copies a whole contiguous tensor from or to host memory of exactly |size_bytes|; blocks until done. INVALID_ARGUMENT (not a tensor of
// this worker, not contiguous, another size), INVALID_STATE, POISONED, DEVICE.
SLIP_API slip_status_t slip_worker_tensor_write(slip_worker_t *worker, const slip_tensor_t *tensor, const void *source,
                                                uint64_t size_bytes) SLIP_MUST_USE;
SLIP_API slip_status_t slip_worker_tensor_read(slip_worker_t *worker, const slip_tensor_t *tensor, void *target,
                                               uint64_t size_bytes) SLIP_MUST_USE;

// -- callables

// Registers |image| and returns its handle: a number, unique in the worker, never used again. The same content gives the same handle, with
// one more reference; each register is matched by one unregister. The whole image is validated before any byte is used, and may be freed
// after return. Opens the worker. May block on device work, and on the run that executes if the kernels need more scratch than is reserved.
// |*out_callable| is -1 on failure.
//
// Status: CORRUPT, INCOMPATIBLE (contract, platform, target, runtime kind, several entries), CAPACITY_COUNT, CAPACITY_BYTES,
// CAPACITY_IMAGE, OUT_OF_MEMORY, INVALID_STATE, POISONED, DEVICE, and what open returns.
SLIP_API slip_status_t slip_worker_register(slip_worker_t *worker, slip_const_bytes_t image, int32_t *out_callable) SLIP_MUST_USE;
// The artifact's effective image, bound by the artifact's params. Same states and codes, plus those of slip_artifact_image(). The artifact
// may be released after return.
SLIP_API slip_status_t slip_worker_register_artifact(slip_worker_t *worker, slip_artifact_t *artifact, int32_t *out_callable) SLIP_MUST_USE;
// Gives back one reference; the last one ends the handle. Accepted runs still execute. NOT_PREPARED (unknown or ended), INVALID_STATE;
// DEVICE or IO if the code could not be unloaded: the handle is dead all the same, and close tries again.
SLIP_API slip_status_t slip_worker_unregister(slip_worker_t *worker, int32_t callable) SLIP_MUST_USE;
// What the callable takes; one reference for the caller. NOT_PREPARED, INVALID_STATE.
SLIP_API slip_status_t slip_worker_signature(slip_worker_t *worker, int32_t callable, slip_signature_t **out) SLIP_MUST_USE;

// -- runs
//
// Arguments: one slip_arg_t per parameter, in signature order. Nothing in them needs to know the device:
//
//   argument                                   what the run does with it
//   slip_arg_scalar()                          copies the value
//   slip_arg_tensor(), WORKER_OWNED            uses the worker's memory in place
//   slip_arg_tensor(), memory of the host      cpu: uses it in place. Elsewhere: IN and INOUT are copied to the device (while the run
//   before (its device is cpu:0)                      executes, unless that one writes the memory), OUT and INOUT are copied back before it
//   is done slip_arg_omitted(), an OUT parameter       the worker allocates the output. Static dims are the parameter's; a named dynamic
//   dim is the
//                                              dim of that name of the other arguments; what cannot be derived so is INVALID_ARGUMENT,
//                                              naming parameter and dim. Its contents are undefined before the run, unless
//                                              SLIP_RUN_ZERO_OUTPUTS asks for zeros
//
// The array, the descriptors and scalars in it are borrowed until the call returns; host memory behind tensors until the run is done: it
// must stay valid, and nobody may write it (nor read it, where the run writes). The rules of a call frame hold: contiguous, within its
// storage, an output overlaps no other argument unless both are the same range. |slip_arg_t.object| is not used.
//
// Order: runs execute one after the other, in the order in which they were accepted, each seeing what those before it wrote; they become
// done in that order. A run that fails, fails alone: what it was to write is undefined, the next run executes. Only an undefined device
// poisons the worker: every later call is POISONED with the first error, and close is left.

// An omitted output.
static inline slip_arg_t slip_arg_omitted(void) {
  slip_arg_t arg;
  arg.kind = SLIP_ARG_MISSING;
  arg.reserved = 0;
  arg.value.scalar.bits = 0;
  arg.value.scalar.dtype = 0;
  arg.object = NULL;
  return arg;
}

typedef enum slip_run_bits_e {
  SLIP_RUN_NONE = 0,
  SLIP_RUN_NO_WAIT = 1,       // BUSY instead of waiting while SLIP_WORKER_DEPTH runs are accepted and not done
  SLIP_RUN_ZERO_OUTPUTS = 2,  // omitted outputs are filled with zero bytes before the run
} slip_run_bits_e;

// Accepts a run and returns at once; it executes on a thread of the worker or of somebody who waits for it. While SLIP_WORKER_DEPTH runs
// are not done, submit waits for one. Opens the worker. May block on device work (copies of inputs). |*out| is a handle to be given to
// slip_run_release(), which may be done at any time.
//
// Status, and then no run was accepted: NOT_PREPARED, INVALID_ARGUMENT (naming callable, parameter, expectation, what came, remedy), BUSY,
// OUT_OF_MEMORY, INVALID_STATE, POISONED, DEVICE (copying inputs), and what open returns. The callable's own failure is the run's.
SLIP_API slip_status_t slip_worker_submit(slip_worker_t *worker, int32_t callable, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                                          slip_run_t **out) SLIP_MUST_USE;
// Submits and waits; returns the refusal or the run's own failure. |out| may be NULL where no result is wanted: outputs that were omitted
// are then gone. |*out| is set only on success. Where no run is under way it executes on the calling thread.
SLIP_API slip_status_t slip_worker_run(slip_worker_t *worker, int32_t callable, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                                       slip_run_t **out) SLIP_MUST_USE;

// A handle has one reference of submit or run. It may be used after the worker was closed or destroyed.
SLIP_API void slip_run_retain(slip_run_t *run);
// The last reference frees the handle and the outputs that nobody took, once the run is done; the run goes on. NULL is fine.
SLIP_API void slip_run_release(slip_run_t *run);
// True once the run is done, well or not: host memory is the caller's again. NULL is false. Never blocks.
SLIP_API bool slip_run_done(const slip_run_t *run);
// Blocks until the run is done; returns its failure, or OK. Any number of threads may wait; each gets its own copy. |timeout_ns| < 0: for
// ever. TIMEOUT: it goes on.
SLIP_API slip_status_t slip_run_wait(slip_run_t *run, int64_t timeout_ns) SLIP_MUST_USE;
// NOT_READY, or the run's failure, or OK. Never blocks.
SLIP_API slip_status_t slip_run_error(slip_run_t *run) SLIP_MUST_USE;

// Results: the signature's return aliases, in order. Each is the tensor that the parameter was bound to: the very descriptor that the
// caller passed, or that of the output which the worker allocated. 0 for NULL.
SLIP_API size_t slip_run_result_count(const slip_run_t *run);
// Result |index| of a run that is done. The memory of an allocated output belongs to the run, and goes with its last reference or with
// slip_worker_close(): use slip_run_take() to keep it. INVALID_ARGUMENT (no such index), NOT_READY, INVALID_STATE (the worker was closed),
// or the run's failure.
SLIP_API slip_status_t slip_run_result(slip_run_t *run, size_t index, slip_tensor_t *out) SLIP_MUST_USE;
// The tensor of parameter |index|, likewise: also an output that no return alias names. INVALID_ARGUMENT for a scalar.
SLIP_API slip_status_t slip_run_tensor(slip_run_t *run, size_t index, slip_tensor_t *out) SLIP_MUST_USE;
// Hands the allocated output of parameter |index| over to the caller, who gives it to slip_worker_tensor_free(). Once per parameter:
// INVALID_STATE after that, and for a tensor that the caller passed. Else the codes of slip_run_tensor().
SLIP_API slip_status_t slip_run_take(slip_run_t *run, size_t index, slip_tensor_t *out) SLIP_MUST_USE;

// -- statistics

typedef struct slip_worker_stats_t {
  uint32_t struct_size;
  uint32_t callables;       // registered
  uint64_t resident_bytes;  // of their images
  uint64_t memory_bytes;    // device memory held for callers and runs
  uint64_t memory_peak_bytes;
  uint64_t allocations;  // live
  uint64_t runs;         // accepted
  uint64_t refused;
  uint64_t completed;  // done, failed ones included
  uint64_t failed;
  uint64_t tasks;           // executed by the task-graph engine
  uint64_t uploaded_bytes;  // from host tensors of runs
  uint64_t downloaded_bytes;
  uint64_t workspace_bytes;  // committed
  uint32_t threads;          // of the engine
  uint32_t reserved;
} slip_worker_stats_t;
// Fills the first |out->struct_size| bytes; whatever this library does not know of a longer struct becomes 0. Never blocks on the device.
// INVALID_STATE unless READY (or POISONED).
SLIP_API slip_status_t slip_worker_stats(slip_worker_t *worker, slip_worker_stats_t *out) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_WORKER_H_
