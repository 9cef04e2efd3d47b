// SPDX-License-Identifier: Apache-2.0
// Random signatures through their text, their JSON and their hash.
#include "base/allocator.h"
#include "slip_test.h"
#include "slipstream/signature.h"

#define MAX_PARAMS 40

static uint64_t below(uint64_t *state, uint64_t limit) {
  return slip_test_random(state) % limit;
}

typedef struct draw_t {
  slip_param_t params[MAX_PARAMS];
  char names[MAX_PARAMS][24];
  int32_t aliases[MAX_PARAMS];
  size_t param_count;
  size_t alias_count;
} draw_t;

static const char *const symbols[] = {"M", "N", "in", "out", "nz", "_", "Batch_2"};
static const char *const odd_names[] = {"in", "out", "inout", "nz", "f32", "_"};

static void draw_param(uint64_t *state, draw_t *draw, size_t i) {
  slip_param_t *param = &draw->params[i];
  memset(param, 0, sizeof(*param));
  // The odd names are words of the grammar; each at most once.
  if (i < 6 && below(state, 3) == 0) {
    snprintf(draw->names[i], sizeof(draw->names[i]), "%s", odd_names[i]);
  } else {
    snprintf(draw->names[i], sizeof(draw->names[i]), "p%zu_%x", i, (unsigned)below(state, 1u << 16));
  }
  param->name = draw->names[i];
  param->direction = (uint32_t)(1 + below(state, 4));
  if (param->direction == SLIP_DIRECTION_SCALAR) {
    param->dtype = (slip_dtype_t)(1 + below(state, 13));
    return;
  }
  param->dtype = (slip_dtype_t)(1 + below(state, 17));
  param->layout = below(state, 5) ? SLIP_LAYOUT_ND : SLIP_LAYOUT_NZ;
  param->rank = (uint8_t)below(state, 6);
  for (uint32_t d = 0; d < param->rank; ++d) {
    uint64_t kind = below(state, 4);
    param->dims[d] = kind < 2 ? (int64_t)(slip_test_random(state) >> (1 + below(state, 62))) + (kind == 0) : SLIP_DIM_DYNAMIC;
    if (param->dims[d] == 0 || param->dims[d] == INT64_MIN) param->dims[d] = INT64_MAX;
    if (kind == 2) param->dim_names[d] = symbols[below(state, 7)];
  }
}

static void draw_signature(uint64_t *state, draw_t *draw) {
  draw->param_count = below(state, below(state, 4) ? 6 : MAX_PARAMS + 1);
  draw->alias_count = 0;
  for (size_t i = 0; i < draw->param_count; ++i) draw_param(state, draw, i);
  for (size_t i = 0; i < draw->param_count && below(state, 4); ++i) {
    size_t index = below(state, draw->param_count);
    uint32_t direction = draw->params[index].direction;
    if (direction == SLIP_DIRECTION_OUT || direction == SLIP_DIRECTION_INOUT) draw->aliases[draw->alias_count++] = (int32_t)index;
  }
}

static slip_signature_t *create(const draw_t *draw) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(
      slip_signature_create(draw->params, draw->param_count, draw->aliases, draw->alias_count, slip_allocator_system(), &signature));
  return signature;
}

static void check_text(const slip_signature_t *signature) {
  static char text[16384], again[16384];
  size_t length = slip_signature_format(signature, text, sizeof(text));
  SLIP_CHECK(length < sizeof(text));
  slip_signature_t *back;
  SLIP_CHECK_OK(slip_signature_parse(text, length, slip_allocator_system(), &back));
  SLIP_CHECK(slip_signature_equal(signature, back) && slip_signature_hash(signature) == slip_signature_hash(back));
  slip_signature_format(back, again, sizeof(again));
  SLIP_CHECK_STR(again, text);
  slip_signature_release(back);
}

static void check_json(const slip_signature_t *signature) {
  slip_bytes_t text, again;
  slip_signature_t *back;
  SLIP_CHECK_OK(slip_signature_to_json(signature, slip_allocator_system(), &text));
  SLIP_CHECK_OK(slip_signature_from_json((char *)text.data, text.size, slip_allocator_system(), &back));
  SLIP_CHECK(slip_signature_equal(signature, back));
  SLIP_CHECK_OK(slip_signature_to_json(back, slip_allocator_system(), &again));
  SLIP_CHECK_STR((char *)again.data, (char *)text.data);
  slip__free(slip_allocator_system(), again.data, again.size + 1);
  slip__free(slip_allocator_system(), text.data, text.size + 1);
  slip_signature_release(back);
}

