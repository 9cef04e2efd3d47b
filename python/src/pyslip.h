// SPDX-License-Identifier: Apache-2.0
// What the files of the extension share: the state of one module object, the objects, the helpers.
//
// Written against CPython's limited API of 3.10: one binary for all later versions. Three things lie outside of its text but are part of
// every interpreter from 3.10 on, unchanged, and of the limited API of later versions; they are declared here:
//   the buffer protocol (limited API since 3.11): Py_buffer, PyObject_GetBuffer, PyBuffer_Release, the slots
//   vectorcall (limited API since 3.12): the type flag, the member "__vectorcalloffset__", the function's type, PyObject_VectorcallMethod
//   METH_FASTCALL is in since 3.10.
// The interpreter's lock guards everything here but what is marked atomic. Free-threaded interpreters do not load abi3 extensions: a build
// for one is for that version alone, without the limited API, and has the interpreter turn its lock on (module.c).
#ifndef PYSLIP_PYSLIP_H_
#define PYSLIP_PYSLIP_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/types.h>

#include "slipstream/slipstream.h"

// --- of later limited APIs -------------------------------------------------------------------------------------------------------------
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030B0000
typedef struct bufferinfo {
  void *buf;
  PyObject *obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char *format;
  Py_ssize_t *shape;
  Py_ssize_t *strides;  // bytes
  Py_ssize_t *suboffsets;
  void *internal;
} Py_buffer;
extern int PyObject_CheckBuffer(PyObject *object);
extern int PyObject_GetBuffer(PyObject *exporter, Py_buffer *view, int flags);
extern void PyBuffer_Release(Py_buffer *view);
#define PyBUF_WRITABLE      0x0001
#define PyBUF_FORMAT        0x0004
#define PyBUF_ND            0x0008
#define PyBUF_STRIDES       (0x0010 | PyBUF_ND)
#define Py_bf_getbuffer     1
#define Py_bf_releasebuffer 2
#endif
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
extern PyObject *PyObject_VectorcallMethod(PyObject *name, PyObject *const *args, size_t count, PyObject *names);
#define PYSLIP_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

// --- the DLPack exchange table (DLPack 1.3), declared here from its specification ------------------------------------------------------
typedef struct pyslip_exchange_header_t {
  slip_dl_version_t version;
  const struct pyslip_exchange_header_t *previous;
} pyslip_exchange_header_t;

typedef struct pyslip_exchange_t {
  pyslip_exchange_header_t header;
  int (*allocate)(slip_dl_tensor_t *prototype, slip_dl_managed_t **out, void *error_context,
                  void (*set_error)(void *error_context, const char *kind, const char *message));
  int (*managed_from_object)(void *object, slip_dl_managed_t **out);
  int (*managed_to_object)(slip_dl_managed_t *managed, void **out_object);
  int (*tensor_from_object)(void *object, slip_dl_tensor_t *out);  // may be NULL
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out_stream);
} pyslip_exchange_t;

// DLManagedTensor, the form of before DLPack 1.0.
typedef struct pyslip_dl_old_t {
  slip_dl_tensor_t tensor;
  void *manager_ctx;
  void (*deleter)(struct pyslip_dl_old_t *self);
} pyslip_dl_old_t;

#define PYSLIP_EXCHANGE_NAME "dlpack_exchange_api"

// Evaluates an expression without the interpreter's lock.
#define PYSLIP_WITHOUT_LOCK(expression)           \
  do {                                            \
    PyThreadState *thread_ = PyEval_SaveThread(); \
    expression;                                   \
    PyEval_RestoreThread(thread_);                \
  } while (0)

// --- state of a module object
// ---------------------------------------------------------------------------------------------------------------- How tensors of a type
// are read. Decided once a type.
typedef enum pyslip_reader_e {
  PYSLIP_READER_NONE = 0,      // not a tensor
  PYSLIP_READER_OWN = 1,       // slipstream.Tensor
  PYSLIP_READER_EXCHANGE = 2,  // exchange table on the type
  PYSLIP_READER_BUFFER = 3,    // buffer protocol; __dlpack__ or a dtype of ml_dtypes where an object refuses
  PYSLIP_READER_DLPACK = 4,    // __dlpack__
  PYSLIP_READER_WORKER = 5,    // slipstream.WorkerTensor
} pyslip_reader_e;

