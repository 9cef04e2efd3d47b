// SPDX-License-Identifier: Apache-2.0
// Views against an index oracle: the oracle of a view is the list of its elements' addresses in row-major order.
#include "slip_test.h"
#include "slipstream/tensor.h"

#define STORAGE_BYTES 512
#define MAX_ELEMENTS  4096
#define CASES         3000
#define CHAIN         8

static uint8_t storage[STORAGE_BYTES];

// Element addresses of a view, relative to the storage, in row-major order.
typedef struct list_t {
  uint32_t count;
  int64_t at[MAX_ELEMENTS];
} list_t;

static uint64_t below(uint64_t *state, uint64_t limit) {
  return slip_test_random(state) % limit;
}

// Walks |tensor| by its own dims and strides.
static void walk(const slip_tensor_t *tensor, list_t *list) {
  int64_t size = (int64_t)slip_dtype_size_bytes(tensor->dtype);
  int64_t first = (int64_t)((uint64_t)(uintptr_t)tensor->data + tensor->byte_offset - (uint64_t)(uintptr_t)storage);
  int64_t total = slip_tensor_element_count(tensor);
  SLIP_CHECK(total >= 0 && total <= MAX_ELEMENTS);
  list->count = (uint32_t)total;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, at = first;
    for (uint32_t d = tensor->rank; d-- > 0; rest /= tensor->dims[d]) at += rest % tensor->dims[d] * tensor->strides[d] * size;
    list->at[i] = at;
  }
}

static void same_list(const list_t *actual, const list_t *expected, const char *operation) {
  if (actual->count != expected->count)
    slip_test_fail(__FILE__, __LINE__, "%s: %u elements, expected %u", operation, actual->count, expected->count);
  for (uint32_t i = 0; i < actual->count; ++i) {
    if (actual->at[i] == expected->at[i]) continue;
    slip_test_fail(__FILE__, __LINE__, "%s: element %u at %lld, expected %lld", operation, i, (long long)actual->at[i],
                   (long long)expected->at[i]);
  }
}

// What follows from the list of addresses alone.
static void check_geometry(const slip_tensor_t *tensor, const list_t *list) {
  int64_t size = (int64_t)slip_dtype_size_bytes(tensor->dtype);
  int64_t low = INT64_MAX, high = 0;
  bool contiguous = true;
  for (uint32_t i = 0; i < list->count; ++i) {
    if (list->at[i] < low) low = list->at[i];
    if (list->at[i] + size > high) high = list->at[i] + size;
    contiguous &= list->at[i] == list->at[0] + (int64_t)i * size;
  }
  SLIP_CHECK_EQ(slip_tensor_is_contiguous(tensor), contiguous);
  uint64_t begin, end, base = (uint64_t)(uintptr_t)storage;
  SLIP_CHECK(slip_tensor_byte_span(tensor, &begin, &end));
  SLIP_CHECK(list->count ? begin - base == (uint64_t)low && end - base == (uint64_t)high : begin == 0 && end == 0);
  slip_status_t status = slip_tensor_validate(tensor);
  bool inside = list->count == 0 || (low >= 0 && high <= STORAGE_BYTES);
  SLIP_CHECK_EQ(slip_status_is_ok(status), inside);
  slip_status_free(status);
}

static slip_tensor_t random_tensor(uint64_t *state) {
  slip_tensor_t tensor;
  uint8_t rank = (uint8_t)below(state, 6);
  int64_t dims[5];
  int64_t count = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    dims[d] = (int64_t)below(state, 16) == 0 ? 0 : 1 + (int64_t)below(state, 4);
    if (count * dims[d] > 60) dims[d] = 1;
    count *= dims[d];
  }
  slip_dtype_t dtype = (slip_dtype_t)(1 + below(state, 17));
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, dtype, rank, dims, storage, slip_device_cpu()));
  tensor.storage_bytes = STORAGE_BYTES;
  tensor.byte_offset = below(state, STORAGE_BYTES - (uint64_t)count * slip_dtype_size_bytes(dtype) + 1);
  // Some dims walk backwards.
  for (uint32_t d = 0; d < rank && count > 0; ++d) {
    if (below(state, 8)) continue;
    tensor.byte_offset += (uint64_t)((tensor.dims[d] - 1) * tensor.strides[d]) * slip_dtype_size_bytes(dtype);
    tensor.strides[d] = -tensor.strides[d];
  }
  return tensor;
}

static void step_slice(uint64_t *state, slip_tensor_t *tensor) {
  static list_t before, after, expected;
  if (tensor->rank == 0) return;
  walk(tensor, &before);
  uint32_t axis = (uint32_t)below(state, tensor->rank);
  int64_t dim = tensor->dims[axis];
  int64_t start = (int64_t)below(state, (uint64_t)dim + 2) - (below(state, 10) == 0), length = (int64_t)below(state, (uint64_t)dim + 2);
  int64_t step = 1 + (int64_t)below(state, 3);
  bool legal = start >= 0 && start <= dim && (length == 0 || start + (length - 1) * step < dim);
  slip_tensor_t view = *tensor;
  slip_status_t status = slip_tensor_slice(tensor, axis, start, length, step, &view);
  SLIP_CHECK_EQ(slip_status_is_ok(status), legal);
  slip_status_free(status);
  if (!legal) return;
  // The elements whose index along |axis| is one of those asked for.
  int64_t inner = 1;
  for (uint32_t d = axis + 1; d < tensor->rank; ++d) inner *= tensor->dims[d];
  expected.count = 0;
  for (uint32_t i = 0; i < before.count; ++i) {
    int64_t index = (int64_t)i / inner % dim - start;
    if (index >= 0 && index % step == 0 && index / step < length) expected.at[expected.count++] = before.at[i];
  }
  walk(&view, &after);
  same_list(&after, &expected, "slice");
  *tensor = view;
}

