// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"

#include "slip_test.h"

SLIP_TEST(checked_arithmetic_sees_the_edge) {
  uint64_t u = 0;
  int64_t i = 0;
  int32_t small = 0;
  SLIP_CHECK(slip__checked_add(UINT64_MAX - 1, 1u, &u) && u == UINT64_MAX);
  SLIP_CHECK(!slip__checked_add(UINT64_MAX, 1u, &u));
  SLIP_CHECK(slip__checked_mul(INT64_MIN, 1, &i) && i == INT64_MIN);
  SLIP_CHECK(!slip__checked_mul(INT64_MIN, -1, &i));
  SLIP_CHECK(!slip__checked_sub(0u, 1, &u));
  SLIP_CHECK(!slip__checked_mul((int64_t)1 << 20, (int64_t)1 << 20, &small));
}

SLIP_TEST(checked_align_and_range) {
  uint64_t out = 0;
  SLIP_CHECK(slip__checked_align(0, 64, &out) && out == 0);
  SLIP_CHECK(slip__checked_align(65, 64, &out) && out == 128);
  SLIP_CHECK(slip__checked_align(UINT64_MAX - 63, 64, &out) && out == UINT64_MAX - 63);
  SLIP_CHECK(!slip__checked_align(UINT64_MAX - 62, 64, &out));
  SLIP_CHECK(slip__checked_range(4, 4, 8) && slip__checked_range(8, 0, 8));
  SLIP_CHECK(!slip__checked_range(4, 5, 8) && !slip__checked_range(9, 0, 8) && !slip__checked_range(4, UINT64_MAX, 8));
}
