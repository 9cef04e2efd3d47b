// SPDX-License-Identifier: Apache-2.0
// Graph: recorded launches, replayed as one.
//
// A node's tensors are kept by its hold. bind() replaces it; replays that are enqueued still use the old one, so it is set aside with the
// number of the last replay made so far, and given back when no replay up to that number is left: neither an asynchronous one nor one that
// another thread is in. What is left when the graph ends goes to the context as a leftover, which is looked at again in drain() and
// close().
//
// Whatever gives holds back, or reads arguments, may run other code, which may close the graph or give the last reference to a callable
// away: it is looked at again afterwards.
#include <unistd.h>

#include "pyslip.h"

static bool pyslip_graph_open(pyslip_graph_t *self) {
  if (self->graph) return pyslip_context_ready(self->context);
  pyslip_raise_format(self->context->state, PYSLIP_ERROR_INVALID_STATE, "the graph is closed; record another");
  return false;
}

// Makes room for one more of |items|; false with MemoryError.
static bool pyslip_grow(void **items, size_t *capacity, size_t count, size_t size) {
  if (count < *capacity) return true;
  size_t wanted = *capacity ? 2 * *capacity : 8;
  void *grown = PyMem_Realloc(*items, wanted * size);
  if (!grown) {
    PyErr_NoMemory();
    return false;
  }
  *items = grown;
  *capacity = wanted;
  return true;
}

// Drops the tickets of replays that have ended and the holds that none of the others uses.
static void pyslip_graph_prune(pyslip_graph_t *self) {
  uint64_t oldest = self->forgotten ? 0 : UINT64_MAX;
  size_t kept = 0;
  for (size_t i = 0; i < self->replay_count; ++i) {
    bool running = !self->replays[i].ticket;
    if (!running) {
      slip_status_t status = slip_ticket_query(pyslip_ticket_of(self->replays[i].ticket));
      running = slip_status_code(status) == SLIP_CODE_NOT_READY;
      slip_status_free(status);
    }
    if (running) {
      if (self->replays[i].number < oldest) oldest = self->replays[i].number;
      self->replays[kept++] = self->replays[i];
    } else {
      Py_DECREF(self->replays[i].ticket);
    }
  }
  self->replay_count = kept;
  for (size_t i = 0; i < self->retired_count;) {
    if (self->retired[i].number >= oldest) {
      ++i;
      continue;
    }
    pyslip_hold_t *hold = self->retired[i].hold;
    self->retired[i] = self->retired[--self->retired_count];
    pyslip_hold_free(hold);
  }
}

void pyslip_leftovers_prune(pyslip_context_object_t *context, bool all) {
  pyslip_leftover_t **link = &context->leftovers;
  while (*link) {
    pyslip_leftover_t *leftover = *link;
    bool running = !all && leftover->forgotten;
    for (size_t i = 0; !all && !running && i < leftover->ticket_count; ++i) {
      slip_status_t status = slip_ticket_query(pyslip_ticket_of(leftover->tickets[i]));
      running = slip_status_code(status) == SLIP_CODE_NOT_READY;
      slip_status_free(status);
    }
    if (running) {
      link = &leftover->next;
      continue;
    }
    *link = leftover->next;
    for (size_t i = 0; i < leftover->ticket_count; ++i) Py_DECREF(leftover->tickets[i]);
    for (size_t i = 0; i < leftover->hold_count; ++i) pyslip_hold_free(leftover->holds[i]);
    PyMem_Free(leftover->tickets);
    PyMem_Free(leftover->holds);
    PyMem_Free(leftover);
    link = &context->leftovers;  // freeing may have run other code
  }
}