typedef enum pyslip_ask_bits_e {
  PYSLIP_ASK_GRAD = 1,  // the type has requires_grad
  PYSLIP_ASK_NEG = 2,   // the type has is_neg()
  PYSLIP_ASK_FAKE = 4,  // the type stands for tensors without storage
} pyslip_ask_bits_e;

// Whether torch.Tensor objects are read by PyTorch's C functions (direct.c).
typedef enum pyslip_direct_e {
  PYSLIP_DIRECT_NO = 0,
  PYSLIP_DIRECT_OPEN = 1,  // not known yet
  PYSLIP_DIRECT_YES = 2,
} pyslip_direct_e;

typedef struct pyslip_type_t {
  PyTypeObject *type;  // strong
  const pyslip_exchange_t *exchange;
  PyObject *is_neg;         // the type's own function, strong
  bool (*grad_mode)(void);  // whether autograd is on; NULL: ask tensors first
  uint32_t dl_key;          // DLPack dtype that was read last, and what it is here
  slip_dtype_t dl_dtype;
  uint8_t reader;    // pyslip_reader_e
  uint8_t asks;      // pyslip_ask_bits_e
  uint8_t direct;    // pyslip_direct_e
  char scalar_kind;  // of scalars of NumPy: kind of their dtype; 0: not looked at
} pyslip_type_t;

#define PYSLIP_TYPES 64

typedef enum pyslip_error_e {
#define PYSLIP_ERROR_TABLE(X)                                                                                        \
  X(SLIP, "SlipError", "A failure of the library. An instance made in Python has code None.")                        \
  X(INTERNAL, "InternalError", "A promise of a platform or of this library was broken.")                             \
  X(UNSUPPORTED, "UnsupportedError", "The capability is absent here; the caller may fall back.")                     \
  X(INCOMPATIBLE, "IncompatibleError", "Artifact, target, contract or build identity does not match; recompile.")    \
  X(INVALID_ARGUMENT, "InvalidArgumentError", "The call is wrong; nothing happened.")                                \
  X(ARGUMENT_TYPE, "ArgumentTypeError", "An argument is of a Python type that cannot stand here; nothing happened.") \
  X(INVALID_STATE, "InvalidStateError", "The call is right but comes at the wrong time; nothing happened.")          \
  X(MODE_CONFLICT, "ModeConflictError", "The process is already claimed for the other mode.")                        \
  X(CONFLICT, "ConflictError", "The context is already open with other options, or the output exists.")              \
  X(RECURSIVE, "RecursiveError", "open() was called from inside an open() on the same thread.")                      \
  X(FORKED, "ForkedError", "The process was forked after its parent had claimed kernel mode; use spawn.")            \
  X(CAPTURE_UNSUPPORTED, "CaptureUnsupportedError", "Not allowed while a stream is capturing; nothing happened.")    \
  X(OUT_OF_MEMORY, "OutOfMemoryError", "Memory is short.")                                                           \
  X(NOT_FOUND, "NotFoundError", "No such object.")                                                                   \
  X(IO, "IoError", "The operating system refused a file operation; platform_code is errno.")                         \
  X(CORRUPT, "CorruptError", "Bytes are not what their format promises.")                                            \
  X(TIMEOUT, "TimedOutError", "The time given ran out.")                                                             \
  X(CANCELLED, "CancelledError", "Stopped on request.")                                                              \
  X(NOT_READY, "NotReadyError", "Not finished yet.")                                                                 \
  X(BUSY, "BusyError", "In use at the moment; try again.")                                                           \
  X(DEVICE, "DeviceError", "The device or its driver reported an error; see platform_code.")                         \
  X(POISONED, "PoisonedError", "An earlier error made the context unusable; only close() works.")                    \
  X(NOT_PREPARED, "NotPreparedError", "The callable was closed, or is of another context.")                          \
  X(CAPACITY, "CapacityError", "Too many callables, too many resident bytes, or an image beyond the limit.")         \
  X(GRAPH, "GraphError", "A fault of the task graph; see code and name.")                                            \
  X(COMPILE, "CompileError", "The program to compile is wrong; .diagnostics says where, each with .file, .line, .message.")
#define PYSLIP_ERROR_ENUM(name, text, doc) PYSLIP_ERROR_##name,
  PYSLIP_ERROR_TABLE(PYSLIP_ERROR_ENUM)
#undef PYSLIP_ERROR_ENUM
      PYSLIP_ERROR_COUNT
} pyslip_error_e;

