// SPDX-License-Identifier: Apache-2.0
// What calls keep alive, and how it comes back from threads that must not take the interpreter's lock. Table of states in pyslip.h.
#include "direct.h"

void pyslip_kept_release(pyslip_kept_t *kept, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t kind = kept[i].kind;
    kept[i].kind = PYSLIP_KEPT_NOTHING;
    if (kind == PYSLIP_KEPT_OBJECT) Py_DECREF(kept[i].value.object);
    if (kind == PYSLIP_KEPT_BUFFER) PyBuffer_Release(&kept[i].value.buffer);
    if (kind == PYSLIP_KEPT_MANAGED && kept[i].value.managed->deleter) kept[i].value.managed->deleter(kept[i].value.managed);
    if (kind == PYSLIP_KEPT_OLD && kept[i].value.old->deleter) kept[i].value.old->deleter(kept[i].value.old);
    if (kind == PYSLIP_KEPT_DIRECT) pyslip_direct_release(kept[i].value.direct);
  }
}

pyslip_reaper_t *pyslip_reaper_create(void) {
  pyslip_reaper_t *reaper = PyMem_Malloc(sizeof(*reaper));
  if (!reaper) return NULL;
  atomic_init(&reaper->done, NULL);
  atomic_init(&reaper->references, 1);
  return reaper;
}

void pyslip_reaper_release(pyslip_reaper_t *reaper) {
  if (reaper && atomic_fetch_sub_explicit(&reaper->references, 1, memory_order_acq_rel) == 1) PyMem_Free(reaper);
}

void pyslip_reaper_empty(pyslip_reaper_t *reaper) {
  pyslip_hold_t *hold = atomic_exchange_explicit(&reaper->done, NULL, memory_order_acquire);
  while (hold) {
    pyslip_hold_t *next = hold->next;
    pyslip_hold_free(hold);
    hold = next;
  }
}

pyslip_hold_t *pyslip_hold_create(pyslip_reaper_t *reaper, size_t capacity) {
  pyslip_hold_t *hold = PyMem_Malloc(sizeof(*hold) + (capacity ? capacity : 1) * sizeof(hold->kept[0]));
  if (!hold) {
    PyErr_NoMemory();
    return NULL;
  }
  hold->next = NULL;
  hold->reaper = reaper;
  hold->count = 0;
  atomic_init(&hold->state, PYSLIP_HOLD_LAUNCHING);
  if (reaper) atomic_fetch_add_explicit(&reaper->references, 1, memory_order_relaxed);
  return hold;
}

void pyslip_hold_free(pyslip_hold_t *hold) {
  if (!hold) return;
  // What is given back may run other code, which must not find the exception of a call that failed.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  pyslip_kept_release(hold->kept, hold->count);
  PyErr_Restore(type, value, traceback);
  pyslip_reaper_release(hold->reaper);
  PyMem_Free(hold);
}

void pyslip_hold_released(void *user) {
  pyslip_hold_t *hold = user;
  if (atomic_exchange_explicit(&hold->state, PYSLIP_HOLD_RELEASED, memory_order_acq_rel) != PYSLIP_HOLD_LAUNCHED) return;
  pyslip_hold_t *head = atomic_load_explicit(&hold->reaper->done, memory_order_relaxed);
  do {
    hold->next = head;
  } while (!atomic_compare_exchange_weak_explicit(&hold->reaper->done, &head, hold, memory_order_release, memory_order_relaxed));
}
