// SPDX-License-Identifier: Apache-2.0
// The alias, bounds and contiguity rules of a call against sets of touched bytes.
#include "contract/alias.h"
#include "contract/call_frame.h"
#include "slip_test.h"

#define ARENA 96
#define MAX   40

static _Alignas(64) uint8_t arena[3 * ARENA];

static uint64_t below(uint64_t *state, uint64_t limit) {
  return slip_test_random(state) % limit;
}

// The bytes of the arena that a tensor touches.
typedef struct bytes_t {
  uint8_t touched[3 * ARENA];
  bool any;
} bytes_t;

// One drawn call; what the oracle needs to know of each tensor.
typedef struct draw_t {
  uint32_t count;
  slip_tensor_t tensors[MAX];
  bytes_t bytes[MAX];
  bool writer[MAX];
  bool broken;  // some tensor breaks a rule by itself
} draw_t;

static void draw_bytes(const slip_tensor_t *tensor, bytes_t *bytes) {
  int64_t size = (int64_t)slip_dtype_size_bytes(tensor->dtype), rows = tensor->dims[0], columns = tensor->dims[1];
  int64_t first = (uint8_t *)tensor->data + tensor->byte_offset - arena;
  memset(bytes, 0, sizeof(*bytes));
  for (int64_t i = 0; i < rows * columns; ++i) {
    int64_t at = first + (i / columns * tensor->strides[0] + i % columns * tensor->strides[1]) * size;
    for (int64_t b = 0; b < size; ++b) bytes->touched[at + b] = 1;
    bytes->any = true;
  }
}

// Contiguous means: element i lies |i| sizes behind element 0.
static bool is_row_major(const slip_tensor_t *tensor) {
  for (int64_t i = 0; i < tensor->dims[0] * tensor->dims[1]; ++i) {
    if (i / tensor->dims[1] * tensor->strides[0] + i % tensor->dims[1] * tensor->strides[1] != i) return false;
  }
  return true;
}

static bool is_inside(const slip_tensor_t *tensor, const bytes_t *bytes) {
  if (!tensor->storage_base) return true;
  int64_t base = (uint8_t *)tensor->storage_base - arena;
  for (int64_t i = 0; i < 3 * ARENA; ++i) {
    if (bytes->touched[i] && (i < base || i >= base + (int64_t)tensor->storage_bytes)) return false;
  }
  return true;
}

static void draw_tensor(uint64_t *state, draw_t *draw, uint32_t i, uint32_t spread) {
  static const slip_dtype_t dtypes[] = {SLIP_DTYPE_U8, SLIP_DTYPE_F16, SLIP_DTYPE_F32};
  slip_tensor_t *tensor = &draw->tensors[i];
  slip_dtype_t dtype = dtypes[below(state, 3)];
  uint64_t size = slip_dtype_size_bytes(dtype);
  int64_t dims[2] = {1 + (int64_t)below(state, 2), 1 + (int64_t)below(state, 4)};
  if (below(state, 12) == 0) dims[below(state, 2)] = 0;
  // Often the exact place of an earlier tensor.
  uint64_t at = ARENA + below(state, spread) * size;
  if (i > 0 && below(state, 3) == 0) {
    const slip_tensor_t *earlier = &draw->tensors[below(state, i)];
    at = (uint64_t)((uint8_t *)earlier->data + earlier->byte_offset - arena);
    if (below(state, 2)) {
      dtype = earlier->dtype;
      size = slip_dtype_size_bytes(dtype);
      memcpy(dims, earlier->dims, sizeof(dims));
    }
  }
  SLIP_CHECK_OK(slip_tensor_initialize(tensor, dtype, 2, dims, arena + at, slip_device_cpu()));
  switch (below(state, 4)) {
    case 0:  // one storage for many
      tensor->data = tensor->storage_base = arena + ARENA;
      tensor->byte_offset = at - ARENA;
      tensor->storage_bytes = ARENA;
      break;
    case 1:
      tensor->storage_base = NULL;
      tensor->storage_bytes = 0;
      break;
    case 2:  // rarely: a storage that ends early or begins late
      if (below(state, 20) == 0) tensor->storage_bytes = below(state, 8);
      if (below(state, 20) == 0) tensor->storage_base = arena + at + 1;
      break;
    default:
      break;
  }
  if (below(state, 60) == 0) tensor->strides[below(state, 2)] = (int64_t)below(state, 4);
  draw->writer[i] = below(state, 2) == 0;
  draw_bytes(tensor, &draw->bytes[i]);
  draw->broken |= !is_row_major(tensor) || !is_inside(tensor, &draw->bytes[i]);
}

static bool overlap(const bytes_t *a, const bytes_t *b) {
  for (size_t i = 0; i < sizeof(a->touched); ++i) {
    if (a->touched[i] && b->touched[i]) return true;
  }
  return false;
}

static bool allowed(const draw_t *draw) {
  for (uint32_t i = 0; i < draw->count; ++i) {
    for (uint32_t j = 0; j < i; ++j) {
      if (!draw->writer[i] && !draw->writer[j]) continue;
      bool same = memcmp(draw->bytes[i].touched, draw->bytes[j].touched, sizeof(draw->bytes[i].touched)) == 0;
      if (!same && overlap(&draw->bytes[i], &draw->bytes[j])) return false;
    }
  }
  return true;
}