#define PYSLIP_NAME_TABLE(X)   \
  X(__dlpack__)                \
  X(__dlpack_c_exchange_api__) \
  X(__cuda_stream__)           \
  X(__index__)                 \
  X(__torch_dispatch__)        \
  X(requires_grad)             \
  X(is_neg)                    \
  X(is_grad_enabled)           \
  X(dtype)                     \
  X(kind)                      \
  X(name)                      \
  X(view)                      \
  X(value)                     \
  X(_type_)                    \
  X(code)                      \
  X(platform_code)             \
  X(diagnostics)               \
  X(max_version)               \
  X(stream)                    \
  X(block)                     \
  X(zero_outputs)

typedef struct pyslip_context_object_t pyslip_context_object_t;

typedef struct pyslip_state_t {
  PyObject *module;  // borrowed: the state goes with it
  PyObject *errors[PYSLIP_ERROR_COUNT];
  pyslip_type_t types[PYSLIP_TYPES];
  pyslip_type_t no_type;  // all zero
  struct {
#define PYSLIP_NAME_MEMBER(name) PyObject *name;
    PYSLIP_NAME_TABLE(PYSLIP_NAME_MEMBER)
#undef PYSLIP_NAME_MEMBER
  } names;
  PyObject *dlpack_version;  // (1, 1), and
  PyObject *dlpack_names;    // ("max_version",): what __dlpack__ is asked with
  PyObject *no_arguments;    // ()
  PyObject *inline_stream;   // INLINE
  PyTypeObject *tensor, *signature, *artifact, *stream, *event, *graph_exec, *context, *callable, *ticket, *graph;
  PyTypeObject *worker, *program, *run, *worker_tensor;
  PyTypeObject *direct_base;  // the torch.Tensor that was probed; NULL unless |direct| is YES
  PyTypeObject *param, *kernel_info, *stats, *worker_stats, *platform_info, *diagnostic;  // struct sequences
  pyslip_context_object_t *contexts;                                                      // open ones, a list
  struct pyslip_worker_t *workers;                                                        // not closed, a list
  bool exit_hook;                                                                         // registered with atexit
  bool direct_probing;                                                                    // a thread is at it
  uint8_t direct;                                                                         // pyslip_direct_e
  uint8_t direct_tries;
} pyslip_state_t;

// Of a type of this extension (its module's).
pyslip_state_t *pyslip_state_of(PyTypeObject *type);
static inline pyslip_state_t *pyslip_module_state(PyObject *module) {
  return (pyslip_state_t *)PyModule_GetState(module);
}

// --- errors (errors.c) -----------------------------------------------------------------------------------------------------------------
int pyslip_errors_init(pyslip_state_t *state);
// Raises what |status| tells; consumes it. Returns NULL, for `return`.
PyObject *pyslip_raise(pyslip_state_t *state, slip_status_t status);
// Raises |error| with the code of its family. |format| is that of PyUnicode_FromFormat().
PyObject *pyslip_raise_format(pyslip_state_t *state, pyslip_error_e error, const char *format, ...);
// True if OK; else raises (and consumes).
static inline bool pyslip_ok(pyslip_state_t *state, slip_status_t status) {
  if (__builtin_expect(slip_status_is_ok(status), 1)) return true;
  pyslip_raise(state, status);
  return false;
}

