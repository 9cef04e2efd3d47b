// SPDX-License-Identifier: Apache-2.0
// The encoder with its real weights. Each test runs in a process of its own and opens what it needs.
#include <math.h>
#include <unistd.h>

#include "../../examples/minilm/host/encoder.h"
#include "slip_test.h"

#define LONGEST  512
#define CAPACITY 64  // sentences of a test's batch

typedef struct fixture_t {
  minilm_encoder_t *encoder;
  minilm_map_t tokens_map, golden_map;
  slip_tensor_t tokens, golden;
  int32_t ids[CAPACITY * LONGEST], mask[CAPACITY * LONGEST];
  float out[CAPACITY * MINILM_FEATURES];
} fixture_t;

static const char *in_build(const char *name) {
  static char paths[4][1100];
  static unsigned next;
  char self[1024];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  SLIP_CHECK(length > 0);
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/examples/minilm/%s", self, name);
  return path;
}

static const char *in_source(const char *name) {
  static char path[1024];
  snprintf(path, sizeof(path), "%s/examples/minilm/%s", SLIP_TEST_SOURCE_DIRECTORY, name);
  return path;
}

static const char *weights_path(void) {
  static char path[1024];
  FILE *file = fopen(in_build("weights.path"), "r");
  if (!file || !fgets(path, sizeof(path), file)) slip_test_skip("the model is not installed: run tools/setup, then build again");
  fclose(file);
  path[strcspn(path, "\n")] = '\0';
  return path;
}

static fixture_t *fixture_open_with(uint32_t threads, minilm_stream_e stream) {
  fixture_t *f = calloc(1, sizeof(*f));
  SLIP_CHECK(f != NULL);
  SLIP_CHECK_OK(minilm_encoder_open(in_build("minilm.slipc"), weights_path(), threads, stream, &f->encoder));
  SLIP_CHECK_OK(minilm_map(in_build("model_tokens.npy"), &f->tokens_map));
  SLIP_CHECK_OK(minilm_npy_view(&f->tokens_map, "tokens", SLIP_DTYPE_I32, &f->tokens));
  SLIP_CHECK_OK(minilm_map(in_source("data/golden.npy"), &f->golden_map));
  SLIP_CHECK_OK(minilm_npy_view(&f->golden_map, "golden", SLIP_DTYPE_F32, &f->golden));
  SLIP_CHECK_EQ(f->tokens.dims[0], f->golden.dims[0]);
  return f;
}

static fixture_t *fixture_open(void) {
  return fixture_open_with(0, MINILM_STREAM_INLINE);
}

static void fixture_close(fixture_t *f) {
  SLIP_CHECK_OK(minilm_encoder_close(f->encoder));
  minilm_unmap(&f->tokens_map);
  minilm_unmap(&f->golden_map);
  free(f);
}

// Puts sentence |row| of the text at place |at| of a batch of |sequence| columns; returns its length.
static int64_t fixture_place(fixture_t *f, int64_t row, int64_t at, int64_t sequence) {
  const int32_t *t = (const int32_t *)f->tokens.data + row * f->tokens.dims[1];
  int64_t length = 0;
  for (int64_t s = 0; s < sequence; ++s) {
    bool live = s < f->tokens.dims[1] && t[s] >= 0 && s == length;
    f->ids[at * sequence + s] = live ? t[s] : 7;  // 7: an arbitrary token where the mask says nothing is
    f->mask[at * sequence + s] = live;
    length += live;
  }
  return length;
}

static void fixture_embed(fixture_t *f, int64_t batch, int64_t sequence) {
  memset(f->out, 0xff, sizeof(f->out));  // NaN where nothing is written
  SLIP_CHECK_OK(minilm_encoder_embed(f->encoder, f->ids, f->mask, batch, sequence, f->out, NULL));
}

