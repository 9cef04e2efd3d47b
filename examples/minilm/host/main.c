// SPDX-License-Identifier: Apache-2.0
// Embeds a text, line by line, and reports neighbours, speed and the difference from the reference.
//
//   minilm ARTIFACT WEIGHTS report TOKENS.npy TEXT GOLDEN.npy    the last row of the tokens is the query; the others are the lines of the
//   text minilm ARTIFACT WEIGHTS serve THREADS TOKENS.npy...         for benchmarks: reads "<file> <launches>" per line, prints the times
//   in ns;
//                                                               "<file> 0" prints the embeddings of that file
//
// TOKENS is an i32 matrix with one sentence a row, filled up with -1. WEIGHTS is the model's .safetensors file.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder.h"

#define BATCH      32  // sentences per launch of the text
#define PASSES     3   // over the whole text, fewer where that takes more than PASSES_NS; the median counts
#define PASSES_NS  3000000000u
#define LAUNCHES   50  // of the query alone; the median counts
#define NEIGHBOURS 5

// --- Batches -------------------------------------------------------------------------------------------------------

// A batch made of some rows of a token matrix: padded to its own longest sentence.
typedef struct minilm_batch_t {
  int32_t *ids, *mask;
  int64_t rows, sequence;
} minilm_batch_t;

static int64_t minilm_row_length(const slip_tensor_t *tokens, int64_t row) {
  const int32_t *t = (const int32_t *)tokens->data + row * tokens->dims[1];
  int64_t length = 0;
  while (length < tokens->dims[1] && t[length] >= 0) ++length;
  return length;
}

static void minilm_batch_free(minilm_batch_t *batch) {
  free(batch->ids);
  free(batch->mask);
  memset(batch, 0, sizeof(*batch));
}

static slip_status_t minilm_batch_make(const slip_tensor_t *tokens, const int64_t *rows, int64_t count, minilm_batch_t *out) {
  memset(out, 0, sizeof(*out));
  out->rows = count;
  for (int64_t i = 0; i < count; ++i) {
    int64_t length = minilm_row_length(tokens, rows[i]);
    if (length > out->sequence) out->sequence = length;
  }
  size_t cells = (size_t)(count * out->sequence);
  out->ids = calloc(cells + 1, sizeof(int32_t));
  out->mask = calloc(cells + 1, sizeof(int32_t));
  if (!out->ids || !out->mask) {
    minilm_batch_free(out);
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for a batch of %zu tokens", cells);
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t *t = (const int32_t *)tokens->data + rows[i] * tokens->dims[1];
    for (int64_t s = 0; s < minilm_row_length(tokens, rows[i]); ++s) {
      out->ids[i * out->sequence + s] = t[s];
      out->mask[i * out->sequence + s] = 1;
    }
  }
  return slip_ok_status();
}

static int minilm_time_order(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static uint64_t minilm_median(uint64_t *times, size_t count) {
  qsort(times, count, sizeof(*times), minilm_time_order);
  return times[count / 2];
}

// --- Report --------------------------------------------------------------------------------------------------------

typedef struct minilm_report_t {
  minilm_encoder_t *encoder;
  minilm_map_t tokens_map, text_map, golden_map;
  slip_tensor_t tokens, golden;
  int64_t count;     // sentences, the query not counted
  int64_t *order;    // rows by length, so that a batch holds equals
  float *embedding;  // [count + 1, 384]
  float *scratch;    // [BATCH, 384]
  const char **line;
  int *line_length;
} minilm_report_t;

static slip_status_t minilm_report_lines(minilm_report_t *r) {
  const char *at = r->text_map.data, *end = at + r->text_map.size;
  int64_t row = 0;
  for (; at < end; ++row) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    if (row < r->count) {
      r->line[row] = at;
      r->line_length[row] = (int)(stop - at);
    }
    at = stop + 1;
  }
  if (row != r->count)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the text has %" PRId64 " lines, the tokens are of %" PRId64, row, r->count);
  return slip_ok_status();
}