// --- things kept for a call (hold.c)
// ----------------------------------------------------------------------------------------------------------- What must be given back when
// a call is through with one tensor.
typedef enum pyslip_kept_e {
  PYSLIP_KEPT_NOTHING = 0,
  PYSLIP_KEPT_OBJECT = 1,
  PYSLIP_KEPT_BUFFER = 2,
  PYSLIP_KEPT_MANAGED = 3,
  PYSLIP_KEPT_OLD = 4,     // DLManagedTensor
  PYSLIP_KEPT_DIRECT = 5,  // tensor of PyTorch's
} pyslip_kept_e;

typedef struct pyslip_kept_t {
  uint32_t kind;  // pyslip_kept_e
  union {
    PyObject *object;
    Py_buffer buffer;
    slip_dl_managed_t *managed;
    pyslip_dl_old_t *old;
    struct slip__torch_tensor_s *direct;
  } value;
} pyslip_kept_t;

// Where holds arrive whose launches have retired. The library gives a hold back on any thread, with or without the interpreter's lock,
// inside calls of ours or others': never the place to take that lock. So it is pushed onto a list, which the next call with the lock
// empties.
//
//   state      set by                               meaning
//   LAUNCHING  before the launch                    the launching thread still looks at it
//   RELEASED   release callback (exchange)          found LAUNCHING: left to the launching thread; found LAUNCHED: pushed
//   LAUNCHED   launching thread, after (exchange)   found RELEASED: it disposes of the hold itself
//
//   atomic        operation                    order      pairs with
//   hold.state    exchange, both sides         acq_rel    each other: the second one sees what the first one did
//   reaper.done   compare-exchange push        release    the emptying exchange
//   reaper.done   exchange NULL, emptying      acquire    the pushes
//   references    fetch_add / fetch_sub        relaxed / acq_rel
typedef struct pyslip_hold_t pyslip_hold_t;
typedef struct pyslip_reaper_t {
  _Atomic(pyslip_hold_t *) done;
  atomic_size_t references;
} pyslip_reaper_t;

typedef enum pyslip_hold_state_e { PYSLIP_HOLD_LAUNCHING = 0, PYSLIP_HOLD_RELEASED = 1, PYSLIP_HOLD_LAUNCHED = 2 } pyslip_hold_state_e;

struct pyslip_hold_t {
  pyslip_hold_t *next;
  pyslip_reaper_t *reaper;  // NULL: of a recorded graph
  atomic_uint state;        // pyslip_hold_state_e
  uint32_t count;
  pyslip_kept_t kept[];
};

void pyslip_kept_release(pyslip_kept_t *kept, size_t count);
pyslip_reaper_t *pyslip_reaper_create(void);
void pyslip_reaper_release(pyslip_reaper_t *reaper);
void pyslip_reaper_empty(pyslip_reaper_t *reaper);
static inline void pyslip_reap(pyslip_reaper_t *reaper) {
  if (__builtin_expect(atomic_load_explicit(&reaper->done, memory_order_relaxed) != NULL, 0)) pyslip_reaper_empty(reaper);
}
// |reaper| may be NULL. NULL with MemoryError.
pyslip_hold_t *pyslip_hold_create(pyslip_reaper_t *reaper, size_t capacity);
void pyslip_hold_free(pyslip_hold_t *hold);
// slip_launch_record_t.release.
void pyslip_hold_released(void *hold);

// --- reading arguments (read.c, scalar.c)
// -------------------------------------------------------------------------------------------------------- For messages: which parameter of
// which callable.
typedef struct pyslip_place_t {
  const char *callable;
  const char *param;
  uint32_t index;
  uint32_t direction;
} pyslip_place_t;

