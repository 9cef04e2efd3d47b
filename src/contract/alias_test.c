// SPDX-License-Identifier: Apache-2.0
#include "contract/alias.h"

#include "slip_test.h"

// Sorts and checks; the conflicting slots go to |writer| and |other|.
static bool check(slip__range_t *ranges, size_t count, uint32_t *writer, uint32_t *other) {
  slip__ranges_sort(ranges, count);
  return slip__ranges_check(ranges, count, writer, other);
}

SLIP_TEST(alias_sort_orders_small_and_large) {
  for (size_t count = 0; count < 200; ++count) {
    slip__range_t ranges[200];
    uint64_t state = slip_test_seed() + count;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      uint64_t begin = slip_test_random(&state) % 16;
      ranges[i] = (slip__range_t){begin, begin + 1 + slip_test_random(&state) % 4, (uint32_t)i, 0};
      sum += i;
    }
    slip__ranges_sort(ranges, count);
    for (size_t i = 0; i < count; ++i) sum -= ranges[i].slot;
    SLIP_CHECK(sum == 0);
    for (size_t i = 1; i < count; ++i) {
      const slip__range_t *a = &ranges[i - 1], *b = &ranges[i];
      SLIP_CHECK(a->begin < b->begin || (a->begin == b->begin && (a->end < b->end || (a->end == b->end && a->slot < b->slot))));
    }
  }
}

SLIP_TEST(alias_identical_ranges_pass_whoever_writes) {
  uint32_t writer, other;
  slip__range_t ranges[] = {{10, 20, 0, 1}, {10, 20, 1, 1}, {10, 20, 2, 0}};
  SLIP_CHECK(check(ranges, 3, &writer, &other));
}

SLIP_TEST(alias_touching_ranges_pass) {
  uint32_t writer, other;
  slip__range_t ranges[] = {{20, 30, 0, 1}, {10, 20, 1, 1}, {30, 31, 2, 1}};
  SLIP_CHECK(check(ranges, 3, &writer, &other));
}

SLIP_TEST(alias_names_the_writer_first) {
  uint32_t writer = 9, other = 9;
  slip__range_t late[] = {{10, 20, 0, 0}, {19, 21, 1, 1}};
  SLIP_CHECK(!check(late, 2, &writer, &other));
  SLIP_CHECK(writer == 1 && other == 0);
  slip__range_t early[] = {{10, 20, 0, 1}, {19, 21, 1, 0}};
  SLIP_CHECK(!check(early, 2, &writer, &other));
  SLIP_CHECK(writer == 0 && other == 1);
  slip__range_t both[] = {{10, 20, 3, 1}, {10, 19, 5, 1}};
  SLIP_CHECK(!check(both, 2, &writer, &other));
  SLIP_CHECK(writer == 3 && other == 5);
}

SLIP_TEST(alias_remembers_a_long_range_behind_short_ones) {
  uint32_t writer, other;
  // The long reader reaches over two short ones to the writer.
  slip__range_t reader[] = {{0, 100, 0, 0}, {1, 2, 1, 0}, {3, 4, 2, 0}, {99, 120, 3, 1}};
  SLIP_CHECK(!check(reader, 4, &writer, &other));
  SLIP_CHECK(writer == 3 && other == 0);
  // The long writer is hidden behind a longer reader only for readers that begin after it.
  slip__range_t written[] = {{0, 10, 0, 1}, {10, 50, 1, 0}, {11, 40, 2, 0}, {12, 13, 3, 0}};
  SLIP_CHECK(check(written, 4, &writer, &other));
}

SLIP_TEST(alias_a_writer_among_identical_readers_counts) {
  uint32_t writer, other;
  slip__range_t ranges[] = {{10, 20, 0, 0}, {10, 20, 1, 1}, {12, 14, 2, 0}};
  SLIP_CHECK(!check(ranges, 3, &writer, &other));
  SLIP_CHECK(writer == 1 && other == 2);
}

SLIP_TEST(alias_clusters_join_overlaps_only) {
  slip__range_t ranges[] = {{0, 10, 0, 0}, {2, 4, 1, 0}, {9, 12, 2, 0}, {12, 13, 3, 0}, {20, 21, 4, 0}};
  uint64_t end;
  SLIP_CHECK_EQ(slip__ranges_cluster(ranges, 5, 0, &end), 3);
  SLIP_CHECK_EQ(end, 12);
  SLIP_CHECK_EQ(slip__ranges_cluster(ranges, 5, 3, &end), 4);
  SLIP_CHECK_EQ(end, 13);
  SLIP_CHECK_EQ(slip__ranges_cluster(ranges, 5, 4, &end), 5);
}
