// SPDX-License-Identifier: Apache-2.0
// Submits that are recognised by their form are judged as if they were the first, and kernels see what was submitted.
#include "graph/form.h"

#include <stdatomic.h>

#include "graph/workspace.h"
#include "slip_test_graph.h"

// --- What kernels see ---------------------------------------------------------------------------------------------------------------

typedef struct expected_t {
  slip_ktensor_t views[SLIP_KERNEL_MAX_TENSORS];  // |data| NULL: anything but NULL
  uint64_t salt;
  uint32_t tensors, scalars, blocks;
  _Atomic uint32_t runs, wrong;
} expected_t;

static bool looks_like(const slip_ktensor_t *view, const slip_ktensor_t *expected) {
  bool right = view->dtype == expected->dtype && view->rank == expected->rank;
  right &= expected->data ? view->data == expected->data : view->data != NULL;
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    right &= d < expected->rank ? view->dims[d] == expected->dims[d] && view->strides[d] == expected->strides[d]
                                : view->dims[d] == 1 && view->strides[d] == 0;
  }
  return right;
}

static void look(const slip_kargs_t *args, slip_block_t block) {
  expected_t *expected = (expected_t *)(uintptr_t)args->scalars[0];
  bool right = args->tensor_count == expected->tensors && args->scalar_count == expected->scalars && block.count == expected->blocks;
  for (uint32_t i = 0; right && i < args->tensor_count; ++i) right = looks_like(&args->tensors[i], &expected->views[i]);
  for (uint32_t i = 1; right && i < args->scalar_count; ++i) right = args->scalars[i] == expected->salt * i;
  if (!right) atomic_fetch_add(&expected->wrong, 1);
  atomic_fetch_add(&expected->runs, 1);
}

#define KERNELS 12
#define TASKS   900
static slip_object_kernel_t lookers[KERNELS];
static expected_t expected[TASKS];
static int32_t memory[4096];

static uint32_t below(uint64_t *random, uint32_t n) {
  return (uint32_t)(slip_test_random(random) % n);
}

static slip_otensor_t random_tensor(uint64_t *random, uint32_t variety) {
  slip_otensor_t tensor = {.storage = memory, .storage_bytes = below(random, 8) ? sizeof(memory) : 0};
  slip_ktensor_t *view = &tensor.view;
  view->dtype = below(random, 2) ? SLIP_DTYPE_I32 : SLIP_DTYPE_U8;
  view->rank = (uint8_t)below(random, 4);
  view->data = memory + 1024 + below(random, 1024);
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    view->dims[d] = below(random, variety);
    view->strides[d] = (int64_t)below(random, 2 * variety) - variety / 2;
  }
  return tensor;
}

static void look_around(slip_orch_t *o, const slip_oargs_t *args) {
  uint64_t *random = graph_test_user(args);
  uint32_t variety = 2 + below(random, 6);
  int64_t one = 1;
  slip_otensor_t condition = graph_test_tensor(&one, SLIP_DTYPE_I64, 1, &one);
  slip_predicate_t holds = {&condition, 0, 1, SLIP_PREDICATE_EQ, 0}, fails = {&condition, 0, 1, SLIP_PREDICATE_NE, 0};
  for (uint32_t i = 0; i < TASKS; ++i) {
    expected_t *mine = &expected[i];
    uint32_t kernel = below(random, KERNELS);
    slip_otensor_t tensors[SLIP_KERNEL_MAX_TENSORS];
    slip_task_builder_t task;
    *mine =
        (expected_t){.salt = slip_test_random(random), .tensors = lookers[kernel].tensor_count, .scalars = lookers[kernel].scalar_count};
    mine->blocks = below(random, 4) ? 1 : 1 + below(random, 5);
    if (i % 60 == 0) slip_scope_begin(o, SLIP_SCOPE_AUTO);
    slip_task_begin(&task, kernel, mine->blocks);
    for (uint32_t t = 0; t < mine->tensors; ++t) {
      bool is_new = below(random, 16) == 0;
      tensors[t] = random_tensor(random, variety);
      mine->views[t] = tensors[t].view;
      if (is_new) {
        int64_t stride = 1;
        for (uint32_t d = tensors[t].view.rank; d-- > 0; stride *= mine->views[t].dims[d]) mine->views[t].strides[d] = stride;
        mine->views[t].data = NULL;
      }
      slip_task_tensor(&task, is_new ? SLIP_ACCESS_OUT : below(random, 8) ? SLIP_ACCESS_IN : SLIP_ACCESS_NO_DEP, &tensors[t]);
    }
    slip_task_scalar(&task, (uint64_t)(uintptr_t)mine);
    for (uint32_t s = 1; s < mine->scalars; ++s) slip_task_scalar(&task, mine->salt * s);
    bool runs = below(random, 8) != 0;
    if (!runs || below(random, 8) == 0) slip_task_if(&task, runs ? &holds : &fails);
    if (!runs) mine->blocks = 0;
    if (slip_task_submit(o, &task) == 0) return;
    if (i % 60 == 59) slip_scope_end(o);
  }
  // |condition| is this function's own: all must be over.
  (void)o->api->read_element(o, &condition, 0);
  o->api->write_element(o, &condition, 0, 1);
}

