// SPDX-License-Identifier: Apache-2.0
// Context: a share of the kernel-mode context of a device.
//
// open() with the options of an open context gives another share of it; close() gives a share back, and the last one closes. So parts of a
// program that do not know each other may each open and close. Contexts that are open are anchored in the module: forgetting one does not
// pull it from under others, and the exit hook, registered by the first open(), closes what is left before the interpreter's end. In a
// forked child that hook finds FORKED everywhere and leaves everything.
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "pyslip.h"
#include "worker.h"

uint64_t pyslip_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// --- list of open ones -----------------------------------------------------------------------------------------------------------------

static void pyslip_context_anchor(pyslip_context_object_t *self) {
  pyslip_state_t *state = self->state;
  Py_INCREF(self);
  self->previous = NULL;
  self->next = state->contexts;
  if (self->next) self->next->previous = self;
  state->contexts = self;
}

static void pyslip_context_unanchor(pyslip_context_object_t *self) {
  if (self->next) self->next->previous = self->previous;
  if (self->previous)
    self->previous->next = self->next;
  else
    self->state->contexts = self->next;
  self->next = self->previous = NULL;
  Py_DECREF(self);
}

// How many shares of each context are out, over all interpreters of the process: the one thing here that is no module's own. Interpreters
// with a lock of their own cannot import the extension, so the one lock guards it.
typedef struct pyslip_share_t {
  struct pyslip_share_t *next;
  slip_context_t *context;
  size_t count;
} pyslip_share_t;
static pyslip_share_t *pyslip_shares;

// Opening with its share and closing the last share exclude each other: else an open would meet a context that is closing, or get one that
// another thread closes before the share is counted. Inside, no Python code runs. A forked child makes a door of its own: the one it
// inherited may be shut by a thread that it does not have.
static PyThread_type_lock pyslip_door;
static pid_t pyslip_door_process;

static bool pyslip_door_enter(void) {
  if (pyslip_door_process != getpid()) {
    PyThread_type_lock door = PyThread_allocate_lock();
    if (!door) return PyErr_NoMemory() != NULL;
    pyslip_door = door;
    pyslip_door_process = getpid();
  }
  PyThread_type_lock door = pyslip_door;
  PYSLIP_WITHOUT_LOCK(PyThread_acquire_lock(door, WAIT_LOCK));
  return true;
}

static void pyslip_door_leave(void) {
  PyThread_release_lock(pyslip_door);
}

static pyslip_share_t **pyslip_share_find(const slip_context_t *context) {
  pyslip_share_t **link = &pyslip_shares;
  while (*link && (*link)->context != context) link = &(*link)->next;
  return link;
}

static bool pyslip_share_take(slip_context_t *context) {
  pyslip_share_t *share = *pyslip_share_find(context);
  if (!share) {
    share = PyMem_Malloc(sizeof(*share));
    if (!share) return PyErr_NoMemory() != NULL;
    *share = (pyslip_share_t){pyslip_shares, context, 0};
    pyslip_shares = share;
  }
  ++share->count;
  return true;
}

static void pyslip_share_give(const slip_context_t *context) {
  pyslip_share_t **link = pyslip_share_find(context), *share = *link;
  if (!share || --share->count) return;
  *link = share->next;
  PyMem_Free(share);
}

static bool pyslip_context_shared(const pyslip_context_object_t *self) {
  const pyslip_share_t *share = *pyslip_share_find(self->context);
  return share && share->count > 1;
}

// --- use -------------------------------------------------------------------------------------------------------------------------------

bool pyslip_context_ready(pyslip_context_object_t *self) {
  if (__builtin_expect(self->context && !self->closed, 1)) return true;
  pyslip_raise_format(self->state, PYSLIP_ERROR_INVALID_STATE, "the context of %s:%d is closed; open it again",
                      slip_platform_name(self->device.platform), (int)self->device.ordinal);
  return false;
}

// Destroys the share once it is closed and nobody is in a call.
static void pyslip_context_settle(pyslip_context_object_t *self) {
  if (!self->closed || self->users || !self->context) return;
  slip_context_t *context = self->context;
  self->context = NULL;
  slip_status_free(slip_context_destroy(context));
}

