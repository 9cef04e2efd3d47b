// SPDX-License-Identifier: Apache-2.0
// Register: one handle per content, counted; what is refused before anything happens.
#include <sched.h>

#include "program_mode/program_world_test.h"
#include "slip_test_artifact.h"

static int32_t slip_callable_register(slip_worker_t *worker, slip_bytes_t image) {
  int32_t id = -1;
  SLIP_CHECK_OK(slip_worker_register(worker, slip_fixture_bytes(image), &id));
  return id;
}

SLIP_PROGRAM_TEST(callable_same_content_same_handle) {
  slip_worker_t *w = world->worker;
  slip_bytes_t add = slip_program_image(slip_fixture_add()), affine = slip_program_image(slip_fixture_affine());
  slip_signature_t *signature = NULL;
  int32_t first = slip_callable_register(w, add), second = slip_callable_register(w, add), other = slip_callable_register(w, affine);
  SLIP_CHECK_EQ(first, second);
  SLIP_CHECK(other != first);
  SLIP_CHECK_EQ(slip_program_stats(w).callables, 2);
  SLIP_CHECK_EQ(slip_program_stats(w).resident_bytes, add.size + affine.size);
  SLIP_CHECK_OK(slip_worker_signature(w, first, &signature));
  SLIP_CHECK_EQ(slip_signature_param_count(signature), 3);
  SLIP_CHECK_OK(slip_worker_unregister(w, first));
  SLIP_CHECK_OK(slip_worker_unregister(w, first));
  SLIP_CHECK_ERROR(slip_worker_unregister(w, first), SLIP_CODE_NOT_PREPARED, "unregistered");
  SLIP_CHECK_EQ(slip_program_stats(w).callables, 1);
  SLIP_CHECK_EQ(slip_program_stats(w).resident_bytes, affine.size);
  SLIP_CHECK_EQ(slip_signature_param_count(signature), 3);  // outlives the callable
  slip_signature_release(signature);
  SLIP_CHECK_CODE(slip_worker_signature(w, first, &signature), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(signature == NULL);
  // Registered again it is another one: a dead handle stays dead.
  int32_t again = slip_callable_register(w, add);
  SLIP_CHECK(again != first && again != other);
  SLIP_CHECK_CODE(slip_worker_unregister(w, first), SLIP_CODE_NOT_PREPARED);
  slip_fixture_free(add);
  slip_fixture_free(affine);
}

SLIP_PROGRAM_TEST(callable_refusals) {
  slip_worker_t *w = world->worker;
  slip_fixture_t fixture = slip_fixture_add();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  int32_t id = 5;
  SLIP_CHECK_ERROR(slip_worker_register(w, slip_fixture_bytes(image), &id), SLIP_CODE_INCOMPATIBLE, "recompile it for program mode");
  SLIP_CHECK_EQ(id, -1);
  image.data[image.size - 1] ^= 1;
  SLIP_CHECK_CODE(slip_worker_register(w, slip_fixture_bytes(image), &id), SLIP_CODE_CORRUPT);
  slip_fixture_free(image);
  SLIP_CHECK_CODE(slip_worker_register(w, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_CORRUPT);
  fixture = slip_fixture_add();
  fixture.image.platform = SLIP_PLATFORM_NULL;
  image = slip_program_image(fixture);
  SLIP_CHECK_ERROR(slip_worker_register(w, slip_fixture_bytes(image), &id), SLIP_CODE_INCOMPATIBLE, "platform");
  slip_fixture_free(image);
  SLIP_CHECK_CODE(slip_worker_unregister(w, -1), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_CODE(slip_worker_unregister(w, 99), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_EQ(slip_program_stats(w).callables, 0);
}

// An object whose names are not those of the image fails while it loads, and leaves nothing.
SLIP_PROGRAM_TEST(callable_of_another_object) {
  slip_fixture_t fixture = slip_fixture_add();
  int32_t id = -1;
  fixture.entry.name = "other";
  slip_bytes_t image = slip_program_image(fixture);
  SLIP_CHECK_CODE(slip_worker_register(world->worker, slip_fixture_bytes(image), &id), SLIP_CODE_CORRUPT);
  SLIP_CHECK_EQ(slip_program_stats(world->worker).resident_bytes, 0);
  slip_fixture_free(image);
}

static void slip_callable_capacity(slip_program_place_e place) {
  slip_program_world_t world;
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  options.max_callables = 1;
  slip_program_world_open(&world, place, &options);
  slip_bytes_t add = slip_program_image(slip_fixture_add()), affine = slip_program_image(slip_fixture_affine());
  int32_t id = slip_callable_register(world.worker, add), other = -1;
  SLIP_CHECK_EQ(slip_callable_register(world.worker, add), id);
  SLIP_CHECK_CODE(slip_worker_register(world.worker, slip_fixture_bytes(affine), &other), SLIP_CODE_CAPACITY_COUNT);
  SLIP_CHECK_OK(slip_worker_unregister(world.worker, id));
  SLIP_CHECK_OK(slip_worker_unregister(world.worker, id));
  (void)slip_callable_register(world.worker, affine);
  slip_fixture_free(add);
  slip_fixture_free(affine);
  slip_program_world_end(&world);
}
SLIP_TEST(program_callable_capacity_cpu) {
  slip_callable_capacity(SLIP_PROGRAM_CPU);
}
SLIP_TEST(program_callable_capacity_sim) {
  slip_callable_capacity(SLIP_PROGRAM_ASCEND);
}

// Kernels that want more scratch than is reserved: register waits for the run that executes.
typedef struct slip_callable_late_t {
  slip_worker_t *worker;
  _Atomic int32_t id;
} slip_callable_late_t;

static void slip_callable_late(void *user) {
  slip_callable_late_t *late = user;
  atomic_store(&late->id, slip_program_register(late->worker, slip_fixture_scratch()));
}

SLIP_PROGRAM_TEST(callable_scratch_waits_for_the_run) {
  slip_program_door_t door;
  slip__thread_t thread = {0};
  slip_callable_late_t late = {.worker = world->worker};
  float x[8], y[8] = {0};
  atomic_store(&late.id, -1);
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip__thread_start(&thread, "late", slip_callable_late, &late));
  for (int i = 0; i < 100; ++i) (void)sched_yield();
  slip_program_let_go(&door);
  slip__thread_join(&thread);
  SLIP_CHECK(atomic_load(&late.id) >= 0);
  slip_program_fill(x, 8, 1, 1);
  slip_tensor_t tx = slip_program_host_f32(x, 8), ty = slip_program_host_f32(y, 8);
  slip_arg_t args[2] = {slip_arg_tensor(&tx, NULL), slip_arg_tensor(&ty, NULL)};
  SLIP_CHECK_OK(slip_worker_run(world->worker, atomic_load(&late.id), args, 2, SLIP_RUN_NONE, NULL));
  slip_program_expect(y, 8, 8, -1);
}

// --- artifacts ---------------------------------------------------------------------------------------------------------------------------

static slip_artifact_t *slip_callable_artifact(const char *name, uint32_t contract, const char *params) {
  slip_bytes_t image;
  slip_fixture_t fixture = slip_fixture_add();
  slip_artifact_t *artifact = NULL;
  slip__artifact_entry_t entry = {.name = "add"};
  fixture.image.contract = contract;
  image = slip_fixture_pack(&fixture);
  SLIP_CHECK_OK(slip_signature_parse(params, strlen(params), slip_allocator_system(), &entry.params));
  SLIP_CHECK_OK(slip_signature_parse(fixture.signature, strlen(fixture.signature), slip_allocator_system(), &entry.lowered_params));
  slip__artifact_image_t images = {fixture.image.target, slip_fixture_bytes(image)};
  slip__artifact_fact_t fact = {"compiler", "none"};
  slip__artifact_desc_t desc = {.name = name,
                                .platform = SLIP_PLATFORM_CPU,
                                .contract = contract,
                                .key = SLIP_TEST_ARTIFACT_KEY,
                                .entries = &entry,
                                .entry_count = 1,
                                .toolchain = &fact,
                                .toolchain_count = 1,
                                .images = &images,
                                .image_count = 1};
  const char *path = slip_test_artifact_path(name);
  SLIP_CHECK_OK(slip__artifact_write(&desc, path, false, slip_allocator_system()));
  SLIP_CHECK_OK(slip_artifact_open(path, NULL, slip_allocator_system(), &artifact));
  slip_signature_release(entry.params);
  slip_signature_release(entry.lowered_params);
  slip_fixture_free(image);
  return artifact;
}

SLIP_PROGRAM_TEST(callable_artifact_binds_by_its_params) {
  slip_worker_t *w = world->worker;
  slip_artifact_t *same = slip_callable_artifact("same", SLIP_CONTRACT_PROGRAM, "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)"),
                  *other = slip_callable_artifact("other", SLIP_CONTRACT_PROGRAM, "(in x: f32[4], y: f32[4], out z: f32[4]) -> (z)"),
                  *kernel = slip_callable_artifact("kernel", SLIP_CONTRACT_KERNEL, "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)");
  int32_t bytes = slip_program_register(w, slip_fixture_add()), id = -1, narrow = -1;
  SLIP_CHECK_OK(slip_worker_register_artifact(w, same, &id));
  SLIP_CHECK_EQ(id, bytes);  // the same content, however it came
  SLIP_CHECK_OK(slip_worker_register_artifact(w, other, &narrow));
  SLIP_CHECK(narrow != id);
  SLIP_CHECK_ERROR(slip_worker_register_artifact(w, kernel, &id), SLIP_CODE_INCOMPATIBLE, "program contract");
  SLIP_CHECK_EQ(id, -1);
  SLIP_CHECK_CODE(slip_worker_register_artifact(w, NULL, &id), SLIP_CODE_INVALID_ARGUMENT);
  slip_artifact_release(same);
  slip_artifact_release(other);
  slip_artifact_release(kernel);
  // The code is there once, and the artifact's own params decide: four elements.
  float x[5], y[5], z[5];
  slip_program_fill(x, 5, 1, 1);
  slip_program_fill(y, 5, 2, 2);
  slip_tensor_t tx = slip_program_host_f32(x, 4), ty = slip_program_host_f32(y, 4), tz = slip_program_host_f32(z, 4),
                wrong = slip_program_host_f32(x, 5);
  slip_arg_t args[3] = {slip_arg_tensor(&tx, NULL), slip_arg_tensor(&ty, NULL), slip_arg_tensor(&tz, NULL)};
  SLIP_CHECK_OK(slip_worker_run(w, narrow, args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(z, 4, 3, 3);
  args[0] = slip_arg_tensor(&wrong, NULL);
  SLIP_CHECK_ERROR(slip_worker_run(w, narrow, args, 3, SLIP_RUN_NONE, NULL), SLIP_CODE_INVALID_ARGUMENT,
                   "parameter 0 'x' (in): dim 0 differs: expected f32[4]");
}