static void look_with(uint32_t threads, uint32_t rounds) {
  graph_test_t test = graph_test_open(threads, 64, 1 << 20, 4096);
  uint64_t random = slip_test_seed();
  for (uint32_t k = 0; k < KERNELS; ++k) {
    static const uint32_t tensors[KERNELS] = {0, 1, 2, 3, 4, 4, 5, 8, 3, 32, 1, 3},
                          scalars[KERNELS] = {1, 1, 4, 3, 4, 5, 1, 2, 16, 16, 2, 1};
    lookers[k] = (slip_object_kernel_t){"look", look, 0, 0, tensors[k], scalars[k]};
  }
  bool exhausted = false;
  for (uint32_t round = 0; round < rounds; ++round) {
    SLIP_CHECK_OK(graph_test_run(&test, lookers, KERNELS, look_around, NULL, 0, &random, SLIP__RUN_PROGRAM));
    exhausted |= test.workspace->forms.used + slip__form_bytes(SLIP_KERNEL_MAX_TENSORS) > SLIP__FORM_BYTES;
    for (uint32_t i = 0; i < TASKS; ++i) {
      SLIP_CHECK_EQ(atomic_load(&expected[i].wrong), 0);
      SLIP_CHECK_EQ(atomic_load(&expected[i].runs), expected[i].blocks);
    }
  }
  SLIP_CHECK(exhausted);  // tasks have brought forms of their own
  graph_test_close(&test);
}
SLIP_TEST(kernels_see_what_was_submitted) {
  look_with(1, 6);
}
SLIP_TEST(kernels_see_what_was_submitted_on_every_thread) {
  look_with(3, 12);
}

// --- One difference to a known form -------------------------------------------------------------------------------------------------

static void nothing(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}
static const slip_object_kernel_t kernels[] = {{"k", nothing, 0, 0, 3, 0}};
// k(in x: f32[M,N], out s: f32[M,2], inout z: i32[?]), or with |z| only read.
static const slip_object_param_t params_k[] = {{"x", 1, SLIP_DTYPE_F32, 2, {0}, {-2, -3, -1, -1, -1}},
                                               {"s", 2, SLIP_DTYPE_F32, 2, {0}, {-2, 2, -1, -1, -1}},
                                               {"z", 3, SLIP_DTYPE_I32, 1, {0}, {-1, -1, -1, -1, -1}}};
static const slip_object_param_t params_in[] = {{"x", 1, SLIP_DTYPE_F32, 2, {0}, {-2, -3, -1, -1, -1}},
                                                {"s", 2, SLIP_DTYPE_F32, 2, {0}, {-2, 2, -1, -1, -1}},
                                                {"z", 1, SLIP_DTYPE_I32, 1, {0}, {-1, -1, -1, -1, -1}}};
static const slip_object_param_t *const declared[] = {params_k}, *const declared_in[] = {params_in};
static float x_data[64], s_data[64];
static int32_t z_data[64];

typedef struct call_t {
  slip_otensor_t t[3];
  uint32_t access[3];
  uint32_t missing;  // tensor + 1 that is NULL
} call_t;
static call_t right_call(uint32_t z_access) {
  call_t call = {.access = {SLIP_ACCESS_IN, SLIP_ACCESS_OUT_EXISTING, z_access}};
  call.t[0] = graph_test_tensor(x_data, SLIP_DTYPE_F32, 2, (const int64_t[]){3, 4});
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_F32, 2, (const int64_t[]){3, 2});
  call.t[2] = graph_test_tensor(z_data, SLIP_DTYPE_I32, 1, (const int64_t[]){4});
  return call;
}