static double difference(const float *a, const float *b) {
  double worst = 0.0;
  for (int i = 0; i < MINILM_FEATURES; ++i) {
    double d = fabs((double)a[i] - (double)b[i]);
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return worst;
}

static const float *golden(const fixture_t *f, int64_t row) {
  return (const float *)f->golden.data + row * MINILM_FEATURES;
}

static const float *found(const fixture_t *f, int64_t at) {
  return f->out + at * MINILM_FEATURES;
}

SLIP_TEST(every_sentence_matches_the_reference) {
  fixture_t *f = fixture_open();
  const int64_t sequence = f->tokens.dims[1];
  for (int64_t first = 0; first < f->tokens.dims[0]; first += CAPACITY) {
    int64_t batch = f->tokens.dims[0] - first < CAPACITY ? f->tokens.dims[0] - first : CAPACITY;
    for (int64_t i = 0; i < batch; ++i) fixture_place(f, first + i, i, sequence);
    fixture_embed(f, batch, sequence);
    for (int64_t i = 0; i < batch; ++i) SLIP_CHECK(difference(found(f, i), golden(f, first + i)) <= 2e-5);
  }
  fixture_close(f);
}

SLIP_TEST(the_reference_can_fail) {
  fixture_t *f = fixture_open();
  fixture_place(f, 0, 0, 64);
  f->ids[1] += 1;
  fixture_embed(f, 1, 64);
  SLIP_CHECK(difference(found(f, 0), golden(f, 0)) > 2e-5);
  fixture_close(f);
}

SLIP_TEST(padding_and_sequence_length_do_not_matter) {
  fixture_t *f = fixture_open();
  static const int64_t sequences[] = {53, 54, 63, 64, 65, 100, 128, 200, 511, 512};
  float first[MINILM_FEATURES];
  for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); ++i) {
    SLIP_CHECK(fixture_place(f, 4, 0, sequences[i]) > 0);
    fixture_embed(f, 1, sequences[i]);
    if (i == 0) memcpy(first, f->out, sizeof(first));
    SLIP_CHECK(memcmp(first, f->out, sizeof(first)) == 0);
  }
  SLIP_CHECK(difference(first, golden(f, 4)) <= 2e-5);
  fixture_close(f);
}

SLIP_TEST(companions_in_the_batch_do_not_matter) {
  fixture_t *f = fixture_open();
  uint64_t random = slip_test_seed();
  for (int round = 0; round < 20; ++round) {
    int64_t rows[CAPACITY];
    const int64_t batch = 1 + (int64_t)(slip_test_random(&random) % 9), sequence = 56;
    for (int64_t i = 0; i < batch; ++i) {
      rows[i] = (int64_t)(slip_test_random(&random) % (uint64_t)f->tokens.dims[0]);
      fixture_place(f, rows[i], i, sequence);
    }
    fixture_embed(f, batch, sequence);
    for (int64_t i = 0; i < batch; ++i) SLIP_CHECK(difference(found(f, i), golden(f, rows[i])) <= 2e-5);
  }
  fixture_close(f);
}

SLIP_TEST(a_sentence_without_tokens_is_zero) {
  fixture_t *f = fixture_open();
  for (int64_t i = 0; i < 3; ++i) fixture_place(f, i, i, 64);
  memset(f->mask + 64, 0, 64 * sizeof(int32_t));
  fixture_embed(f, 3, 64);
  for (int i = 0; i < MINILM_FEATURES; ++i) SLIP_CHECK(found(f, 1)[i] == 0.0f);
  SLIP_CHECK(difference(found(f, 0), golden(f, 0)) <= 2e-5);
  SLIP_CHECK(difference(found(f, 2), golden(f, 2)) <= 2e-5);
  memset(f->mask, 0, 3 * 64 * sizeof(int32_t));
  fixture_embed(f, 3, 64);
  for (int i = 0; i < 3 * MINILM_FEATURES; ++i) SLIP_CHECK(f->out[i] == 0.0f);
  fixture_close(f);
}

SLIP_TEST(ids_outside_the_vocabulary_read_as_unknown) {
  fixture_t *f = fixture_open();
  static const int32_t strange[] = {-1, 30522, INT32_MAX, INT32_MIN, 100};
  float unknown[MINILM_FEATURES];
  for (int i = 4; i >= 0; --i) {
    fixture_place(f, 0, 0, 64);
    f->ids[3] = strange[i];
    fixture_embed(f, 1, 64);
    if (i == 4) memcpy(unknown, f->out, sizeof(unknown));
    SLIP_CHECK(memcmp(unknown, f->out, sizeof(unknown)) == 0);
  }
  fixture_close(f);
}