// What replays still use goes to the context. Short of memory it stays for ever.
static void pyslip_graph_leave(pyslip_graph_t *self) {
  size_t holds = self->node_count + self->retired_count;
  pyslip_leftover_t *leftover = PyMem_Malloc(sizeof(*leftover));
  PyObject **ticket_list = PyMem_Malloc((self->replay_count + 1) * sizeof(*ticket_list));
  pyslip_hold_t **hold_list = PyMem_Malloc((holds + 1) * sizeof(*hold_list));
  if (!leftover || !ticket_list || !hold_list) {
    PyMem_Free(leftover);
    PyMem_Free(ticket_list);
    PyMem_Free(hold_list);
    return;
  }
  *leftover = (pyslip_leftover_t){self->context->leftovers, ticket_list, hold_list, self->replay_count, holds, self->forgotten};
  for (size_t i = 0; i < self->replay_count; ++i) ticket_list[i] = self->replays[i].ticket;
  for (size_t i = 0; i < self->node_count; ++i) hold_list[i] = self->nodes[i].hold;
  for (size_t i = 0; i < self->retired_count; ++i) hold_list[self->node_count + i] = self->retired[i].hold;
  self->context->leftovers = leftover;
}

bool pyslip_graph_end(pyslip_graph_t *self) {
  if (!self->graph) return true;
  pyslip_state_t *state = self->context->state;
  if (self->users)
    return pyslip_raise_format(state, PYSLIP_ERROR_BUSY, "another thread is in a call on the graph; close it afterwards") != NULL;
  if (!pyslip_ok(state, slip_graph_destroy(self->graph))) return false;
  self->graph = NULL;
  if (self->next) self->next->previous = self->previous;
  if (self->previous)
    self->previous->next = self->next;
  else
    self->context->graphs = self->next;
  pyslip_graph_prune(self);
  size_t nodes = self->node_count;
  pyslip_graph_node_t *list = self->nodes;
  bool running = self->replay_count != 0 || self->forgotten;
  if (running) pyslip_graph_leave(self);
  self->nodes = NULL;
  self->node_count = self->retired_count = self->replay_count = 0;
  for (size_t i = 0; i < nodes; ++i) {
    if (!running) pyslip_hold_free(list[i].hold);
    Py_DECREF(list[i].callable);
  }
  PyMem_Free(list);
  return true;
}

PyObject *pyslip_graph_create(pyslip_context_object_t *context) {
  slip_graph_t *graph = NULL;
  if (!pyslip_ok(context->state, slip_graph_create(context->context, &graph))) return NULL;
  PyThread_type_lock turn = PyThread_allocate_lock();
  pyslip_graph_t *self = turn ? PyObject_New(pyslip_graph_t, context->state->graph) : NULL;
  if (!self) {
    if (turn)
      PyThread_free_lock(turn);
    else
      PyErr_NoMemory();
    slip_status_free(slip_graph_destroy(graph));
    return NULL;
  }
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  self->turn = turn;
  self->process = getpid();
  Py_INCREF(context);
  self->context = context;
  self->graph = graph;
  self->next = context->graphs;
  if (self->next) self->next->previous = self;
  context->graphs = self;
  return (PyObject *)self;
}

static void pyslip_graph_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_graph_t *self = (pyslip_graph_t *)object;
  PyObject *error, *value, *traceback;
  PyErr_Fetch(&error, &value, &traceback);
  // A graph that cannot be destroyed, in a forked child, is left; it must go from the context's list all the same.
  if (self->graph && !pyslip_graph_end(self)) {
    PyErr_Clear();
    if (self->next) self->next->previous = self->previous;
    if (self->previous)
      self->previous->next = self->next;
    else
      self->context->graphs = self->next;
  }
  PyErr_Restore(error, value, traceback);
  PyMem_Free(self->nodes);
  PyMem_Free(self->replays);
  PyMem_Free(self->retired);
  PyThread_free_lock(self->turn);
  Py_XDECREF(self->context);
  PyObject_Free(object);
  Py_DECREF(type);
}

