// SPDX-License-Identifier: Apache-2.0
#include "graph/board.h"

#include "graph/execute.h"
#include "graph/state.h"
#include "slip_test_graph.h"

// The moment in which the next task's fields are written while the claim word is still that of the last one.
SLIP_TEST(an_exhausted_entry_gives_no_blocks_whatever_its_fields_say) {
  graph_test_t test = graph_test_open(1, 8, 4096, 64);
  slip__board_t *board = &test.engine->board;
  slip__board_entry_t *entry = &board->entries[3];
  slip__slot_t *next = (slip__slot_t *)(uintptr_t)1;
  atomic_store(&entry->claim, UINT64_C(7) << 32);
  atomic_store(&entry->block_count, 100);
  atomic_store(&board->open, 1u << 3);
  SLIP_CHECK(!slip__board_join(test.engine, test.workspace->seat, &next));
  SLIP_CHECK(next == NULL);
  SLIP_CHECK_EQ(atomic_load(&board->open), 0);
  SLIP_CHECK_EQ(atomic_load(&entry->claim), (long long)(UINT64_C(7) << 32));
  graph_test_close(&test);
}
