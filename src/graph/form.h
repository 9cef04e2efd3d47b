// SPDX-License-Identifier: Apache-2.0
// What the tensors of a submit look like, apart from where they lie: checked once, then recognised.
//
// Most submits of a kernel have tensors of the same dims, strides and dtypes as one before. A *form* holds these, with all that follows
// from them: which bytes each tensor touches, that the kernel's declaration allows it, what the kernel will see. A submit that fits a known
// form is compared with it, and only its addresses are checked; a task in flight carries its form and its addresses, two cache lines
// instead of a line and a half for each tensor, and the threads that run it find the form in their caches.
//
// Forms belong to a workspace (single-owner: the submitter) and are constant once made; executors of tasks that carry them only read. They
// are kept across runs of one site: |object_serial| and the kernel's index tell them apart, and only at the beginning of a run, with
// nothing in flight, are all of them dropped to make room. When there is no room during a run, a task brings a form of its own, in its
// argument block.
#ifndef SLIPSTREAM_SRC_GRAPH_FORM_H_
#define SLIPSTREAM_SRC_GRAPH_FORM_H_

#include "slipstream/kernel/object.h"
#include "slipstream/base.h"

#define SLIP__FORM_BUCKETS 64
#define SLIP__FORM_WALK    32              // forms of one kernel that are compared
#define SLIP__FORM_BYTES   (256u * 1024u)  // for all of a workspace's forms
#define SLIP__FORM_SHAPES  2048u           // strided shapes, all forms together

typedef struct slip__form_tensor_t {
  int64_t low;      // where the first byte lies, from |data|: 0 unless a stride is negative
  uint64_t extent;  // bytes from the first to the last; 0: an empty view
  uint64_t shape;   // for the dependency map; 0: an empty view
  uint32_t access;  // slip_access_e
  uint32_t writes;  // the kernel writes it
} slip__form_tensor_t;

typedef struct slip__form_t {
  uint64_t object_serial;
  uint64_t id;  // differs from that of every other form of the engine: a seat knows by it which views it holds
  struct slip__form_t *next;
  uint32_t kernel;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t plain;                // there are tensors, all exist and are not empty, none is NO_DEP; all arguments fit a slot
  slip__form_tensor_t *tensors;  // behind the views
  slip_ktensor_t views[];        // |data| is NULL
} slip__form_t;

typedef struct slip__forms_t {
  char *memory;
  uint64_t used, high;
  uint64_t next_id;
  slip__form_t *buckets[SLIP__FORM_BUCKETS];
} slip__forms_t;

static inline uint64_t slip__form_bytes(uint32_t tensor_count) {
  uint64_t bytes = sizeof(slip__form_t) + tensor_count * (sizeof(slip_ktensor_t) + sizeof(slip__form_tensor_t));
  return (bytes + 63) & ~(uint64_t)63;
}

static inline uint64_t slip__form_word(const slip_ktensor_t *view) {
  return (uint64_t)view->dtype | (uint64_t)view->rank << 8;
}

// True if |view| has the shape |known|, which counts as different also where entries above its rank 0 or 1 are not what they should be.
static inline bool slip__form_looks(const slip_ktensor_t *view, const slip_ktensor_t *known) {
  uint64_t other = (slip__form_word(view) ^ slip__form_word(known)) | (uint64_t)(view->dims[0] ^ known->dims[0]) |
                   (uint64_t)(view->strides[0] ^ known->strides[0]) | (uint64_t)(view->dims[1] ^ known->dims[1]) |
                   (uint64_t)(view->strides[1] ^ known->strides[1]);
  for (uint32_t d = 2; d < known->rank; ++d) {
    other |= (uint64_t)(view->dims[d] ^ known->dims[d]) | (uint64_t)(view->strides[d] ^ known->strides[d]);
  }
  return other == 0;
}

// True if the submit's tensors look as the form says. Addresses and strides of outputs that are still to be allocated do not matter.
static inline bool slip__form_fits(const slip__form_t *form, const slip_submit_t *submit) {
  for (uint32_t i = 0; i < form->tensor_count; ++i) {
    const slip_oarg_t *argument = &submit->tensors[i];
    const slip_ktensor_t *known = &form->views[i];
    if (!argument->tensor || argument->access != form->tensors[i].access) return false;
    const slip_ktensor_t *view = &argument->tensor->view;
    if (slip__form_word(view) != slip__form_word(known)) return false;
    for (uint32_t d = 0; d < known->rank; ++d) {
      if (view->dims[d] != known->dims[d]) return false;
      if (view->strides[d] != known->strides[d] && argument->access != SLIP_ACCESS_OUT) return false;
    }
  }
  return true;
}

// The newest form in the bucket of |kernel|, perhaps of another kernel or object; NULL if it is empty.
static inline const slip__form_t *slip__forms_first(const slip__forms_t *forms, uint64_t object_serial, uint32_t kernel) {
  return forms->buckets[(object_serial * 7 + kernel) % SLIP__FORM_BUCKETS];
}

static inline const slip__form_t *slip__forms_find(const slip__forms_t *forms, uint64_t object_serial, const slip_submit_t *submit) {
  const slip__form_t *form = slip__forms_first(forms, object_serial, submit->kernel);
  for (uint32_t i = 0; form && i < SLIP__FORM_WALK; ++i, form = form->next) {
    if (form->kernel == submit->kernel && form->object_serial == object_serial && slip__form_fits(form, submit)) return form;
  }
  return NULL;
}

typedef struct slip__workspace_t slip__workspace_t;

// The form of |submit|, whose tensors are all checked here; made in |own| if there is no room for one that stays, which |*out_own| tells.
// NULL: the error is latched. (submit_check.c)
const slip__form_t *slip__forms_add(slip__workspace_t *workspace, const slip_submit_t *submit, slip__form_t *own, bool *out_own);
// Begins a run: if there is little room left, drops all forms. True if it has; shapes may then be dropped as well.
static inline bool slip__forms_begin(slip__forms_t *forms, uint32_t shapes_used) {
  if (__builtin_expect(forms->used <= SLIP__FORM_BYTES / 2 && shapes_used <= SLIP__FORM_SHAPES, 1)) return false;
  forms->used = 0;
  for (uint32_t i = 0; i < SLIP__FORM_BUCKETS; ++i) forms->buckets[i] = NULL;
  return true;
}

#endif  // SLIPSTREAM_SRC_GRAPH_FORM_H_