// Binds the arguments of |callable| into |call| and a new hold.
static pyslip_hold_t *pyslip_graph_frame(pyslip_graph_t *self, pyslip_callable_t *callable, PyObject *const *args, size_t count,
                                         PyObject *names, pyslip_call_t *call) {
  PyObject **values = PyMem_Malloc((callable->entry.slot_count + 1) * sizeof(*values));
  pyslip_hold_t *hold = values ? pyslip_hold_create(NULL, callable->entry.tensor_count) : (pyslip_hold_t *)PyErr_NoMemory();
  bool ok = hold && pyslip_call_sort(callable, args, count, names, values, NULL) && pyslip_call_bind(callable, values, hold, call);
  PyMem_Free(values);
  if (ok && !pyslip_graph_open(self)) {
    pyslip_call_end(call);
    ok = false;
  }
  if (!ok) {
    pyslip_hold_free(hold);
    return NULL;
  }
  return hold;
}

static PyObject *pyslip_graph_add(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  pyslip_graph_t *self = (pyslip_graph_t *)object;
  pyslip_state_t *state = self->context->state;
  pyslip_call_t call;
  uint32_t node = 0;
  if (!pyslip_graph_open(self)) return NULL;
  if (count < 1 || Py_TYPE(args[0]) != state->callable || ((pyslip_callable_t *)args[0])->context->context != self->context->context)
    return pyslip_raise_format(state, PYSLIP_ERROR_ARGUMENT_TYPE, "add() expects a Callable of the graph's context, then its arguments");
  pyslip_callable_t *callable = (pyslip_callable_t *)args[0];
  if (callable->closed)
    return pyslip_raise_format(state, PYSLIP_ERROR_NOT_PREPARED, "%s: the callable is closed; prepare it again", callable->entry.name);
  pyslip_hold_t *hold = pyslip_graph_frame(self, callable, args + 1, (size_t)count - 1, names, &call);
  if (!hold) return NULL;
  bool ok = !self->users;
  if (!ok) pyslip_raise_format(state, PYSLIP_ERROR_BUSY, "another thread is in a call on the graph; record before replaying");
  ok = ok && pyslip_grow((void **)&self->nodes, &self->node_capacity, self->node_count, sizeof(*self->nodes)) &&
       pyslip_ok(state, slip_graph_add(self->graph, callable->id, &call.frame, &node));
  pyslip_call_end(&call);
  if (!ok) {
    pyslip_hold_free(hold);
    return NULL;
  }
  self->nodes[self->node_count++] = (pyslip_graph_node_t){hold, (pyslip_callable_t *)Py_NewRef((PyObject *)callable)};
  return PyLong_FromUnsignedLong(node);
}

// Binds |node| to what |hold| keeps. Threads that bind take turns, so that a node's hold is that of its last binding.
static bool pyslip_graph_rebind(pyslip_graph_t *self, uint32_t node, pyslip_hold_t *hold, pyslip_call_t *call) {
  slip_graph_t *graph = self->graph;
  slip_status_t status;
  bool turn = self->process == getpid();  // in a forked child the turn may be a thread's that it does not have; the library refuses there
  ++self->users;
  pyslip_context_enter(self->context);
  PyThreadState *thread = PyEval_SaveThread();
  if (turn) PyThread_acquire_lock(self->turn, WAIT_LOCK);
  status = slip_graph_bind(graph, node, &call->frame);
  PyEval_RestoreThread(thread);
  bool ok = pyslip_ok(self->context->state, status);
  if (ok) {
    // Short of memory the old hold stays for ever, which is safe.
    if (pyslip_grow((void **)&self->retired, &self->retired_capacity, self->retired_count, sizeof(*self->retired)))
      self->retired[self->retired_count++] = (pyslip_retired_t){self->nodes[node].hold, self->launches};
    else
      PyErr_Clear();
    self->nodes[node].hold = hold;
  }
  if (turn) PyThread_release_lock(self->turn);
  --self->users;
  pyslip_context_leave(self->context);
  return ok;
}