const char *pyslip_direction_name(uint32_t direction);
pyslip_type_t *pyslip_type_learn(pyslip_state_t *state, PyTypeObject *type);
static inline pyslip_type_t *pyslip_type_find(pyslip_state_t *state, PyTypeObject *type) {
  uintptr_t address = (uintptr_t)type;
  pyslip_type_t *entry = &state->types[(address >> 4 ^ address >> 10) % PYSLIP_TYPES];
  return __builtin_expect(entry->type == type, 1) ? entry : pyslip_type_learn(state, type);
}
typedef enum pyslip_read_bits_e {
  PYSLIP_READ_VIEW = 0,  // valid until control returns to the caller
  PYSLIP_READ_OWN = 1,   // |kept| keeps the storage itself
} pyslip_read_bits_e;
// Describes |object| in |*out|. What must be given back later goes into |*kept| (kind NOTHING on failure). |place| may be NULL. False with
// an exception set.
bool pyslip_read_tensor(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, uint32_t bits, slip_tensor_t *out,
                        pyslip_kept_t *kept);
// Whether |object| is of a type that is read as a tensor.
bool pyslip_is_tensor(pyslip_state_t *state, PyObject *object);
// Whether autograd is on, asked of torch if it is imported.
bool pyslip_grad_enabled(pyslip_state_t *state);
// The module |name| if it is imported already, borrowed; NULL without an exception.
PyObject *pyslip_imported(const char *name);
bool pyslip_read_scalar(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object, slip_scalar_t *out);

// --- objects ---------------------------------------------------------------------------------------------------------------------------
typedef struct pyslip_tensor_t {
  PyObject_HEAD slip_tensor_t tensor;
  pyslip_kept_t kept;         // what keeps the memory; NOTHING for memory of its own
  slip_platform_t *platform;  // of memory of its own: allocated there
  void *memory;
  PyObject *base;                       // views: the tensor that has the memory
  Py_ssize_t exports;                   // buffers handed out
  Py_ssize_t sizes[2 * SLIP_MAX_RANK];  // shape and byte strides of buffers
} pyslip_tensor_t;

typedef struct pyslip_signature_t {
  PyObject_HEAD slip_signature_t *signature;
} pyslip_signature_t;

typedef struct pyslip_artifact_t {
  PyObject_HEAD slip_artifact_t *artifact;
  PyObject *path;
} pyslip_artifact_t;

typedef struct pyslip_stream_t {
  PyObject_HEAD slip_platform_t *platform;
  slip_stream_t stream;  // NULL: closed
  slip_device_t device;
  uint32_t users;  // calls in progress
  bool is_inline;
} pyslip_stream_t;

struct pyslip_context_object_t {
  PyObject_HEAD pyslip_state_t *state;
  slip_context_t *context;  // NULL: given back
  pyslip_reaper_t *reaper;
  struct pyslip_graph_t *graphs;  // alive, a list
  struct pyslip_callable_t *callables;
  pyslip_context_object_t *next, *previous;  // in state->contexts
  struct pyslip_leftover_t *leftovers;       // of graphs that are gone while replays still ran
  slip_device_t device;
  uint64_t generation;
  uint64_t open_ticks, open_ns;  // both clocks at open
  uint64_t long_ticks;           // of a launch that should have let the lock go
  uint32_t users;                // calls in progress that have let the interpreter's lock go
  bool closed;                   // by us
};

// A thing of a signature that every call needs, at hand.
typedef struct pyslip_slot_t {
  const char *name;
  PyObject *key;  // interned name
  uint32_t direction;
  slip_dtype_t dtype;
  bool is_scalar;
} pyslip_slot_t;

// What calls of a prepared callable and of a registered program go by (entry.c).
typedef struct pyslip_entry_t {
  pyslip_state_t *state;
  slip_signature_t *signature;
  pyslip_slot_t *slots;
  char *name;
  const int32_t *returns;
  size_t return_count;
  uint32_t slot_count;
  uint32_t tensor_count;
} pyslip_entry_t;

typedef PyObject *(*pyslip_vectorcall_t)(PyObject *callable, PyObject *const *args, size_t count, PyObject *names);

typedef struct pyslip_callable_t {
  PyObject_HEAD pyslip_vectorcall_t vectorcall;
  pyslip_entry_t entry;
  pyslip_context_object_t *context;  // strong
  int32_t id;
  bool closed;
  // Whether to keep the interpreter's lock: see callable.c.
  int64_t short_elements;
  uint32_t strikes;
  struct pyslip_callable_t *next, *previous;  // in context->callables
} pyslip_callable_t;