void pyslip_context_leave(pyslip_context_object_t *self) {
  --self->users;
  if (__builtin_expect(self->closed, 0)) pyslip_context_settle(self);
}

// --- open ------------------------------------------------------------------------------------------------------------------------------

bool pyslip_exit_hook(pyslip_state_t *state) {
  if (state->exit_hook) return true;
  PyObject *atexit = PyImport_ImportModule("atexit");
  PyObject *hook = atexit ? PyObject_GetAttrString(state->module, "_close_all") : NULL;
  PyObject *done = hook ? PyObject_CallMethod(atexit, "register", "O", hook) : NULL;
  state->exit_hook = done != NULL;
  Py_XDECREF(done);
  Py_XDECREF(hook);
  Py_XDECREF(atexit);
  return state->exit_hook;
}

static pyslip_context_object_t *pyslip_context_allocate(pyslip_state_t *state) {
  pyslip_context_object_t *self = PyObject_New(pyslip_context_object_t, state->context);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  self->state = state;
  self->closed = true;
  self->reaper = pyslip_reaper_create();
  if (self->reaper) return self;
  Py_DECREF(self);
  PyErr_NoMemory();
  return NULL;
}

static PyObject *pyslip_context_open(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"device",
                          "target",
                          "task_window",
                          "heap_bytes",
                          "dependency_pool",
                          "generation",
                          "scheduler_threads",
                          "max_in_flight",
                          "max_pending",
                          "max_callables",
                          "max_resident_bytes",
                          "max_image_bytes",
                          "workspace_budget_bytes",
                          "stall_timeout_ms",
                          "max_captured",
                          "max_captures",
                          "single_thread",
                          "pin_workers",
                          "skip_build_check",
                          NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  const char *text = "cpu:0";
  char platform[32];
  PyObject *v[PYSLIP_OPTION_COUNT] = {NULL};
  int single = 0, pin = 0, skip = 0;
  slip_device_t device;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s$zOOOOOOOOOOOOOOppp:open", names, &text, &options.target, &v[0], &v[1], &v[2], &v[3],
                                   &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11], &v[12], &v[13], &single, &pin, &skip))
    return NULL;
  if (!pyslip_device_parse(state, text, platform, &device) || !pyslip_context_options(state, v, &options)) return NULL;
  options.platform = platform;
  options.device = device.ordinal;
  options.flags =
      (single ? SLIP_CONTEXT_SINGLE_THREAD : 0u) | (pin ? SLIP_CONTEXT_PIN_WORKERS : 0u) | (skip ? SLIP_CONTEXT_SKIP_BUILD_CHECK : 0u);
  pyslip_context_object_t *self = pyslip_exit_hook(state) ? pyslip_context_allocate(state) : NULL;
  if (!self) return NULL;
  slip_context_t *context = NULL;
  slip_status_t status;
  if (!pyslip_door_enter()) {
    Py_DECREF(self);
    return NULL;
  }
  PyThreadState *thread = PyEval_SaveThread();
  status = slip_context_open(&options, &context);
  if (!slip_status_is_ok(status) && context) {
    // It failed and owes teardown. Tried again here; what still fails then stays until the process ends.
    status = slip_status_join(status, slip_context_close(context));
    status = slip_status_join(status, slip_context_destroy(context));
    context = NULL;
  }
  PyEval_RestoreThread(thread);
  bool taken = context && pyslip_share_take(context);
  pyslip_door_leave();
  if (!taken) {
    if (context)
      slip_status_free(slip_context_destroy(context));
    else
      pyslip_ok(state, status);
    Py_DECREF(self);
    return NULL;
  }
  self->context = context;
  self->closed = false;
  self->device = slip_context_device(context);
  self->generation = slip_context_generation(context);
  self->open_ns = pyslip_now_ns();
  self->open_ticks = pyslip_ticks();
  pyslip_context_anchor(self);
  return (PyObject *)self;
}

// --- close -----------------------------------------------------------------------------------------------------------------------------

