// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "graph/recorded/cache.h"
#include "os/log.h"
#include "slipstream/dtype.h"

static uint64_t slip__report_id(const slip__workspace_t *workspace, uint64_t key, slip__report_kind_e kind) {
  const slip__run_t *run = workspace->run;
  // A run without a site has a new serial number each time; its object stands for it.
  const uint64_t words[4] = {run->site ? run->site->id : (uint64_t)(uintptr_t)run->object, run->entry, key, kind};
  return slip__hash64((slip_const_bytes_t){.data = (const uint8_t *)words, .size = sizeof(words)}) | 1;  // 0: none
}

bool slip__report_once(slip__workspace_t *workspace, slip__report_memo_t *memo, uint64_t key, slip__report_kind_e kind) {
  uint64_t id = slip__report_id(workspace, key, kind), *seen = &memo->ids[id >> 1 & 15];
  if (*seen == id) return false;
  *seen = id;
  return slip__log_wants(SLIP__LOG_WARN) && slip__record_says(workspace->engine, id);
}

void slip__report_graph(const slip__workspace_t *workspace, uint64_t key, const char *what, const char *why, const char *now) {
  const slip_object_t *object = workspace->run->object;
  const char *entry = object->entries[workspace->run->entry].name;
  slip__log(SLIP__LOG_WARN, "graph %" PRIu64 " of entry \"%s\" %s: %s; %s", key, entry ? entry : "?", what, why, now);
}

// --- Texts --------------------------------------------------------------------------------------------------------------------------

// Appends; what does not fit is cut.
__attribute__((format(printf, 3, 4))) static void slip__report_add(char *text, size_t capacity, const char *format, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text + length, capacity - length, format, arguments);
  va_end(arguments);
}

static void slip__report_list(char *text, size_t capacity, const int64_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) slip__report_add(text, capacity, "%s%" PRId64, i ? ", " : "", values[i]);
}

void slip__report_shape(uint32_t dtype, uint32_t rank, const int64_t *dims, const int64_t *strides, char *text, size_t capacity) {
  text[0] = '\0';
  slip__report_add(text, capacity, "%s [", slip_dtype_name((slip_dtype_t)dtype));
  slip__report_list(text, capacity, dims, rank);
  slip__report_add(text, capacity, "]");
  if (rank == 0) return;
  slip__report_add(text, capacity, " with strides (");
  slip__report_list(text, capacity, strides, rank);
  slip__report_add(text, capacity, ")");
}

static const char *slip__report_kernel(const slip_object_t *object, uint32_t kernel) {
  if (kernel == SLIP__NONE) return "a join";
  return kernel < object->kernel_count && object->kernels[kernel].name ? object->kernels[kernel].name : "?";
}

static void slip__report_tensor(const slip__definition_tensor_t *tensor, char *text, size_t capacity) {
  slip__report_shape(tensor->dtype, tensor->rank, tensor->dims, tensor->strides, text, capacity);
  slip__report_add(text, capacity, " at byte %" PRIu64, tensor->offset);
  if (tensor->base == SLIP__BASE_HEAP) {
    slip__report_add(text, capacity, " of the intermediates");
  } else {
    slip__report_add(text, capacity, " of tensor %" PRIu32, tensor->base);
  }
}

// The first argument in which nodes |a| and |b| of one kernel differ. False: none.
static bool slip__report_arguments(const slip__definition_block_t *first, const slip__definition_block_t *second,
                                   const slip__definition_node_t *a, const slip__definition_node_t *b, char *text, size_t capacity) {
  const slip__definition_tensor_t *ta = slip__definition_tensors(first) + a->first_tensor;
  const slip__definition_tensor_t *tb = slip__definition_tensors(second) + b->first_tensor;
  const slip__definition_scalar_t *sa = slip__definition_scalars(first) + a->first_scalar;
  const slip__definition_scalar_t *sb = slip__definition_scalars(second) + b->first_scalar;
  for (uint32_t i = 0; i < a->tensor_count && i < b->tensor_count; ++i) {
    if (memcmp(&ta[i], &tb[i], sizeof(ta[i])) == 0) continue;
    char was[SLIP__REPORT_TEXT / 2], is[SLIP__REPORT_TEXT / 2];
    slip__report_tensor(&ta[i], was, sizeof(was));
    slip__report_tensor(&tb[i], is, sizeof(is));
    slip__report_add(text, capacity, "whose argument %" PRIu32 " was %s, and is %s", i, was, is);
    return true;
  }
  for (uint32_t i = 0; i < a->scalar_count && i < b->scalar_count; ++i) {
    if (memcmp(&sa[i], &sb[i], sizeof(sa[i])) == 0) continue;
    if (sa[i].source == SLIP__NONE && sb[i].source == SLIP__NONE) {
      slip__report_add(text, capacity, "whose scalar %" PRIu32 " was %" PRIu64 ", and is %" PRIu64, i, sa[i].add, sb[i].add);
    } else {
      slip__report_add(text, capacity, "whose scalar %" PRIu32 " comes from another boundary scalar than before", i);
    }
    return true;
  }
  return false;
}

void slip__report_difference(const slip__definition_block_t *first, const slip__definition_block_t *second, const slip_object_t *object,
                             char *text, size_t capacity) {
  const slip__definition_node_t *a = slip__definition_nodes(first), *b = slip__definition_nodes(second);
  uint32_t count = first->node_count < second->node_count ? first->node_count : second->node_count;
  text[0] = '\0';
  for (uint32_t i = 0; i < count; ++i) {
    char arguments[SLIP__REPORT_TEXT] = "";
    if (a[i].kernel != b[i].kernel || a[i].block_count != b[i].block_count) {
      slip__report_add(text, capacity, " (task %" PRIu32 " was %s of %" PRIu32 " blocks, and is %s of %" PRIu32 ")", i,
                       slip__report_kernel(object, a[i].kernel), a[i].block_count, slip__report_kernel(object, b[i].kernel),
                       b[i].block_count);
      return;
    }
    if (slip__report_arguments(first, second, &a[i], &b[i], arguments, sizeof(arguments))) {
      slip__report_add(text, capacity, " (task %" PRIu32 " is %s, %s)", i, slip__report_kernel(object, a[i].kernel), arguments);
      return;
    }
  }
  if (first->node_count != second->node_count)
    slip__report_add(text, capacity, " (there were %" PRIu32 " tasks, and are %" PRIu32 ")", first->node_count, second->node_count);
}