SLIP_TEST(too_long_a_sequence_is_refused_and_leaves_no_trace) {
  fixture_t *f = fixture_open();
  int32_t *many = calloc(2 * 513, sizeof(*many));
  SLIP_CHECK(many != NULL);
  SLIP_CHECK_CODE(minilm_encoder_embed(f->encoder, many, many + 513, 1, 513, f->out, NULL), SLIP_CODE_GRAPH_USER_FAIL);
  free(many);
  fixture_place(f, 7, 0, 64);
  fixture_embed(f, 1, 64);
  SLIP_CHECK(difference(found(f, 0), golden(f, 7)) <= 2e-5);
  fixture_close(f);
}

// The same bytes whoever computes them: each sum runs in one order.
SLIP_TEST(threads_and_streams_do_not_matter) {
  static const struct {
    uint32_t threads;
    minilm_stream_e stream;
  } ways[] = {{1, MINILM_STREAM_INLINE}, {2, MINILM_STREAM_INLINE}, {2, MINILM_STREAM_ASYNC}, {1, MINILM_STREAM_ASYNC}};
  static float first[40 * MINILM_FEATURES];
  for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); ++way) {
    fixture_t *f = fixture_open_with(ways[way].threads, ways[way].stream);
    for (int64_t i = 0; i < 40; ++i) fixture_place(f, i * 5, i, 56);
    for (int round = 0; round < 5; ++round) {
      fixture_embed(f, 40, 56);
      if (way == 0 && round == 0) memcpy(first, f->out, sizeof(first));
      SLIP_CHECK(memcmp(first, f->out, sizeof(first)) == 0);
    }
    fixture_close(f);
  }
}

SLIP_TEST(missing_and_damaged_weights_are_refused) {
  minilm_weights_t *weights = NULL;
  minilm_encoder_t *encoder = NULL;
  slip_tensor_t tensor;
  char path[1200];
  snprintf(path, sizeof(path), "%s/short.safetensors", slip_test_temporary_directory());
  static const struct {
    const char *bytes;
    size_t size;
    slip_code_t open, find;
  } cases[] = {
      {"", 0, SLIP_CODE_CORRUPT, 0},
      {"\x10\0\0\0", 4, SLIP_CODE_CORRUPT, 0},
      {"\x10\0\0\0\0\0\0\0{}", 10, SLIP_CODE_CORRUPT, 0},
      {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, SLIP_CODE_CORRUPT, 0},
      {"\x02\0\0\0\0\0\0\0[]", 10, SLIP_CODE_CORRUPT, 0},
      {"\x02\0\0\0\0\0\0\0{}", 10, SLIP_CODE_OK, SLIP_CODE_NOT_FOUND},
      {"\x39\0\0\0\0\0\0\0{\"a.b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}1234", 69, SLIP_CODE_OK, SLIP_CODE_CORRUPT},
      {"\x39\0\0\0\0\0\0\0{\"a.b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,16]}}1234567890123456", 81, SLIP_CODE_OK,
       SLIP_CODE_CORRUPT},
      {"\x39\0\0\0\0\0\0\0{\"a.b\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[0,16]}}1234567890123456", 81, SLIP_CODE_OK,
       SLIP_CODE_CORRUPT},
      {"\x39\0\0\0\0\0\0\0{\"a.b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}1234567890123456", 81, SLIP_CODE_OK,
       SLIP_CODE_OK},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    FILE *file = fopen(path, "wb");
    SLIP_CHECK(file != NULL);
    SLIP_CHECK_EQ(fwrite(cases[i].bytes, 1, cases[i].size, file), cases[i].size);
    fclose(file);
    SLIP_CHECK_CODE(minilm_weights_open(path, &weights), cases[i].open);
    if (cases[i].open != SLIP_CODE_OK) continue;
    SLIP_CHECK_CODE(minilm_weights_find(weights, "a_b", &tensor), cases[i].find);
    minilm_weights_close(weights);
  }
  SLIP_CHECK_CODE(minilm_weights_open("/nowhere/at/all", &weights), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_CODE(minilm_weights_open(slip_test_temporary_directory(), &weights), SLIP_CODE_IO);
  SLIP_CHECK_CODE(minilm_encoder_open("/nowhere/at/all", path, 0, MINILM_STREAM_INLINE, &encoder), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK(encoder == NULL);
}