static slip_status_t minilm_report_load(minilm_report_t *r, const char *tokens, const char *text, const char *golden) {
  SLIP_RETURN_IF_ERROR(minilm_map(tokens, &r->tokens_map));
  SLIP_RETURN_IF_ERROR(minilm_npy_view(&r->tokens_map, tokens, SLIP_DTYPE_I32, &r->tokens));
  SLIP_RETURN_IF_ERROR(minilm_map(golden, &r->golden_map));
  SLIP_RETURN_IF_ERROR(minilm_npy_view(&r->golden_map, golden, SLIP_DTYPE_F32, &r->golden));
  SLIP_RETURN_IF_ERROR(minilm_map(text, &r->text_map));
  r->count = r->tokens.dims[0] - 1;
  if (r->count < 1) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "'%s' holds no sentence beside the query", tokens);
  if (r->golden.dims[0] != r->count || r->golden.dims[1] != MINILM_FEATURES) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "'%s' is of %" PRId64 " sentences, the text has %" PRId64, golden, r->golden.dims[0],
                       r->count);
  }
  size_t count = (size_t)r->count;
  r->order = malloc(count * sizeof(*r->order));
  r->embedding = calloc((count + 1) * MINILM_FEATURES, sizeof(float));
  r->scratch = calloc((size_t)BATCH * MINILM_FEATURES, sizeof(float));
  r->line = calloc(count, sizeof(*r->line));
  r->line_length = calloc(count, sizeof(*r->line_length));
  if (!r->order || !r->embedding || !r->scratch || !r->line || !r->line_length) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu embeddings", count);
  }
  int64_t placed = 0;
  for (int64_t length = 0; placed < r->count && length <= r->tokens.dims[1]; ++length) {
    for (int64_t row = 0; row < r->count; ++row) {
      if (minilm_row_length(&r->tokens, row) == length) r->order[placed++] = row;
    }
  }
  return minilm_report_lines(r);
}

// Embeds the whole text once; |*out_ns| is the time of its launches.
static slip_status_t minilm_report_pass(minilm_report_t *r, uint64_t *out_ns) {
  *out_ns = 0;
  for (int64_t first = 0; first < r->count; first += BATCH) {
    int64_t rows = r->count - first < BATCH ? r->count - first : BATCH;
    uint64_t ns = 0;
    minilm_batch_t batch;
    SLIP_RETURN_IF_ERROR(minilm_batch_make(&r->tokens, r->order + first, rows, &batch));
    slip_status_t status = minilm_encoder_embed(r->encoder, batch.ids, batch.mask, rows, batch.sequence, r->scratch, &ns);
    minilm_batch_free(&batch);
    SLIP_RETURN_IF_ERROR(status);
    for (int64_t i = 0; i < rows; ++i) {
      memcpy(r->embedding + r->order[first + i] * MINILM_FEATURES, r->scratch + i * MINILM_FEATURES, MINILM_FEATURES * sizeof(float));
    }
    *out_ns += ns;
  }
  return slip_ok_status();
}

// Embeds the query into the last row; |*out_ns| is the median time of one launch.
static slip_status_t minilm_report_query(minilm_report_t *r, uint64_t *out_ns) {
  uint64_t times[LAUNCHES];
  minilm_batch_t batch;
  slip_status_t status = minilm_batch_make(&r->tokens, &r->count, 1, &batch);
  for (int i = 0; slip_status_is_ok(status) && i < LAUNCHES; ++i) {
    status =
        minilm_encoder_embed(r->encoder, batch.ids, batch.mask, 1, batch.sequence, r->embedding + r->count * MINILM_FEATURES, &times[i]);
  }
  minilm_batch_free(&batch);
  if (slip_status_is_ok(status)) *out_ns = minilm_median(times, LAUNCHES);
  return status;
}

static void minilm_report_neighbours(const minilm_report_t *r) {
  const float *query = r->embedding + r->count * MINILM_FEATURES;
  int64_t best[NEIGHBOURS];
  float score[NEIGHBOURS];
  int found = 0;
  for (int64_t row = 0; row < r->count; ++row) {
    float dot = 0.0f;
    for (int i = 0; i < MINILM_FEATURES; ++i) dot += query[i] * r->embedding[row * MINILM_FEATURES + i];
    int at = found < NEIGHBOURS ? found++ : NEIGHBOURS;
    for (; at > 0 && score[at - 1] < dot; --at) {
      if (at < NEIGHBOURS) {
        score[at] = score[at - 1];
        best[at] = best[at - 1];
      }
    }
    if (at < NEIGHBOURS) {
      score[at] = dot;
      best[at] = row;
    }
  }
  for (int i = 0; i < found; ++i) printf("  %.3f  %.*s\n", (double)score[i], r->line_length[best[i]], r->line[best[i]]);
}

