// SPDX-License-Identifier: Apache-2.0
#include "graph/box.h"

#include "slip_test.h"

#define SPACE 4096

static void mark(const slip_ktensor_t *view, int64_t size, uint8_t *bytes) {
  int64_t index[SLIP_MAX_RANK] = {0};
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] == 0) return;
  }
  for (;;) {
    int64_t at = (int64_t)(uintptr_t)view->data;
    for (uint32_t i = 0; i < view->rank; ++i) at += index[i] * view->strides[i] * size;
    for (int64_t i = 0; i < size; ++i) {
      SLIP_CHECK(at + i >= 0 && at + i < SPACE);
      bytes[at + i] = 1;
    }
    uint32_t d = 0;
    while (d < view->rank && ++index[d] == view->dims[d]) index[d++] = 0;
    if (d == view->rank) return;
  }
}

static bool share(const slip_ktensor_t *a, const slip_ktensor_t *b, int64_t size_a, int64_t size_b) {
  static uint8_t in_a[SPACE], in_b[SPACE];
  memset(in_a, 0, sizeof(in_a));
  memset(in_b, 0, sizeof(in_b));
  mark(a, size_a, in_a);
  mark(b, size_b, in_b);
  for (int i = 0; i < SPACE; ++i) {
    if (in_a[i] && in_b[i]) return true;
  }
  return false;
}

static int64_t below(uint64_t *state, int64_t n) {
  return (int64_t)(slip_test_random(state) % (uint64_t)n);
}

// A random view of the row-major parent |dims|: sliced with steps, dimensions dropped, exchanged, turned round.
static slip_ktensor_t random_view(uint64_t *state, uint32_t rank, const int64_t *dims, bool with_steps) {
  slip_ktensor_t view = {.dtype = SLIP_DTYPE_I32, .rank = 0};
  int64_t strides[SLIP_MAX_RANK], stride = 1, base = 0;
  for (uint32_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  for (uint32_t i = 0; i < rank; ++i) {
    int64_t step = with_steps && below(state, 3) == 0 ? 1 + below(state, 3) : 1;
    int64_t start = below(state, dims[i]);
    int64_t count = 1 + below(state, (dims[i] - start - 1) / step + 1);
    if (with_steps && below(state, 20) == 0) count = 0;
    if (below(state, 4) == 0) {
      start = 0;
      step = 1;
      count = dims[i];
    }
    base += start * strides[i];
    if (count == 1 && below(state, 2)) continue;
    view.dims[view.rank] = count;
    view.strides[view.rank++] = strides[i] * step;
    if (count > 1 && below(state, 8) == 0) {
      base += (count - 1) * strides[i] * step;
      view.strides[view.rank - 1] = -strides[i] * step;
    }
  }
  if (view.rank >= 2 && below(state, 3) == 0) {
    int64_t d = view.dims[0], s = view.strides[0];
    view.dims[0] = view.dims[1];
    view.strides[0] = view.strides[1];
    view.dims[1] = d;
    view.strides[1] = s;
  }
  view.data = (void *)(uintptr_t)(256 + base * 4);
  return view;
}

static void compare(uint64_t *state, bool with_steps, long rounds, bool must_be_exact) {
  long yes = 0, too_often = 0;
  for (long round = 0; round < rounds; ++round) {
    uint32_t rank = 1 + (uint32_t)below(state, SLIP_MAX_RANK);
    int64_t dims[SLIP_MAX_RANK], elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      dims[i] = 1 + below(state, 6);
      elements *= dims[i];
    }
    if (elements > 900) continue;
    slip_ktensor_t a = random_view(state, rank, dims, with_steps), b = random_view(state, rank, dims, with_steps);
    slip__box_t box_a, box_b;
    int64_t low_a, low_b;
    bool touches_a = slip__box_from_view(&a, &box_a, &low_a), touches_b = slip__box_from_view(&b, &box_b, &low_b);
    bool said = touches_a && touches_b && slip__box_overlaps(&box_a, &box_b, low_b - low_a);
    bool really = share(&a, &b, 4, 4);
    SLIP_CHECK(said || !really);
    if (touches_a && touches_b) SLIP_CHECK_EQ(slip__box_overlaps(&box_b, &box_a, low_a - low_b), said);
    if (must_be_exact && said != really) slip_test_fail(__FILE__, __LINE__, "round %ld: said %d, really %d", round, said, really);
    yes += really;
    too_often += said && !really;
  }
  printf("# %ld rounds, %ld overlap, %ld said too often\n", rounds, yes, too_often);
  SLIP_CHECK(yes > rounds / 20);
}

SLIP_TEST(boxes_of_one_parent_are_exact) {
  uint64_t state = slip_test_seed();
  compare(&state, false, 60000, true);
}

SLIP_TEST(boxes_with_steps_never_say_no_wrongly) {
  uint64_t state = slip_test_seed();
  compare(&state, true, 60000, false);
}

SLIP_TEST(arbitrary_strides_never_say_no_wrongly) {
  uint64_t state = slip_test_seed();
  for (int round = 0; round < 60000; ++round) {
    slip_ktensor_t views[2];
    slip__box_t boxes[2];
    int64_t lows[2];
    const uint8_t dtypes[3] = {SLIP_DTYPE_I8, SLIP_DTYPE_I16, SLIP_DTYPE_F64};
    int64_t sizes[2];
    bool touches = true;
    for (int i = 0; i < 2; ++i) {
      views[i] = (slip_ktensor_t){.dtype = dtypes[below(&state, 3)],
                                  .rank = (uint8_t)(1 + below(&state, 3)),
                                  .data = (void *)(uintptr_t)(1800 + below(&state, 64))};
      sizes[i] = views[i].dtype == SLIP_DTYPE_I8 ? 1 : views[i].dtype == SLIP_DTYPE_I16 ? 2 : 8;
      for (uint32_t d = 0; d < views[i].rank; ++d) {
        views[i].dims[d] = 1 + below(&state, 4);
        views[i].strides[d] = below(&state, 30) - 10;
      }
      touches = slip__box_from_view(&views[i], &boxes[i], &lows[i]) && touches;
    }
    SLIP_CHECK(touches);
    if (share(&views[0], &views[1], sizes[0], sizes[1])) SLIP_CHECK(slip__box_overlaps(&boxes[0], &boxes[1], lows[1] - lows[0]));
  }
}

SLIP_TEST(steps_of_other_phase_do_not_meet) {
  slip_ktensor_t even = {.dtype = SLIP_DTYPE_F32, .rank = 1, .dims = {8}, .strides = {2}, .data = (void *)1024}, odd = even;
  odd.data = (void *)1028;
  slip__box_t a, b;
  int64_t low_a, low_b;
  SLIP_CHECK(slip__box_from_view(&even, &a, &low_a) && slip__box_from_view(&odd, &b, &low_b));
  SLIP_CHECK(!slip__box_overlaps(&a, &b, low_b - low_a));
  SLIP_CHECK(slip__box_overlaps(&a, &a, 0));
}