// Field by field: the signature holds what it was made from.
static void check_fields(const slip_signature_t *signature, const draw_t *draw) {
  size_t tensors = 0;
  SLIP_CHECK_EQ(slip_signature_param_count(signature), draw->param_count);
  for (size_t i = 0; i < draw->param_count; ++i) {
    const slip_param_t *a = slip_signature_param(signature, i), *b = &draw->params[i];
    SLIP_CHECK_STR(a->name, b->name);
    SLIP_CHECK(a->direction == b->direction && a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank);
    SLIP_CHECK_EQ(slip_signature_find(signature, b->name), (int32_t)i);
    tensors += b->direction != SLIP_DIRECTION_SCALAR;
    for (uint32_t d = 0; d < b->rank; ++d) {
      SLIP_CHECK_EQ(a->dims[d], b->dims[d]);
      SLIP_CHECK_EQ(a->dim_names[d] != NULL, b->dim_names[d] != NULL);
      if (b->dim_names[d]) SLIP_CHECK_STR(a->dim_names[d], b->dim_names[d]);
    }
  }
  SLIP_CHECK_EQ(slip_signature_tensor_count(signature), tensors);
  const int32_t *aliases;
  SLIP_CHECK_EQ(slip_signature_return_aliases(signature, &aliases), draw->alias_count);
  SLIP_CHECK(draw->alias_count == 0 || memcmp(aliases, draw->aliases, draw->alias_count * sizeof(int32_t)) == 0);
}

SLIP_TEST(property_signatures_round_trip) {
  uint64_t state = slip_test_seed();
  static draw_t draw;
  for (int i = 0; i < 4000; ++i) {
    draw_signature(&state, &draw);
    slip_signature_t *signature = create(&draw);
    check_fields(signature, &draw);
    check_text(signature);
    check_json(signature);
    slip_signature_release(signature);
  }
}

// Another value in one field, or none where the drawn field allows none.
static void change_field(uint64_t *state, draw_t *draw) {
  slip_param_t *param = &draw->params[below(state, draw->param_count)];
  bool tensor = param->direction != SLIP_DIRECTION_SCALAR;
  switch (below(state, 5)) {
    case 0:
      param->dtype = (slip_dtype_t)(1 + below(state, 13));
      break;
    case 1:
      if (tensor) param->layout = SLIP_LAYOUT_ND + SLIP_LAYOUT_NZ - param->layout;
      break;
    case 2:
      if (param->rank > 0) param->dims[0] = param->dim_names[0] ? SLIP_DIM_DYNAMIC : (int64_t)(1 + below(state, 9));
      break;
    case 3:
      if (param->rank > 0 && param->dims[0] == SLIP_DIM_DYNAMIC) param->dim_names[0] = below(state, 2) ? symbols[below(state, 7)] : NULL;
      break;
    default:
      if (draw->alias_count > 0) --draw->alias_count;
  }
}

// Any two drawn signatures are equal exactly when their texts are.
SLIP_TEST(property_signature_hash_follows_equality) {
  uint64_t state = slip_test_seed();
  static draw_t draw;
  static char text[2][16384];
  slip_signature_t *before = NULL;
  for (int i = 0; i < 4000; ++i) {
    if (below(&state, 2)) {
      draw_signature(&state, &draw);
      if (draw.param_count > 3) draw.param_count = draw.alias_count = 0;
    } else if (draw.param_count > 0) {
      change_field(&state, &draw);
    }
    slip_signature_t *signature = create(&draw);
    slip_signature_format(signature, text[i & 1], sizeof(text[0]));
    if (before) {
      bool same = strcmp(text[0], text[1]) == 0;
      SLIP_CHECK_EQ(slip_signature_equal(before, signature), same);
      SLIP_CHECK_EQ(slip_signature_hash(before) == slip_signature_hash(signature), same);
    }
    slip_signature_release(before);
    before = signature;
  }
  slip_signature_release(before);
}

// Damaged text and JSON: refused, or read as some signature that round-trips itself.
SLIP_TEST(property_damaged_signatures_are_refused_or_sound) {
  uint64_t state = slip_test_seed();
  static draw_t draw;
  static char text[16384];
  uint32_t refused = 0;
  for (int i = 0; i < 4000; ++i) {
    draw_signature(&state, &draw);
    slip_signature_t *signature = create(&draw), *back = NULL;
    bool json = below(&state, 2);
    slip_bytes_t bytes;
    SLIP_CHECK_OK(slip_signature_to_json(signature, slip_allocator_system(), &bytes));
    size_t length = json ? bytes.size : slip_signature_format(signature, text, sizeof(text));
    if (json) memcpy(text, bytes.data, length);
    for (uint64_t n = 1 + below(&state, 3); n > 0; --n) text[below(&state, length)] = (char)below(&state, below(&state, 2) ? 128 : 256);
    if (below(&state, 4) == 0) length = below(&state, length);
    slip_status_t status = json ? slip_signature_from_json(text, length, slip_allocator_system(), &back)
                                : slip_signature_parse(text, length, slip_allocator_system(), &back);
    if (slip_status_is_ok(status)) {
      check_text(back);
      check_json(back);
    } else {
      ++refused;
      SLIP_CHECK(back == NULL);
      SLIP_CHECK_EQ(slip_status_code(status), json ? SLIP_CODE_CORRUPT : SLIP_CODE_INVALID_ARGUMENT);
    }
    slip_status_free(status);
    slip_signature_release(back);
    slip__free(slip_allocator_system(), bytes.data, bytes.size + 1);
    slip_signature_release(signature);
  }
  SLIP_CHECK(refused > 400);
}