typedef struct calls_t {
  const call_t *first, *second;  // |first| may be NULL
} calls_t;
static void submit_call(slip_orch_t *o, const call_t *call) {
  call_t copy = *call;
  slip_task_builder_t task;
  slip_task_begin(&task, 0, 1);
  for (uint32_t i = 0; i < 3; ++i) slip_task_tensor(&task, copy.access[i], i + 1 == copy.missing ? NULL : &copy.t[i]);
  slip_task_submit(o, &task);
}
static void submit_calls(slip_orch_t *o, const slip_oargs_t *args) {
  const calls_t *calls = graph_test_user(args);
  if (calls->first) submit_call(o, calls->first);
  if (!slip_orch_failed(o)) submit_call(o, calls->second);
}
static slip_status_t run_calls(graph_test_t *test, calls_t *calls, const slip_object_param_t *const *params, slip__run_site_t *site) {
  slip_object_entry_t entry = {"test", submit_calls, 0, 1};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, 1, params};
  uint64_t scalar = (uint64_t)(uintptr_t)calls;
  slip__run_t run = {.object = &object, .scalars = &scalar, .scalar_count = 1, .site = site};
  return slip__engine_run(test->engine, test->workspace, &run);
}

// One change of a right call.
static void change(call_t *call, uint32_t which, uint32_t tensor) {
  slip_otensor_t *t = &call->t[tensor];
  slip_ktensor_t *view = &t->view;
  int32_t *first = view->data;
  switch (which) {
    case 0:
      view->dtype = SLIP_DTYPE_U32;
      break;
    case 1:
      view->dtype = 200;
      break;
    case 2:
      view->rank = 3;
      break;
    case 3:
      view->rank = 1;
      break;
    case 4:
      view->rank = 0;
      break;
    case 5:
      view->rank = 77;
      break;
    case 6:
      view->dims[0] = 2;
      break;
    case 7:
      view->dims[0] = 0;
      break;
    case 8:
      view->dims[0] = -1;
      break;
    case 9:
      view->dims[0] = INT64_MAX;
      break;
    case 10:
      view->dims[1] = 5;
      break;
    case 11:
      view->strides[0] += 1;
      break;
    case 12:
      view->strides[0] = -view->strides[0];
      break;
    case 13:
      view->strides[0] = 0;
      break;
    case 14:
      view->strides[0] = INT64_MAX / 2;
      break;
    case 15:
      view->strides[1] = 3;
      break;
    case 16:
      call->access[tensor] = 0;
      break;
    case 17:
      call->access[tensor] = SLIP_ACCESS_IN;
      break;
    case 18:
      call->access[tensor] = SLIP_ACCESS_OUT;
      break;
    case 19:
      call->access[tensor] = SLIP_ACCESS_OUT_EXISTING;
      break;
    case 20:
      call->access[tensor] = SLIP_ACCESS_INOUT;
      break;
    case 21:
      call->access[tensor] = SLIP_ACCESS_NO_DEP;
      break;
    case 22:
      call->access[tensor] = 6;
      break;
    case 23:
      call->missing = tensor + 1;
      break;
    case 24:
      t->depth = SLIP_OTENSOR_READ_ONLY;
      break;
    case 25:
      t->generation = 12345;
      break;
    case 26:
      t->generation = 12345, t->depth = 1;
      break;
    case 27:
      t->storage_bytes -= 1;
      break;
    case 28:
      t->storage_bytes = 0;
      break;
    case 29:
      view->data = first + 1;
      break;
    case 30:
      view->data = (char *)first + 1;
      break;
    case 31:
      view->data = (char *)first - 1;
      break;
    case 32:
      view->data = NULL;
      break;
    case 33:
      view->data = NULL, t->storage = NULL, t->storage_bytes = 0;
      break;
    case 34:
      view->data = NULL, view->dims[0] = 0;
      break;
    case 35:
      view->data = first + 1, t->storage_bytes += 4;
      break;
    case 36:
      view->data = first + 1, t->storage = first + 1;
      break;
    case 37:
      t->storage = first + 1;
      break;
    case 38:
      view->data = first + 3 * view->dims[0], view->strides[0] = -1, t->storage_bytes = 4 * (uint64_t)(3 * view->dims[0] + 1);
      break;
    case 39:
      view->data = first + 1, view->strides[0] = -1;
      break;
    case 40:
      t->depth = SLIP_OTENSOR_READ_ONLY, t->generation = 7;
      break;
    case 41:
      view->dims[4] = 9, view->strides[4] = 9;
      break;
    case 42:
      t->storage_bytes = UINT64_MAX;
      break;
    default:
      break;
  }
}
#define CHANGES 44