static double minilm_report_difference(const minilm_report_t *r) {
  const float *golden = r->golden.data;
  double worst = 0.0;
  for (int64_t i = 0; i < r->count * MINILM_FEATURES; ++i) {
    double difference = fabs((double)r->embedding[i] - (double)golden[i]);
    // Written so that a NaN counts as infinitely wrong.
    if (!(difference <= worst)) worst = isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

static slip_status_t minilm_report(minilm_encoder_t *encoder, const char *tokens, const char *text, const char *golden) {
  minilm_report_t r = {.encoder = encoder};
  uint64_t times[PASSES], spent_ns = 0, launch_ns = 0;
  size_t passes = 0;
  slip_status_t status = minilm_report_load(&r, tokens, text, golden);
  while (slip_status_is_ok(status) && passes < PASSES && spent_ns < PASSES_NS) {
    status = minilm_report_pass(&r, &times[passes]);
    spent_ns += times[passes++];
  }
  if (slip_status_is_ok(status)) status = minilm_report_query(&r, &launch_ns);
  if (slip_status_is_ok(status)) {
    double seconds = (double)minilm_median(times, passes) * 1e-9;
    double difference = minilm_report_difference(&r);
    minilm_report_neighbours(&r);
    printf("\n%" PRId64 " sentences in batches of %d: %.0f ms; the query alone: %.0f us; largest difference from PyTorch: %.2g\n", r.count,
           BATCH, seconds * 1e3, (double)launch_ns * 1e-3, difference);
    printf("RESULT max_abs_diff=%.3g sentences_per_s=%.1f launch_us=%.1f\n", difference, (double)r.count / seconds,
           (double)launch_ns * 1e-3);
    if (!(difference <= 2e-5))
      status = SLIP_STATUS(SLIP_CODE_INTERNAL, "the embeddings differ from the reference by %g, more than 2e-5", difference);
  }
  minilm_unmap(&r.tokens_map);
  minilm_unmap(&r.text_map);
  minilm_unmap(&r.golden_map);
  free(r.order);
  free(r.embedding);
  free(r.scratch);
  free(r.line);
  free(r.line_length);
  return status;
}

// --- Serve ---------------------------------------------------------------------------------------------------------

static slip_status_t minilm_serve_file(minilm_encoder_t *encoder, const char *path, long launches) {
  minilm_map_t map;
  slip_tensor_t tokens;
  minilm_batch_t batch = {0};
  SLIP_RETURN_IF_ERROR(minilm_map(path, &map));
  slip_status_t status = minilm_npy_view(&map, path, SLIP_DTYPE_I32, &tokens);
  int64_t rows = slip_status_is_ok(status) ? tokens.dims[0] : 0;
  int64_t *order = calloc((size_t)rows + 1, sizeof(*order));
  float *out = calloc((size_t)rows * MINILM_FEATURES + 1, sizeof(*out));
  if (slip_status_is_ok(status) && (!order || !out)) status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for '%s'", path);
  for (int64_t i = 0; order && i < rows; ++i) order[i] = i;
  if (slip_status_is_ok(status)) status = minilm_batch_make(&tokens, order, rows, &batch);
  for (long i = 0; slip_status_is_ok(status) && i < (launches > 0 ? launches : 1); ++i) {
    uint64_t ns = 0;
    status = minilm_encoder_embed(encoder, batch.ids, batch.mask, rows, batch.sequence, out, &ns);
    if (slip_status_is_ok(status) && launches > 0) printf("%" PRIu64 " ", ns);
  }
  for (int64_t i = 0; slip_status_is_ok(status) && launches == 0 && i < rows * MINILM_FEATURES; ++i) printf("%.9g ", (double)out[i]);
  printf("\n");
  fflush(stdout);
  minilm_batch_free(&batch);
  free(order);
  free(out);
  minilm_unmap(&map);
  return status;
}

static slip_status_t minilm_serve(minilm_encoder_t *encoder, int count, char **files) {
  char line[64];
  while (fgets(line, sizeof(line), stdin)) {
    long index = -1, launches = 0;
    if (sscanf(line, "%ld %ld", &index, &launches) != 2 || index < 0 || index >= count || launches < 0) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "expected \"<file number> <launches>\", got: %s", line);
    }
    SLIP_RETURN_IF_ERROR(minilm_serve_file(encoder, files[index], launches));
  }
  return slip_ok_status();
}

int main(int argc, char **argv) {
  bool report = argc == 7 && strcmp(argv[3], "report") == 0;
  bool serve = argc >= 6 && strcmp(argv[3], "serve") == 0;
  if (!report && !serve) {
    fprintf(
        stderr,
        "usage: minilm ARTIFACT WEIGHTS report TOKENS.npy TEXT GOLDEN.npy\n       minilm ARTIFACT WEIGHTS serve THREADS TOKENS.npy...\n");
    return 2;
  }
  minilm_encoder_t *encoder = NULL;
  uint32_t threads = serve ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
  slip_status_t status = minilm_encoder_open(argv[1], argv[2], threads, MINILM_STREAM_INLINE, &encoder);
  if (slip_status_is_ok(status)) {
    status = report ? minilm_report(encoder, argv[4], argv[5], argv[6]) : minilm_serve(encoder, argc - 5, argv + 5);
    status = slip_status_join(status, minilm_encoder_close(encoder));
  }
  if (slip_status_is_ok(status)) return 0;
  char text[2048];
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "minilm: %s\n", text);
  slip_status_free(status);
  return 1;
}
