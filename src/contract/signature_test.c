// SPDX-License-Identifier: Apache-2.0
#include "slipstream/signature.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

#define INVALID SLIP_CODE_INVALID_ARGUMENT

static const slip_param_t rmsnorm[] = {
    {.name = "x",
     .direction = SLIP_DIRECTION_IN,
     .layout = SLIP_LAYOUT_ND,
     .dtype = SLIP_DTYPE_BF16,
     .rank = 2,
     .dims = {-1, 2048},
     .dim_names = {"M"}},
    {.name = "eps", .direction = SLIP_DIRECTION_SCALAR, .dtype = SLIP_DTYPE_F32},
    {.name = "y",
     .direction = SLIP_DIRECTION_OUT,
     .layout = SLIP_LAYOUT_ND,
     .dtype = SLIP_DTYPE_BF16,
     .rank = 2,
     .dims = {-1, 2048},
     .dim_names = {"M"}},
    {.name = "s", .direction = SLIP_DIRECTION_INOUT, .layout = SLIP_LAYOUT_NZ, .dtype = SLIP_DTYPE_F32},
};

static slip_signature_t *create(const slip_param_t *params, size_t count, const int32_t *aliases, size_t alias_count) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_create(params, count, aliases, alias_count, slip_allocator_system(), &signature));
  return signature;
}

SLIP_TEST(signature_accessors) {
  const int32_t aliases[] = {2, 3, 2};
  slip_signature_t *signature = create(rmsnorm, 4, aliases, 3);
  SLIP_CHECK_EQ(slip_signature_param_count(signature), 4);
  SLIP_CHECK_EQ(slip_signature_tensor_count(signature), 3);
  SLIP_CHECK_EQ(slip_signature_scalar_count(signature), 1);
  const slip_param_t *y = slip_signature_param(signature, 2);
  SLIP_CHECK_STR(y->name, "y");
  SLIP_CHECK(y->name != rmsnorm[2].name && y->dim_names[0] != rmsnorm[2].dim_names[0]);
  SLIP_CHECK_STR(y->dim_names[0], "M");
  SLIP_CHECK(y->dims[0] == -1 && y->dims[1] == 2048 && y->dims[2] == 1 && y->dim_names[1] == NULL);
  SLIP_CHECK(slip_signature_param(signature, 4) == NULL);
  SLIP_CHECK_EQ(slip_signature_find(signature, "s"), 3);
  SLIP_CHECK_EQ(slip_signature_find(signature, "x"), 0);
  SLIP_CHECK_EQ(slip_signature_find(signature, "z"), -1);
  SLIP_CHECK_EQ(slip_signature_find(signature, NULL), -1);
  const int32_t *indices;
  SLIP_CHECK_EQ(slip_signature_return_aliases(signature, &indices), 3);
  SLIP_CHECK(indices != aliases && memcmp(indices, aliases, sizeof(aliases)) == 0);
  slip_signature_retain(signature);
  slip_signature_release(signature);
  SLIP_CHECK_EQ(slip_signature_param_count(signature), 4);
  slip_signature_release(signature);
  slip_signature_release(NULL);
}

SLIP_TEST(signature_may_be_empty) {
  slip_signature_t *signature = create(NULL, 0, NULL, 0);
  SLIP_CHECK_EQ(slip_signature_param_count(signature), 0);
  SLIP_CHECK_EQ(slip_signature_find(signature, "x"), -1);
  slip_signature_release(signature);
}

// |spoil| changes one parameter (index 0: a tensor, 1: a scalar) into something that must be refused.
typedef void (*spoil_t)(slip_param_t *params);
static void spoiled(spoil_t spoil, const char *part) {
  slip_param_t params[4];
  memcpy(params, rmsnorm, sizeof(params));
  spoil(params);
  slip_signature_t *signature = (slip_signature_t *)(uintptr_t)1;
  SLIP_CHECK_ERROR(slip_signature_create(params, 4, NULL, 0, slip_allocator_system(), &signature), INVALID, part);
  SLIP_CHECK(signature == NULL);
}
static void null_name(slip_param_t *p) {
  p[0].name = NULL;
}
static void empty_name(slip_param_t *p) {
  p[0].name = "";
}
static void odd_name(slip_param_t *p) {
  p[0].name = "x.1";
}
static void digit_name(slip_param_t *p) {
  p[0].name = "1x";
}
static void utf8_name(slip_param_t *p) {
  p[0].name = "\xc3\xa9";
}
static void same_name(slip_param_t *p) {
  p[2].name = "x";
}
static void bad_direction(slip_param_t *p) {
  p[0].direction = 5;
}
static void no_direction(slip_param_t *p) {
  p[0].direction = 0;
}
static void bad_dtype(slip_param_t *p) {
  p[0].dtype = 18;
}
static void no_dtype(slip_param_t *p) {
  p[1].dtype = 0;
}
static void bad_layout(slip_param_t *p) {
  p[0].layout = 3;
}
static void no_layout(slip_param_t *p) {
  p[0].layout = 0;
}
static void bad_rank(slip_param_t *p) {
  p[0].rank = 6;
}
static void zero_dim(slip_param_t *p) {
  p[0].dims[1] = 0;
}
static void negative_dim(slip_param_t *p) {
  p[0].dims[1] = -2;
}
static void named_static_dim(slip_param_t *p) {
  p[0].dim_names[1] = "K";
}
static void odd_dim_name(slip_param_t *p) {
  p[0].dim_names[0] = "M+1";
}
static void empty_dim_name(slip_param_t *p) {
  p[0].dim_names[0] = "";
}
static void scalar_rank(slip_param_t *p) {
  p[1].rank = 1;
}
static void scalar_layout(slip_param_t *p) {
  p[1].layout = SLIP_LAYOUT_ND;
}
static void scalar_dtype(slip_param_t *p) {
  p[1].dtype = SLIP_DTYPE_F8E8M0;
}