// Ends the graphs and enters the door: 1, with no graph left; 0: another thread has closed the share; -1 with an exception.
static int pyslip_context_end_graphs(pyslip_context_object_t *self) {
  for (;;) {
    while (!self->closed && self->graphs) {
      // What a graph gives back may run other code, which may drop the graph.
      pyslip_graph_t *graph = (pyslip_graph_t *)Py_NewRef((PyObject *)self->graphs);
      bool ended = pyslip_graph_end(graph);
      Py_DECREF((PyObject *)graph);
      if (!ended) return -1;
    }
    if (self->closed) return 0;
    if (!pyslip_door_enter()) return -1;
    if (!self->closed && !self->graphs) return 1;
    pyslip_door_leave();  // another thread was faster, or has made a graph meanwhile
  }
}

// What replays of the share's graphs still use goes to another share of the context, where somebody looks at it again.
static void pyslip_leftovers_move(pyslip_context_object_t *self) {
  pyslip_context_object_t *other = self->state->contexts;
  while (other && (other == self || other->context != self->context)) other = other->next;
  if (!other) return;
  pyslip_leftover_t **link = &other->leftovers;
  while (*link) link = &(*link)->next;
  *link = self->leftovers;
  self->leftovers = NULL;
}

static bool pyslip_context_end(pyslip_context_object_t *self) {
  slip_status_t status;
  bool shared, over, again;
  pyslip_context_enter(self);
  do {
    int inside = pyslip_context_end_graphs(self);
    if (inside != 1) {
      pyslip_context_leave(self);
      return inside == 0;
    }
    status = slip_ok_status();
    shared = over = pyslip_context_shared(self);
    if (!shared) {
      slip_context_t *context = self->context;
      PyThreadState *thread = PyEval_SaveThread();
      status = slip_context_close(context);
      over = slip_context_state(context) == SLIP_CONTEXT_CLOSED;
      PyEval_RestoreThread(thread);
    }
    if (over) {
      self->closed = true;
      pyslip_share_give(self->context);
    }
    pyslip_door_leave();
    // Refused for a graph that another thread made at the last moment: there will be no more, admission has stopped.
    again = !over && self->graphs && slip_status_code(status) == SLIP_CODE_BUSY;
    if (again) slip_status_free(status);
  } while (again);
  if (over) {
    pyslip_callable_end_all(self, shared);
    pyslip_leftovers_prune(self, !shared);
    pyslip_leftovers_move(self);
    pyslip_reap(self->reaper);
    pyslip_context_unanchor(self);
  }
  pyslip_context_leave(self);
  return pyslip_ok(self->state, status);
}

static PyObject *pyslip_context_close(PyObject *self, PyObject *none) {
  (void)none;
  Py_INCREF(self);
  bool ok = pyslip_context_end((pyslip_context_object_t *)self);
  Py_DECREF(self);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_context_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_context_close(self, NULL);
}

static PyObject *pyslip_close_all(PyObject *module, PyObject *none) {
  (void)none;
  pyslip_state_t *state = pyslip_module_state(module);
  pyslip_context_object_t *self = state->contexts;
  while (self) {
    pyslip_context_object_t *next = self->next;
    Py_XINCREF(next);
    Py_INCREF(self);
    if (!pyslip_context_end(self)) {
      // A child of a fork has nothing to close; everything else is worth a word.
      if (PyErr_ExceptionMatches(state->errors[PYSLIP_ERROR_FORKED]))
        PyErr_Clear();
      else
        PyErr_WriteUnraisable((PyObject *)self);
    }
    Py_DECREF(self);
    Py_XDECREF(next);
    self = next;
  }
  pyslip_worker_close_all(state);
  Py_RETURN_NONE;
}

static void pyslip_context_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  if (self->reaper) pyslip_reap(self->reaper);
  pyslip_reaper_release(self->reaper);
  PyObject_Free(object);
  Py_DECREF(type);
}