typedef struct pyslip_graph_node_t {
  pyslip_hold_t *hold;
  pyslip_callable_t *callable;  // strong
} pyslip_graph_node_t;

typedef struct pyslip_replay_t {
  PyObject *ticket;  // strong; NULL: a thread is in it
  uint64_t number;
} pyslip_replay_t;

typedef struct pyslip_retired_t {
  pyslip_hold_t *hold;
  uint64_t number;  // replays up to this one may use it
} pyslip_retired_t;

typedef struct pyslip_graph_t {
  PyObject_HEAD pyslip_context_object_t *context;  // strong
  slip_graph_t *graph;                             // NULL: closed
  pyslip_graph_node_t *nodes;
  pyslip_replay_t *replays;  // not known to have ended
  pyslip_retired_t *retired;
  size_t node_count, replay_count, retired_count, retired_capacity, replay_capacity, node_capacity;
  uint64_t launches;
  uint32_t users;
  bool forgotten;                          // a replay whose ticket was lost for lack of memory
  PyThread_type_lock turn;                 // of threads that bind; taken without the interpreter's lock, held while that is taken back
  pid_t process;                           // that made it
  struct pyslip_graph_t *next, *previous;  // in context->graphs
} pyslip_graph_t;

typedef struct pyslip_leftover_t {
  struct pyslip_leftover_t *next;
  PyObject **tickets;
  pyslip_hold_t **holds;
  size_t ticket_count, hold_count;
  bool forgotten;  // there was a replay without a ticket: kept until the context is closed
} pyslip_leftover_t;

// --- entries (entry.c) -----------------------------------------------------------------------------------------------------------------
// Fills the rest of an entry that has its state and signature. False with an exception; to be forgotten in any case.
bool pyslip_entry_learn(pyslip_entry_t *entry, const char *name);
void pyslip_entry_forget(pyslip_entry_t *entry);
// A named argument that is no parameter: 1 taken, 0 unknown, -1 an exception is set.
typedef int (*pyslip_option_t)(void *user, PyObject *name, PyObject *value);
// Sorts positional and named arguments into |values| (borrowed, slot_count of them; NULL: not given). |option| NULL: there are none.
bool pyslip_entry_sort(const pyslip_entry_t *entry, PyObject *const *args, size_t count, PyObject *names, PyObject **values,
                       pyslip_option_t option, void *user);
// The caller's objects for the return aliases: None, one, or a tuple.
PyObject *pyslip_entry_result(const pyslip_entry_t *entry, PyObject *const *values);

// --- calls (call.c) --------------------------------------------------------------------------------------------------------------------
#define PYSLIP_FAST_ARGUMENTS 64
#define PYSLIP_FAST_TENSORS   SLIP_FRAME_INLINE_TENSORS

// The arguments of one call as C takes them, on the stack. Beyond the fast capacities the arrays are allocated.
typedef struct pyslip_call_t {
  slip_arg_t *args;
  slip_tensor_t *tensors;
  pyslip_kept_t *kept;
  uint32_t kept_count;
  uint32_t flags;    // slip_frame_bits_e
  int64_t elements;  // of all tensors together
  void *memory;
  slip_arg_t fast_args[PYSLIP_FAST_ARGUMENTS];
  slip_tensor_t fast_tensors[PYSLIP_FAST_TENSORS];
  pyslip_kept_t fast_kept[PYSLIP_FAST_TENSORS];
  slip_frame_t frame;
} pyslip_call_t;

// Sorts the arguments, of which none may be missing. |out_stream| receives the argument `stream`, unless a parameter has that name; NULL:
// such an argument is refused.
bool pyslip_call_sort(pyslip_callable_t *callable, PyObject *const *args, size_t count, PyObject *names, PyObject **values,
                      PyObject **out_stream);