static void judge(slip_status_t status, char *text, size_t capacity) {
  text[0] = 0;
  if (slip_status_code(status) != SLIP_CODE_OK) (void)slip_status_format(status, text, capacity);
  slip_status_free(status);
}

SLIP_TEST(a_submit_is_judged_the_same_whatever_came_before) {
  static const uint32_t accesses[] = {SLIP_ACCESS_INOUT, SLIP_ACCESS_NO_DEP, SLIP_ACCESS_IN};
  static const slip_object_param_t *const *const tables[] = {NULL, declared, declared_in};
  graph_test_t old = graph_test_open(2, 16, 4096, 16);
  uint32_t refused = 0;
  for (uint32_t table = 0; table < 3; ++table) {
    for (uint32_t a = 0; a < 3; ++a) {
      if (tables[table] == declared && accesses[a] == SLIP_ACCESS_IN) continue;
      const call_t right = right_call(accesses[a]);
      for (uint32_t c = 0; c < CHANGES * CHANGES * 3; ++c) {
        char alone[1024], after[1024];
        call_t wrong = right;
        uint32_t other = c / CHANGES / 3;
        if (other % 11 != c % 11 && other) continue;  // pairs of changes: some
        change(&wrong, c % CHANGES, c / CHANGES % 3);
        if (other) change(&wrong, other, (c + 1) % 3);
        graph_test_t fresh = graph_test_open(1, 16, 4096, 16);
        judge(run_calls(&fresh, &(calls_t){NULL, &wrong}, tables[table], NULL), alone, sizeof(alone));
        graph_test_close(&fresh);
        judge(run_calls(&old, &(calls_t){&right, &wrong}, tables[table], NULL), after, sizeof(after));
        if (strcmp(alone, after) != 0)
          slip_test_fail(__FILE__, __LINE__, "change %u: \"%s\", after a right submit: \"%s\"", c, alone, after);
        refused += alone[0] != 0;
      }
    }
  }
  SLIP_CHECK(refused > 100);
  graph_test_close(&old);
}

// The same address, another object: nothing of the first must be known.
SLIP_TEST(forms_of_one_object_are_unknown_to_the_next) {
  graph_test_t test = graph_test_open(2, 16, 4096, 16);
  const call_t right = right_call(SLIP_ACCESS_INOUT), in = right_call(SLIP_ACCESS_IN);
  slip__run_site_t sites[2] = {{.id = 1}, {.id = 2}};
  for (int round = 0; round < 20; ++round) {
    bool with_site = round % 2;
    slip__run_site_t *first = with_site ? &sites[0] : NULL, *second = with_site ? &sites[1] : NULL;
    SLIP_CHECK_OK(run_calls(&test, &(calls_t){&right, &right}, declared, first));
    SLIP_CHECK_CODE(run_calls(&test, &(calls_t){NULL, &in}, declared, first), SLIP_CODE_GRAPH_INVALID_TASK);
    SLIP_CHECK_OK(run_calls(&test, &(calls_t){&in, &in}, declared_in, second));
    SLIP_CHECK_OK(run_calls(&test, &(calls_t){&in, &right}, NULL, with_site ? &(slip__run_site_t){.id = 3 + (uint64_t)round} : NULL));
    SLIP_CHECK_CODE(run_calls(&test, &(calls_t){NULL, &in}, declared, first), SLIP_CODE_GRAPH_INVALID_TASK);
  }
  graph_test_close(&test);
}

// One tensor as output and as a later argument: there it is judged as it was before the output is made.
static void submit_twice_named(slip_orch_t *o, const slip_oargs_t *args) {
  const bool *warm = graph_test_user(args);
  slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I32, 1, (const int64_t[]){4}), z = right_call(SLIP_ACCESS_IN).t[2];
  for (int i = *warm ? 0 : 1; i < 2; ++i) {
    slip_otensor_t out = made;
    slip_task_builder_t task;
    slip_task_begin(&task, 0, 1);
    slip_task_out(&task, &out);
    slip_task_in(&task, i ? &out : &z);
    slip_task_in(&task, &z);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(an_output_named_twice_is_refused_whatever_came_before) {
  for (int i = 0; i < 2; ++i) {
    bool warm = i == 1;
    graph_test_t test = graph_test_open(1, 16, 4096, 16);
    SLIP_CHECK_ERROR(graph_test_run(&test, kernels, 1, submit_twice_named, NULL, 0, &warm, 0), SLIP_CODE_GRAPH_INVALID_TASK, "data NULL");
    graph_test_close(&test);
  }
}
