// SPDX-License-Identifier: Apache-2.0
// What is known of a contract that comes again: of runs (cache.c), and of the graphs that orchestrations name (begin.c).
//
//   NEW ----recorded----> ONCE ----recorded, the same----> TRUSTED
//    |                      |                                 |
//    +----not possible------+----another graph, or not possible----> REFUSED
//
// Arrays of entries are short and searched from end to end. Thread-compatible.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_ENTRY_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_ENTRY_H_

#include "base/hash.h"
#include "graph/recorded/definition.h"

typedef enum slip__record_step_e {
  SLIP__RECORD_NEW = 0,
  SLIP__RECORD_ONCE = 1,     // recorded, not compared yet
  SLIP__RECORD_TRUSTED = 2,  // recorded twice, the same
  SLIP__RECORD_REFUSED = 3,  // not to be tried again
} slip__record_step_e;

// The first member of an entry.
typedef struct slip__record_head_t {
  slip__hash128_t key;
  uint64_t used;                   // the owner's clock when it was last used; 0: free
  slip__definition_t *definition;  // NULL unless ONCE or TRUSTED
  uint32_t step;                   // slip__record_step_e
} slip__record_head_t;

// The entry of |key| among |count| entries of |stride| bytes each; NULL if there is none.
static inline void *slip__record_lookup(void *entries, uint32_t count, size_t stride, slip__hash128_t key) {
  for (uint32_t i = 0; i < count; ++i) {
    slip__record_head_t *head = (slip__record_head_t *)(void *)((char *)entries + i * stride);
    if (head->used && slip__hash128_equal(head->key, key)) return head;
  }
  return NULL;
}

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_ENTRY_H_