SLIP_TEST(signature_rules_have_their_own_sentences) {
  spoiled(null_name, "the name is empty");
  spoiled(empty_name, "the name is empty; name every parameter; parameter 0");
  spoiled(odd_name, "the name 'x.1' is no identifier");
  spoiled(digit_name, "the name '1x' is no identifier");
  spoiled(utf8_name, "is no identifier");
  spoiled(same_name, "parameters 0 and 2 are both called 'x'");
  spoiled(bad_direction, "direction 5 is unknown");
  spoiled(no_direction, "direction 0 is unknown");
  spoiled(bad_dtype, "dtype 18 is unknown");
  spoiled(no_dtype, "dtype 0 is unknown; pass one of slip_dtype_e; parameter 1");
  spoiled(bad_layout, "layout 3 is unknown");
  spoiled(no_layout, "layout 0 is unknown");
  spoiled(bad_rank, "rank 6 is above 5");
  spoiled(zero_dim, "dim 1 is 0");
  spoiled(negative_dim, "dim 1 is -2");
  spoiled(named_static_dim, "dim 1 has the name 'K' and the static size 2048");
  spoiled(odd_dim_name, "dim 0 has the name 'M+1', which is no identifier");
  spoiled(empty_dim_name, "dim 0 has the name '', which is no identifier");
  spoiled(scalar_rank, "a scalar has no dims and no layout; rank is 1 and layout 0");
  spoiled(scalar_layout, "a scalar has no dims and no layout; rank is 0 and layout 1");
  spoiled(scalar_dtype, "dtype 16 'f8e8m0' is no scalar type");
}

static void alias_refused(int32_t alias, const char *part) {
  const int32_t aliases[] = {2, alias};
  slip_signature_t *signature = (slip_signature_t *)(uintptr_t)1;
  SLIP_CHECK_ERROR(slip_signature_create(rmsnorm, 4, aliases, 2, slip_allocator_system(), &signature), INVALID, part);
  SLIP_CHECK(signature == NULL);
}

SLIP_TEST(signature_aliases_name_written_tensors) {
  alias_refused(0, "return alias 1 names parameter 0 'x', an IN tensor");
  alias_refused(1, "return alias 1 names parameter 1 'eps', a scalar");
  alias_refused(4, "return alias 1 is 4, out of range for 4 parameters");
  alias_refused(-1, "return alias 1 is -1, out of range");
}

SLIP_TEST(signature_too_many_parameters) {
  slip_signature_t *signature;
  SLIP_CHECK_ERROR(slip_signature_create(rmsnorm, (size_t)1 << 40, NULL, 0, slip_allocator_system(), &signature), INVALID,
                   "a signature has at most");
  SLIP_CHECK_ERROR(slip_signature_create(rmsnorm, 1, NULL, (size_t)1 << 40, slip_allocator_system(), &signature), INVALID,
                   "a signature has at most");
}

SLIP_TEST(signature_hash_is_stable_across_builds) {
  slip_signature_t *signature = create(rmsnorm, 4, (int32_t[]){2}, 1);
  char text[32];
  snprintf(text, sizeof(text), "%016llx", (unsigned long long)slip_signature_hash(signature));
  SLIP_CHECK_STR(text, "f499f13da1e0ef1e");
  slip_signature_release(signature);
}

