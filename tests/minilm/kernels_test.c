// SPDX-License-Identifier: Apache-2.0
// The encoder's products, attention and layer norm against plain loops in double precision, for each instruction set of this machine. No
// weights needed.
#include "kernels.h"

#include <math.h>

#include "slip_test.h"

enum { PANEL = 16, HIDDEN = 384, INNER = 1536, HEAD = 32, GUARD = 64 };

static const kernels_t *const levels[] = {&kernels_baseline, &kernels_v3, &kernels_v4};
enum { LEVELS = sizeof(levels) / sizeof(levels[0]) };

// |count| numbers in -range .. range, and GUARD more that nobody may touch.
static float *numbers(uint64_t *random, ptrdiff_t count, double range) {
  size_t size = (size_t)(count + GUARD) * sizeof(float);
  float *p = aligned_alloc(64, (size + 63) / 64 * 64);
  SLIP_CHECK(p != NULL);
  for (ptrdiff_t i = 0; i < count + GUARD; ++i) {
    p[i] = (float)(((double)(slip_test_random(random) >> 11) * 0x1p-52 - 1.0) * range);
  }
  return p;
}

static float *copy_of(const float *from, ptrdiff_t count) {
  size_t size = (size_t)(count + GUARD) * sizeof(float);
  float *p = aligned_alloc(64, (size + 63) / 64 * 64);
  SLIP_CHECK(p != NULL);
  memcpy(p, from, size);
  return p;
}

static bool same_bytes(const float *a, const float *b, ptrdiff_t count) {
  return memcmp(a, b, (size_t)count * sizeof(float)) == 0;
}

static ptrdiff_t place(ptrdiff_t token, ptrdiff_t feature, ptrdiff_t features) {
  return (token / PANEL * features + feature) * PANEL + token % PANEL;
}

static double gelu(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
}

static void check_linear(const kernels_t *level, uint64_t *random, ptrdiff_t depth, ptrdiff_t rows, ptrdiff_t panels, finish_e finish) {
  ptrdiff_t outputs = panels * PANEL * rows;
  float *w = numbers(random, rows * depth, 0.1), *bias = numbers(random, rows, 4.0);
  float *x = numbers(random, panels * PANEL * depth, 1.0), *before = numbers(random, outputs, 1.0), *y = copy_of(before, outputs);
  if (finish != FINISH_RESIDUAL) {
    for (ptrdiff_t i = 0; i < outputs; ++i) y[i] = NAN;
  }
  level->linear(w, bias, depth, rows, x, panels, y, finish, 1 + (uint32_t)(slip_test_random(random) % 9));
  for (ptrdiff_t i = 0; i < outputs; ++i) SLIP_CHECK(!isnan(y[i]));
  SLIP_CHECK(same_bytes(y + outputs, before + outputs, GUARD));
  for (int sample = 0; sample < 2000; ++sample) {
    ptrdiff_t token = (ptrdiff_t)(slip_test_random(random) % (uint64_t)(panels * PANEL));
    ptrdiff_t row = (ptrdiff_t)(slip_test_random(random) % (uint64_t)rows), at = place(token, row, rows);
    double sum = (double)bias[row];
    for (ptrdiff_t i = 0; i < depth; ++i) sum += (double)w[row * depth + i] * (double)x[place(token, i, depth)];
    if (finish == FINISH_GELU) sum = gelu(sum);
    if (finish == FINISH_RESIDUAL) sum += (double)before[at];
    if (!(fabs(sum - (double)y[at]) <= 3e-5)) {
      slip_test_fail(__FILE__, __LINE__, "%s, %td x %td, %td panels: token %td, row %td is %.9g, expected %.9g", level->name, rows, depth,
                     panels, token, row, (double)y[at], sum);
    }
  }
  free(w);
  free(bias);
  free(x);
  free(before);
  free(y);
}

SLIP_TEST(products_match_a_plain_loop) {
  uint64_t random = slip_test_seed();
  for (int i = 0; i < LEVELS; ++i) {
    if (!levels[i]->supported()) continue;
    for (ptrdiff_t panels = 1; panels <= 5; ++panels) {
      check_linear(levels[i], &random, HIDDEN, HIDDEN, panels, FINISH_BIAS);
      check_linear(levels[i], &random, HIDDEN, HIDDEN, panels, FINISH_RESIDUAL);
      check_linear(levels[i], &random, HIDDEN, INNER, panels, FINISH_GELU);
      check_linear(levels[i], &random, INNER, HIDDEN, panels, FINISH_RESIDUAL);
    }
  }
}

// Any |depth| that is a multiple of the unrolled steps, any |rows| that is one of whole shares.
SLIP_TEST(products_of_other_shapes_match_a_plain_loop) {
  uint64_t random = slip_test_seed();
  for (int i = 0; i < LEVELS; ++i) {
    if (!levels[i]->supported()) continue;
    for (int round = 0; round < 40; ++round) {
      ptrdiff_t depth = 8 * (1 + (ptrdiff_t)(slip_test_random(&random) % 40)), rows = 48 * (1 + (ptrdiff_t)(slip_test_random(&random) % 7));
      check_linear(levels[i], &random, depth, rows, 1 + (ptrdiff_t)(slip_test_random(&random) % 7), FINISH_BIAS);
    }
  }
}