static void step_permute(uint64_t *state, slip_tensor_t *tensor) {
  static list_t before, after, expected;
  uint32_t order[5] = {0, 1, 2, 3, 4}, rank = tensor->rank;
  slip_tensor_t view;
  walk(tensor, &before);
  if (below(state, 2) && rank > 0) {
    uint32_t a = (uint32_t)below(state, rank), b = (uint32_t)below(state, rank);
    order[a] = b;
    order[b] = a;
    SLIP_CHECK_OK(slip_tensor_transpose(tensor, a, b, &view));
  } else {
    for (uint32_t d = rank; d > 1; --d) {
      uint32_t other = (uint32_t)below(state, d), kept = order[d - 1];
      order[d - 1] = order[other];
      order[other] = kept;
    }
    SLIP_CHECK_OK(slip_tensor_permute(tensor, order, &view));
  }
  // Element with new index (i0, i1, ..) is the old one whose index at order[d] is i_d.
  expected.count = before.count;
  for (uint32_t i = 0; i < before.count; ++i) {
    int64_t index[5], rest = i, flat = 0;
    for (uint32_t d = rank; d-- > 0; rest /= tensor->dims[order[d]]) index[order[d]] = rest % tensor->dims[order[d]];
    for (uint32_t d = 0; d < rank; ++d) flat = flat * tensor->dims[d] + index[d];
    expected.at[i] = before.at[flat];
  }
  walk(&view, &after);
  same_list(&after, &expected, "permute");
  *tensor = view;
}

// True if some strides reach |list| under |dims|: each is the distance to the neighbour along its dim, if they exist at all.
static bool reshapable(const list_t *list, int64_t size, uint32_t rank, const int64_t *dims) {
  int64_t strides[5] = {0}, inner = 1;
  for (uint32_t d = rank; d-- > 0; inner *= dims[d]) {
    if (dims[d] > 1) strides[d] = list->at[inner] - list->at[0];
    if (strides[d] % size) return false;
  }
  for (uint32_t i = 0; i < list->count; ++i) {
    int64_t rest = i, at = list->at[0];
    for (uint32_t d = rank; d-- > 0; rest /= dims[d]) at += rest % dims[d] * strides[d];
    if (at != list->at[i]) return false;
  }
  return true;
}

static void step_reshape(uint64_t *state, slip_tensor_t *tensor) {
  static list_t before, after;
  walk(tensor, &before);
  uint8_t rank = (uint8_t)below(state, 6);
  int64_t dims[5] = {0}, asked[5], left = before.count;
  for (uint32_t d = 0; d < rank; ++d) {
    // A random divisor of what is left; the last dim takes the rest.
    do dims[d] = 1 + (int64_t)below(state, 6);
    while (left % dims[d] != 0);
    if (d + 1 == rank) dims[d] = left;
    left = dims[d] ? left / dims[d] : 0;
  }
  if (before.count == 0 && rank > 0) dims[below(state, rank)] = 0;
  bool counts = rank > 0 || before.count == 1;
  memcpy(asked, dims, sizeof(asked));
  if (rank > 0 && before.count > 0 && below(state, 3) == 0) asked[below(state, rank)] = -1;
  slip_tensor_t view = *tensor;
  slip_status_t status = slip_tensor_reshape(tensor, rank, asked, &view);
  bool legal = counts && (before.count == 0 || reshapable(&before, (int64_t)slip_dtype_size_bytes(tensor->dtype), rank, dims));
  if (slip_status_is_ok(status) != legal) {
    char text[256];
    slip_tensor_format(tensor, text, sizeof(text));
    slip_test_fail(__FILE__, __LINE__, "reshape of %s to rank %u gave %d, expected %d", text, rank, slip_status_is_ok(status), legal);
  }
  slip_status_free(status);
  if (!legal) return;
  for (uint32_t d = 0; d < rank; ++d) SLIP_CHECK_EQ(view.dims[d], dims[d]);
  walk(&view, &after);
  same_list(&after, &before, "reshape");
  *tensor = view;
}

SLIP_TEST(property_views_agree_with_an_index_oracle) {
  uint64_t state = slip_test_seed();
  static list_t list;
  for (int i = 0; i < CASES; ++i) {
    slip_tensor_t tensor = random_tensor(&state);
    for (int j = 0; j < CHAIN; ++j) {
      switch (below(&state, 4)) {
        case 0:
          step_slice(&state, &tensor);
          break;
        case 1:
          step_permute(&state, &tensor);
          break;
        default:
          step_reshape(&state, &tensor);
      }
      walk(&tensor, &list);
      check_geometry(&tensor, &list);
    }
  }
}

// Strides from anywhere: broadcasts, overlaps with itself, outside of the storage.
SLIP_TEST(property_geometry_of_arbitrary_strides) {
  uint64_t state = slip_test_seed();
  static list_t list;
  for (int i = 0; i < CASES; ++i) {
    slip_tensor_t tensor = random_tensor(&state);
    for (uint32_t d = 0; d < tensor.rank; ++d) {
      if (below(&state, 2)) tensor.strides[d] = (int64_t)below(&state, 9) - 3;
    }
    walk(&tensor, &list);
    check_geometry(&tensor, &list);
  }
}