static PyObject *pyslip_graph_bind(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  pyslip_graph_t *self = (pyslip_graph_t *)object;
  pyslip_state_t *state = self->context->state;
  pyslip_call_t call;
  if (!pyslip_graph_open(self)) return NULL;
  long long node = count < 1 || !PyLong_CheckExact(args[0]) ? -1 : PyLong_AsLongLong(args[0]);
  if (node < 0 || (size_t)node >= self->node_count) {
    PyErr_Clear();
    return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT,
                               "bind() expects a node, from 0 to %zd, then the arguments of its callable",
                               (Py_ssize_t)self->node_count - 1);
  }
  pyslip_graph_prune(self);
  if (!pyslip_graph_open(self)) return NULL;
  pyslip_callable_t *callable = (pyslip_callable_t *)Py_NewRef((PyObject *)self->nodes[node].callable);
  pyslip_hold_t *hold = pyslip_graph_frame(self, callable, args + 1, (size_t)count - 1, names, &call);
  bool ok = hold && pyslip_graph_rebind(self, (uint32_t)node, hold, &call);
  if (hold) pyslip_call_end(&call);
  if (!ok) pyslip_hold_free(hold);
  Py_DECREF((PyObject *)callable);
  if (!ok) return NULL;
  pyslip_graph_prune(self);
  Py_RETURN_NONE;
}

// The replay |number|, which had been noted as one that a thread is in, gets its ticket, or with NULL is over.
static void pyslip_graph_launched(pyslip_graph_t *self, uint64_t number, PyObject *ticket) {
  size_t i = 0;
  while (self->replays[i].number != number) ++i;
  if (ticket)
    self->replays[i].ticket = Py_NewRef(ticket);
  else
    self->replays[i] = self->replays[--self->replay_count];
}

static PyObject *pyslip_graph_replay(pyslip_graph_t *self, PyObject *stream_argument, bool want_ticket) {
  pyslip_state_t *state = self->context->state;
  pyslip_context_object_t *context = self->context;
  slip_stream_t stream = SLIP_STREAM_INLINE;
  pyslip_stream_t *owner = NULL;
  slip_ticket_t *ticket = NULL;
  if (!pyslip_graph_open(self)) return NULL;
  if (stream_argument ? !pyslip_stream_of(state, stream_argument, &stream, &owner) : context->device.platform != SLIP_PLATFORM_CPU) {
    if (!PyErr_Occurred())
      pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT,
                          "a replay on %s names its stream; pass stream=", slip_platform_name(context->device.platform));
    return NULL;
  }
  bool wanted = want_ticket || stream != SLIP_STREAM_INLINE;
  pyslip_graph_prune(self);
  if (!pyslip_graph_open(self) || (owner && !pyslip_stream_open(owner)) ||
      !pyslip_grow((void **)&self->replays, &self->replay_capacity, self->replay_count, sizeof(*self->replays)))
    return NULL;
  slip_graph_t *graph = self->graph;
  slip_status_t status;
  uint64_t number = ++self->launches;
  self->replays[self->replay_count++] = (pyslip_replay_t){NULL, number};
  ++self->users;
  if (owner) ++owner->users;
  pyslip_context_enter(context);
  PYSLIP_WITHOUT_LOCK(status = slip_graph_launch(graph, stream, wanted ? &ticket : NULL));
  bool launched = slip_status_is_ok(status);
  PyObject *wrapped = launched && wanted ? pyslip_ticket_wrap(context, ticket, Py_None) : NULL;
  // Short of memory the replay is forgotten, and what it uses is kept until the context closes.
  if (launched && wanted && !wrapped) self->forgotten = true;
  pyslip_graph_launched(self, number, stream == SLIP_STREAM_INLINE ? NULL : wrapped);
  --self->users;
  if (owner) --owner->users;
  pyslip_context_leave(context);
  if (!pyslip_ok(state, status)) return NULL;
  if (!wanted) Py_RETURN_NONE;
  if (want_ticket || !wrapped) return wrapped;
  Py_DECREF(wrapped);
  Py_RETURN_NONE;
}