// Any field changed gives another signature.
typedef void (*change_t)(slip_param_t *params);
static void c_name(slip_param_t *p) {
  p[0].name = "xx";
}
static void c_direction(slip_param_t *p) {
  p[0].direction = SLIP_DIRECTION_INOUT;
}
static void c_layout(slip_param_t *p) {
  p[0].layout = SLIP_LAYOUT_NZ;
}
static void c_dtype(slip_param_t *p) {
  p[0].dtype = SLIP_DTYPE_F16;
}
static void c_dim(slip_param_t *p) {
  p[0].dims[1] = 2049;
}
static void c_rank(slip_param_t *p) {
  p[0].rank = 1;
}
static void c_symbol(slip_param_t *p) {
  p[0].dim_names[0] = "N";
}
static void c_anonymous(slip_param_t *p) {
  p[0].dim_names[0] = NULL;
}
static void c_scalar(slip_param_t *p) {
  p[1].dtype = SLIP_DTYPE_F64;
}

SLIP_TEST(signature_equality_sees_every_field) {
  static const change_t changes[] = {c_name, c_direction, c_layout, c_dtype, c_dim, c_rank, c_symbol, c_anonymous, c_scalar};
  slip_signature_t *signature = create(rmsnorm, 4, (int32_t[]){2}, 1), *same = create(rmsnorm, 4, (int32_t[]){2}, 1);
  SLIP_CHECK(slip_signature_equal(signature, same) && slip_signature_equal(signature, signature));
  SLIP_CHECK(slip_signature_hash(signature) == slip_signature_hash(same));
  SLIP_CHECK(!slip_signature_equal(signature, NULL));
  for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
    slip_param_t params[4];
    memcpy(params, rmsnorm, sizeof(params));
    changes[i](params);
    slip_signature_t *other = create(params, 4, (int32_t[]){2}, 1);
    SLIP_CHECK(!slip_signature_equal(signature, other));
    SLIP_CHECK(slip_signature_hash(signature) != slip_signature_hash(other));
    slip_signature_release(other);
  }
  slip_signature_t *other = create(rmsnorm, 4, (int32_t[]){3}, 1), *fewer = create(rmsnorm, 4, NULL, 0);
  SLIP_CHECK(!slip_signature_equal(signature, other) && !slip_signature_equal(signature, fewer));
  slip_signature_release(fewer);
  slip_signature_release(other);
  slip_signature_release(same);
  slip_signature_release(signature);
}

SLIP_TEST(signature_ignores_what_lies_above_the_rank) {
  slip_param_t params[4];
  memcpy(params, rmsnorm, sizeof(params));
  params[0].dims[4] = -77;
  params[0].dim_names[4] = "not an identifier";
  slip_signature_t *a = create(rmsnorm, 4, NULL, 0), *b = create(params, 4, NULL, 0);
  SLIP_CHECK(slip_signature_equal(a, b));
  slip_signature_release(a);
  slip_signature_release(b);
}

// |tensors| tensors and |scalars| scalars.
static slip_signature_t *wide(uint32_t tensors, uint32_t scalars) {
  static char names[600][8];
  static slip_param_t params[600];
  for (uint32_t i = 0; i < tensors + scalars; ++i) {
    snprintf(names[i], sizeof(names[i]), "p%u", i);
    params[i] = (slip_param_t){.name = names[i], .direction = SLIP_DIRECTION_SCALAR, .dtype = SLIP_DTYPE_I8};
    if (i >= tensors) continue;
    params[i].direction = SLIP_DIRECTION_IN;
    params[i].layout = SLIP_LAYOUT_ND;
  }
  return create(params, tensors + scalars, NULL, 0);
}

SLIP_TEST(signature_capacity_is_checked_apart) {
  slip_signature_t *signature = wide(256, 128);
  SLIP_CHECK_OK(slip_signature_check_capacity(signature));
  for (int i = 0; i < 384; ++i) {
    char name[8];
    snprintf(name, sizeof(name), "p%d", i);
    SLIP_CHECK_EQ(slip_signature_find(signature, name), i);
  }
  slip_signature_release(signature);
  signature = wide(257, 0);
  SLIP_CHECK_ERROR(slip_signature_check_capacity(signature), SLIP_CODE_INCOMPATIBLE, "257 tensors; a chip entry takes 256");
  slip_signature_release(signature);
  signature = wide(0, 129);
  SLIP_CHECK_ERROR(slip_signature_check_capacity(signature), SLIP_CODE_INCOMPATIBLE, "129 scalars; a chip entry takes 128");
  slip_signature_release(signature);
}

static slip_status_t create_body(slip_allocator_t allocator, void *user) {
  (void)user;
  slip_signature_t *signature;
  SLIP_RETURN_IF_ERROR(slip_signature_create(rmsnorm, 4, (int32_t[]){2}, 1, allocator, &signature));
  slip_signature_release(signature);
  return NULL;
}
SLIP_TEST(signature_survives_failing_allocations) {
  SLIP_CHECK(slip_test_allocator_loop(create_body, NULL) > 2);
}