// --- the rest --------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_context_prepare(PyObject *object, PyObject *argument) {
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  pyslip_state_t *state = self->state;
  if (!pyslip_context_ready(self)) return NULL;
  if (Py_TYPE(argument) != state->artifact)
    return pyslip_raise_format(state, PYSLIP_ERROR_ARGUMENT_TYPE, "prepare() expects an Artifact, got %R; load() or compile() makes one",
                               argument);
  slip_artifact_t *artifact = ((pyslip_artifact_t *)argument)->artifact;
  slip_context_t *context = self->context;
  int32_t id = -1;
  slip_status_t status;
  pyslip_context_enter(self);
  PYSLIP_WITHOUT_LOCK(status = slip_context_prepare_artifact(context, artifact, &id));
  // The share may have been closed meanwhile, without the context.
  bool ready = pyslip_ok(state, status) && pyslip_context_ready(self);
  PyObject *callable = ready ? pyslip_callable_create(self, id, slip_artifact_name(artifact)) : NULL;
  if (!callable && id >= 0) slip_status_free(slip_context_release(context, id));
  pyslip_context_leave(self);
  return callable;
}

static PyObject *pyslip_context_graph(PyObject *object, PyObject *none) {
  (void)none;
  return pyslip_context_ready((pyslip_context_object_t *)object) ? pyslip_graph_create((pyslip_context_object_t *)object) : NULL;
}