static PyObject *pyslip_graph_launch(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"stream", NULL};
  PyObject *stream = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|O:launch", names, &stream)) return NULL;
  return pyslip_graph_replay((pyslip_graph_t *)self, stream, true);
}

static PyObject *pyslip_graph_call(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"stream", NULL};
  PyObject *stream = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|O:Graph", names, &stream)) return NULL;
  return pyslip_graph_replay((pyslip_graph_t *)self, stream, false);
}

static PyObject *pyslip_graph_close(PyObject *self, PyObject *none) {
  (void)none;
  if (!pyslip_graph_end((pyslip_graph_t *)self)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_graph_self(PyObject *self, PyObject *none) {
  (void)none;
  return Py_NewRef(self);
}

static PyObject *pyslip_graph_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_graph_close(self, NULL);
}

static Py_ssize_t pyslip_graph_length(PyObject *self) {
  return (Py_ssize_t)((pyslip_graph_t *)self)->node_count;
}

static PyObject *pyslip_graph_repr(PyObject *object) {
  pyslip_graph_t *self = (pyslip_graph_t *)object;
  return PyUnicode_FromFormat("<slipstream.kernel.Graph of %zd launches%s>", (Py_ssize_t)self->node_count, self->graph ? "" : ", closed");
}

static PyMethodDef pyslip_graph_methods[] = {
    {"add", (PyCFunction)(void (*)(void))pyslip_graph_add, METH_FASTCALL | METH_KEYWORDS,
     "add($self, callable, /, *args, **named)\n--\n\nAppends a launch and returns its node. Checks the arguments as a call does; their "
     "memory is kept "
     "alive. Only before the first replay.\nRaises what a call raises, InvalidStateError, NotPreparedError."},
    {"bind", (PyCFunction)(void (*)(void))pyslip_graph_bind, METH_FASTCALL | METH_KEYWORDS,
     "bind($self, node, /, *args, **named)\n--\n\nFrom the next replay on, node runs with these arguments (addresses, scalars, sizes). "
     "Replays that are "
     "enqueued keep theirs. May block, without the GIL, while 64 versions are in use."},
    {"launch", (PyCFunction)(void (*)(void))pyslip_graph_launch, METH_VARARGS | METH_KEYWORDS,
     "launch($self, stream=INLINE)\n--\n\nReplays the recording in order and returns its Ticket. On INLINE it has finished, and a fault, "
     "which names the "
     "node, is raised. Without the GIL."},
    {"close", pyslip_graph_close, METH_NOARGS,
     "close($self, /)\n--\n\nGives the graph up; replays that are enqueued still run. A second close does nothing. BusyError while another "
     "thread "
     "replays."},
    {"__enter__", pyslip_graph_self, METH_NOARGS, NULL},
    {"__exit__", pyslip_graph_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_graph_slots[] = {{Py_tp_doc,
                                            "Recorded launches, replayed as one. Made by Context.graph(); a context manager that closes. "
                                            "graph(stream=INLINE) replays without a ticket. A replay "
                                            "checks nothing again. Record on one thread; replay and bind from any."},
                                           {Py_tp_dealloc, pyslip_graph_dealloc},
                                           {Py_tp_call, pyslip_graph_call},
                                           {Py_tp_repr, pyslip_graph_repr},
                                           {Py_sq_length, pyslip_graph_length},
                                           {Py_tp_methods, pyslip_graph_methods},
                                           {0, NULL}};
static PyType_Spec pyslip_graph_spec = {"slipstream.kernel.Graph", sizeof(pyslip_graph_t), 0,
                                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                        pyslip_graph_slots};

int pyslip_graph_init(pyslip_state_t *state) {
  state->graph = pyslip_add_type(state, &pyslip_graph_spec);
  return state->graph ? 0 : -1;
}