// Reads |values| and builds call->frame. With |hold| the storage is kept by it. False with an exception set and everything given back.
bool pyslip_call_bind(pyslip_callable_t *callable, PyObject *const *values, pyslip_hold_t *hold, pyslip_call_t *call);
// Gives back what bind took (not what |hold| keeps).
void pyslip_call_end(pyslip_call_t *call);
// tp_call by way of |function|: for callers that do not know vectorcall.
PyObject *pyslip_call_slowly(pyslip_vectorcall_t function, PyObject *object, PyObject *args, PyObject *named);

// --- files that add to the module ------------------------------------------------------------------------------------------------------
int pyslip_sequences_init(pyslip_state_t *state);
int pyslip_tensor_init(pyslip_state_t *state);
int pyslip_signature_init(pyslip_state_t *state);
int pyslip_artifact_init(pyslip_state_t *state);
int pyslip_stream_init(pyslip_state_t *state);
int pyslip_context_init(pyslip_state_t *state);
int pyslip_callable_init(pyslip_state_t *state);
int pyslip_ticket_init(pyslip_state_t *state);
int pyslip_graph_init(pyslip_state_t *state);
int pyslip_compile_init(pyslip_state_t *state);
int pyslip_sim_init(pyslip_state_t *state);
int pyslip_worker_init(pyslip_state_t *state);  // all of program mode

// Makes a type of |spec| and adds it to the module under its last name. NULL with an exception.
PyTypeObject *pyslip_add_type(pyslip_state_t *state, PyType_Spec *spec);

PyObject *pyslip_signature_wrap(pyslip_state_t *state, slip_signature_t *signature);                      // takes a reference of its own
PyObject *pyslip_ticket_wrap(pyslip_context_object_t *context, slip_ticket_t *ticket, PyObject *result);  // consumes ticket
slip_ticket_t *pyslip_ticket_of(PyObject *ticket);
PyObject *pyslip_callable_create(pyslip_context_object_t *context, int32_t id, const char *name);
PyObject *pyslip_graph_create(pyslip_context_object_t *context);
// Ends a graph as close() does. False with an exception.
bool pyslip_graph_end(pyslip_graph_t *graph);
void pyslip_callable_end_all(pyslip_context_object_t *context, bool release);
void pyslip_leftovers_prune(pyslip_context_object_t *context, bool all);

// "cpu:0" and so on; INVALID_ARGUMENT in words. |platform| (capacity 32) gets the platform's name.
bool pyslip_device_parse(pyslip_state_t *state, const char *text, char platform[32], slip_device_t *out);
PyObject *pyslip_device_text(slip_device_t device);
// The native stream of an argument `stream`: a Stream (whose |out_object|, borrowed, is then set), an int, or __cuda_stream__().
bool pyslip_stream_of(pyslip_state_t *state, PyObject *argument, slip_stream_t *out, pyslip_stream_t **out_object);
bool pyslip_stream_open(pyslip_stream_t *stream);  // else raises InvalidStateError

// The numbers among the arguments of open(), in the order of its keywords from task_window on; NULL: not given.
#define PYSLIP_OPTION_COUNT 14
bool pyslip_context_options(pyslip_state_t *state, PyObject *const *values, slip_context_options_t *options);
// One of them: |value| NULL gives 0.
bool pyslip_option_number(pyslip_state_t *state, const char *name, PyObject *value, uint64_t limit, uint64_t *out);
bool pyslip_option_rings(pyslip_state_t *state, const char *name, PyObject *value, uint64_t limit, uint64_t out[SLIP_RING_COUNT]);

// Registers _close_all() with atexit, once. False with an exception.
bool pyslip_exit_hook(pyslip_state_t *state);

// A call that lets the interpreter's lock go counts as a user of what it uses, so that nothing is freed under it.
bool pyslip_context_ready(pyslip_context_object_t *context);  // else raises InvalidStateError
void pyslip_context_leave(pyslip_context_object_t *context);
static inline void pyslip_context_enter(pyslip_context_object_t *context) {
  ++context->users;
}

uint64_t pyslip_now_ns(void);
// A cheap clock of unknown, steady rate.
static inline uint64_t pyslip_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return pyslip_now_ns();
#endif
}

#endif  // PYSLIP_PYSLIP_H_