static PyObject *pyslip_context_drain(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  if (!pyslip_context_ready(self)) return NULL;
  slip_context_t *context = self->context;
  slip_status_t status;
  pyslip_context_enter(self);
  PYSLIP_WITHOUT_LOCK(status = slip_context_drain(context));
  pyslip_leftovers_prune(self, false);
  pyslip_reap(self->reaper);
  pyslip_context_leave(self);
  if (!pyslip_ok(self->state, status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_context_stats(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  slip_context_stats_t s = {.struct_size = (uint32_t)sizeof(s)};
  if (!pyslip_context_ready(self) || !pyslip_ok(self->state, slip_context_stats(self->context, &s))) return NULL;
  const uint64_t values[] = {s.callables,
                             s.resident_bytes,
                             s.launches,
                             s.refused,
                             s.retired,
                             s.faulted,
                             s.pending,
                             s.tasks,
                             s.workspace_bytes,
                             s.workers,
                             s.captured,
                             s.recordings,
                             s.recordings_refused,
                             s.replays};
  PyObject *stats = PyStructSequence_New(self->state->stats);
  for (size_t i = 0; stats && i < sizeof(values) / sizeof(values[0]); ++i)
    PyStructSequence_SetItem(stats, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(values[i]));
  if (stats && PyErr_Occurred()) Py_CLEAR(stats);
  return stats;
}

static const char *pyslip_context_state_name(const pyslip_context_object_t *self) {
  static const char *const names[] = {"uninitialized", "initializing", "ready", "failed", "closing", "closed"};
  if (self->closed || !self->context) return "closed";
  slip_context_state_e state = slip_context_state(self->context);
  return names[(unsigned)state < 6 ? (unsigned)state : 0];
}

static PyObject *pyslip_context_state(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(pyslip_context_state_name((pyslip_context_object_t *)self));
}
static PyObject *pyslip_context_initialized(PyObject *object, void *closure) {
  (void)closure;
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  return PyBool_FromLong(!self->closed && self->context && slip_context_initialized(self->context));
}
static PyObject *pyslip_context_generation(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(((pyslip_context_object_t *)self)->generation);
}
static PyObject *pyslip_context_device(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_device_text(((pyslip_context_object_t *)self)->device);
}
static PyObject *pyslip_context_handle(PyObject *object, void *closure) {
  (void)closure;
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  return PyLong_FromVoidPtr(self->closed ? NULL : self->context);
}
static PyObject *pyslip_context_repr(PyObject *object) {
  pyslip_context_object_t *self = (pyslip_context_object_t *)object;
  return PyUnicode_FromFormat("<slipstream.kernel.Context of %s:%d, generation %llu, %s>", slip_platform_name(self->device.platform),
                              (int)self->device.ordinal, (unsigned long long)self->generation, pyslip_context_state_name(self));
}
static PyObject *pyslip_context_self(PyObject *self, PyObject *none) {
  (void)none;
  return Py_NewRef(self);
}

static PyGetSetDef pyslip_context_members[] = {
    {"state", pyslip_context_state, NULL, "'ready', 'failed', 'closing', 'closed' ...", NULL},
    {"initialized", pyslip_context_initialized, NULL, "True only when ready. Never raises.", NULL},
    {"generation", pyslip_context_generation, NULL, "Number of this opening in the process, from 1.", NULL},
    {"device", pyslip_context_device, NULL, "'cpu:0' and so on.", NULL},
    {"handle", pyslip_context_handle, NULL, "Address of the slip_context_t, 0 when closed; borrowed.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_context_methods[] = {
    {"prepare", pyslip_context_prepare, METH_O,
     "prepare($self, artifact, /)\n--\n\nValidates and loads an artifact and returns a Callable. Equal artifacts give different callables. "
     "May block, "
     "without the GIL.\nRaises IncompatibleError (contract, platform, target), CorruptError, CapacityError, BusyError, "
     "CaptureUnsupportedError, "
     "InvalidStateError."},
    {"graph", pyslip_context_graph, METH_NOARGS, "graph($self, /)\n--\n\nAn empty Graph: recorded launches that are replayed as one."},
    {"drain", pyslip_context_drain, METH_NOARGS,
     "drain($self, /)\n--\n\nBlocks, without the GIL, until every launch made before has retired. CaptureUnsupportedError, PoisonedError, "
     "InvalidStateError."},
    {"stats", pyslip_context_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nStats of the device's context, over all shares. Never blocks. A call that has to wait for a run slot counts "
     "once as refused."},
    {"close", pyslip_context_close, METH_NOARGS,
     "close($self, /)\n--\n\nGives this share back: its graphs end, its callables end. The last share closes the context: admission stops, "
     "what is in "
     "flight is waited for (without the GIL), everything is given back. A second close does nothing; a failed one may be repeated.\nRaises "
     "BusyError, "
     "CaptureUnsupportedError, ForkedError, DeviceError."},
    {"__enter__", pyslip_context_self, METH_NOARGS, NULL},
    {"__exit__", pyslip_context_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_context_slots[] = {
    {Py_tp_doc,
     "A share of the kernel-mode context of a device. Made by kernel.open(); a context manager that closes. Any thread may use it."},
    {Py_tp_dealloc, pyslip_context_dealloc},
    {Py_tp_repr, pyslip_context_repr},
    {Py_tp_getset, pyslip_context_members},
    {Py_tp_methods, pyslip_context_methods},
    {0, NULL}};
static PyType_Spec pyslip_context_spec = {"slipstream.kernel.Context", sizeof(pyslip_context_object_t), 0,
                                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                          pyslip_context_slots};

static PyMethodDef pyslip_context_functions[] = {
    {"open", (PyCFunction)(void (*)(void))pyslip_context_open, METH_VARARGS | METH_KEYWORDS,
     "open($module, device='cpu:0', *, target=None, task_window=0, heap_bytes=0, dependency_pool=0, generation=0, scheduler_threads=0, "
     "max_in_flight=0, max_pending=0, max_callables=0, max_resident_bytes=0, max_image_bytes=0, workspace_budget_bytes=0, "
     "stall_timeout_ms=0, "
     "max_captured=0, max_captures=0, single_thread=False, pin_workers=False, skip_build_check=False)\n--\n\nOpens the kernel-mode context "
     "of a device "
     "and claims the process for kernel mode; returns a Context.\n\nZero always means the default. task_window (tasks in flight, a power "
     "of two of at "
     "least 4), heap_bytes (bytes of intermediates, at least 1024) and dependency_pool (at least 4) are an int or four, one a scope depth. "
     "scheduler_threads: 0 (as many as the process may use) or at least 2; single_thread: the launching thread does everything. Sizes are "
     "in bytes, "
     "stall_timeout_ms in milliseconds.\n\nThe same options again give another share of the same context. May block, without the "
     "GIL.\nRaises "
     "InvalidArgumentError, NotFoundError, UnsupportedError, IncompatibleError, ModeConflictError, ConflictError (other options; names the "
     "field), "
     "RecursiveError, ForkedError, CaptureUnsupportedError, BusyError, DeviceError."},
    {"_close_all", pyslip_close_all, METH_NOARGS,
     "_close_all($module, /)\n--\n\nThe exit hook: closes every context and worker that is open."},
    {NULL, NULL, 0, NULL}};

int pyslip_context_init(pyslip_state_t *state) {
  state->context = pyslip_add_type(state, &pyslip_context_spec);
  return state->context ? PyModule_AddFunctions(state->module, pyslip_context_functions) : -1;
}