// Overlapping tensors, and those of one storage, are filed together; each lies inside what it is filed under.
static void check_storages(const draw_t *draw, const slip_frame_t *frame) {
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(frame, &view));
  for (uint32_t i = 0; i < draw->count; ++i) {
    const slip_otensor_t *a = &view.tensors[i];
    if (!draw->bytes[i].any) continue;
    int64_t base = (uint8_t *)a->storage - arena;
    for (int64_t b = 0; b < 3 * ARENA; ++b) {
      if (draw->bytes[i].touched[b]) SLIP_CHECK(b >= base && b < base + (int64_t)a->storage_bytes);
    }
    for (uint32_t j = 0; j < i; ++j) {
      const slip_otensor_t *b = &view.tensors[j];
      if (!draw->bytes[j].any) continue;
      bool one = draw->tensors[i].storage_base && draw->tensors[i].storage_base == draw->tensors[j].storage_base;
      if (!one && !overlap(&draw->bytes[i], &draw->bytes[j])) continue;
      SLIP_CHECK(a->storage == b->storage && a->storage_bytes == b->storage_bytes);
    }
  }
}

// Draws one call and compares; true if it passed.
static bool one_call(uint64_t *state, uint32_t max_count, uint32_t spread) {
  static draw_t draw;
  static char names[MAX][8];
  slip_param_t params[MAX];
  slip_arg_t args[MAX];
  memset(params, 0, sizeof(params));
  draw.count = 1 + (uint32_t)below(state, max_count);
  draw.broken = false;
  for (uint32_t i = 0; i < draw.count; ++i) {
    draw_tensor(state, &draw, i, spread);
    snprintf(names[i], sizeof(names[i]), "t%u", i);
    params[i].name = names[i];
    params[i].direction = draw.writer[i] ? (below(state, 2) ? SLIP_DIRECTION_OUT : SLIP_DIRECTION_INOUT) : SLIP_DIRECTION_IN;
    params[i].layout = SLIP_LAYOUT_ND;
    params[i].dtype = draw.tensors[i].dtype;
    params[i].rank = 2;
    params[i].dims[0] = params[i].dims[1] = SLIP_DIM_DYNAMIC;
    args[i] = slip_arg_tensor(&draw.tensors[i], NULL);
  }
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_create(params, draw.count, NULL, 0, slip_allocator_system(), &signature));
  bool expected = !draw.broken && allowed(&draw);
  slip_frame_t frame;
  slip_status_t status = slip_frame_initialize(&frame, signature, "random", slip_device_cpu(), args, draw.count, 0);
  if (slip_status_is_ok(status) != expected) {
    char text[512];
    slip_status_format(status, text, sizeof(text));
    slip_test_fail(__FILE__, __LINE__, "%u tensors: %s, expected %s", draw.count, text, expected ? "OK" : "a refusal");
  }
  if (expected) {
    check_storages(&draw, &frame);
  } else {
    SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_INVALID_ARGUMENT);
  }
  slip_status_free(status);
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
  return expected;
}

SLIP_TEST(property_calls_agree_with_a_byte_set_oracle) {
  uint64_t state = slip_test_seed();
  uint32_t passed = 0, total = 40000;
  for (uint32_t i = 0; i < total; ++i) passed += one_call(&state, 4, 20);
  // Both outcomes must have been seen often, or the draw proves nothing.
  SLIP_CHECK(passed > total / 10 && passed < total * 9 / 10);
}

SLIP_TEST(property_large_calls_agree_with_a_byte_set_oracle) {
  uint64_t state = slip_test_seed();
  uint32_t passed = 0;
  for (uint32_t i = 0; i < 2000; ++i) passed += one_call(&state, MAX, 20);
  SLIP_CHECK(passed > 20);
}

// The bare sweep, with up to 200 ranges (the heap sort's side), against all pairs.
SLIP_TEST(property_ranges_agree_with_all_pairs) {
  uint64_t state = slip_test_seed();
  slip__range_t ranges[200];
  uint32_t passed = 0;
  for (uint32_t round = 0; round < 4000; ++round) {
    uint32_t count = (uint32_t)below(&state, 200);
    uint64_t space = below(&state, 2) ? 40 : 4000, longest = 1 + below(&state, 6);
    bool expected = true;
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t begin = below(&state, space);
      ranges[i] = (slip__range_t){begin, begin + 1 + below(&state, longest), i, below(&state, 16) == 0};
    }
    for (uint32_t i = 0; i < count && expected; ++i) {
      for (uint32_t j = 0; j < i && expected; ++j) {
        const slip__range_t *a = &ranges[i], *b = &ranges[j];
        bool same = a->begin == b->begin && a->end == b->end, apart = a->end <= b->begin || b->end <= a->begin;
        expected = same || apart || (!a->writer && !b->writer);
      }
    }
    slip__range_t original[200];
    memcpy(original, ranges, sizeof(ranges));
    uint32_t writer, other;
    slip__ranges_sort(ranges, count);
    SLIP_CHECK_EQ(slip__ranges_check(ranges, count, &writer, &other), expected);
    passed += expected;
    if (expected) continue;
    // The pair it names is a pair that breaks the rule.
    const slip__range_t *a = &original[writer], *b = &original[other];
    SLIP_CHECK(a->writer && a->begin < b->end && b->begin < a->end && !(a->begin == b->begin && a->end == b->end));
  }
  SLIP_CHECK(passed > 100 && passed < 3900);
}