// One head of the tokens begin .. end in double precision.
static void plain_attention(const float *q, const float *k, const float *v, ptrdiff_t head, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t query,
                            double *out) {
  static double weights[512];
  double top = -INFINITY, sum = 0.0;
  for (ptrdiff_t key = begin; key < end; ++key) {
    double score = 0.0;
    for (ptrdiff_t d = 0; d < HEAD; ++d) {
      score += (double)q[place(query, head * HEAD + d, HIDDEN)] * (double)k[place(key, head * HEAD + d, HIDDEN)];
    }
    weights[key - begin] = score / sqrt(HEAD);
    top = fmax(top, weights[key - begin]);
  }
  for (ptrdiff_t i = 0; i < end - begin; ++i) sum += weights[i] = exp(weights[i] - top);
  for (ptrdiff_t d = 0; d < HEAD; ++d) {
    out[d] = 0.0;
    for (ptrdiff_t i = 0; i < end - begin; ++i) out[d] += weights[i] / sum * (double)v[place(begin + i, head * HEAD + d, HIDDEN)];
  }
}

static void check_attention(const kernels_t *level, uint64_t *random, ptrdiff_t begin, ptrdiff_t end, double range) {
  ptrdiff_t panels = (end + PANEL - 1) / PANEL + 1, count = panels * PANEL * HIDDEN;
  ptrdiff_t head = (ptrdiff_t)(slip_test_random(random) % (HIDDEN / HEAD));
  float *q = numbers(random, count, range), *k = numbers(random, count, range), *v = numbers(random, count, 1.0);
  if (range > 1.0) {  // all scores far below 0, where nothing but keys may raise the maximum
    for (ptrdiff_t i = 0; i < count; ++i) {
      q[i] = fabsf(q[i]);
      k[i] = -fabsf(k[i]);
    }
  }
  float *found = copy_of(q, count), *scratch = numbers(random, (ptrdiff_t)level->scratch_floats, 1e30);
  float *scratch_before = copy_of(scratch, (ptrdiff_t)level->scratch_floats);
  level->attend_head(found, k, v, head, begin, end, scratch);
  SLIP_CHECK(same_bytes(scratch + level->scratch_floats, scratch_before + level->scratch_floats, GUARD));
  SLIP_CHECK(same_bytes(found + count, q + count, GUARD));
  for (ptrdiff_t token = 0; token < panels * PANEL; ++token) {
    double expected[HEAD];
    bool inside = token >= begin && token < end;
    if (inside) plain_attention(q, k, v, head, begin, end, token, expected);
    for (ptrdiff_t i = 0; i < HIDDEN; ++i) {
      ptrdiff_t at = place(token, i, HIDDEN);
      if (!inside || i / HEAD != head) {
        SLIP_CHECK(same_bytes(found + at, q + at, 1));  // nobody else's
      } else if (!(fabs(expected[i % HEAD] - (double)found[at]) <= 1e-5 * fmax(1.0, range))) {
        slip_test_fail(__FILE__, __LINE__, "%s, tokens %td .. %td of head %td: token %td, feature %td is %.9g, expected %.9g", level->name,
                       begin, end, head, token, i, (double)found[at], expected[i % HEAD]);
      }
    }
  }
  free(q);
  free(k);
  free(v);
  free(found);
  free(scratch);
  free(scratch_before);
}

SLIP_TEST(attention_matches_a_plain_loop) {
  uint64_t random = slip_test_seed();
  for (int i = 0; i < LEVELS; ++i) {
    if (!levels[i]->supported()) continue;
    for (ptrdiff_t length = 1; length <= 40; ++length) {
      ptrdiff_t begin = (ptrdiff_t)(slip_test_random(&random) % 40);
      check_attention(levels[i], &random, begin, begin + length, 1.0);
    }
    for (ptrdiff_t begin = 0; begin <= 17; ++begin) check_attention(levels[i], &random, begin, begin + 33, 1.0);
    check_attention(levels[i], &random, 5, 5 + 512, 1.0);
    check_attention(levels[i], &random, 0, 511, 1.0);
    for (ptrdiff_t length = 1; length <= 26; ++length) check_attention(levels[i], &random, 3, 3 + length, 12.0);
  }
}

SLIP_TEST(layer_norm_matches_a_plain_loop) {
  uint64_t random = slip_test_seed();
  for (int i = 0; i < LEVELS; ++i) {
    if (!levels[i]->supported()) continue;
    for (int round = 0; round < 10; ++round) {
      const ptrdiff_t count = (ptrdiff_t)PANEL * HIDDEN;
      float *x = numbers(&random, count, 10.0), *gain = numbers(&random, HIDDEN, 2.0), *bias = numbers(&random, HIDDEN, 1.0);
      float *found = copy_of(x, count);
      levels[i]->layer_norm(found, gain, bias);
      SLIP_CHECK(same_bytes(found + count, x + count, GUARD));
      for (ptrdiff_t token = 0; token < PANEL; ++token) {
        double mean = 0.0, square = 0.0;
        for (ptrdiff_t f = 0; f < HIDDEN; ++f) mean += (double)x[place(token, f, HIDDEN)] / HIDDEN;
        for (ptrdiff_t f = 0; f < HIDDEN; ++f) square += pow((double)x[place(token, f, HIDDEN)] - mean, 2.0) / HIDDEN;
        for (ptrdiff_t f = 0; f < HIDDEN; ++f) {
          double expected = ((double)x[place(token, f, HIDDEN)] - mean) / sqrt(square + 1e-12) * (double)gain[f] + (double)bias[f];
          SLIP_CHECK(fabs(expected - (double)found[place(token, f, HIDDEN)]) <= 1e-5);
        }
      }
      free(x);
      free(gain);
      free(bias);
      free(found);
    }
  }
}
