// SPDX-License-Identifier: Apache-2.0
// Prepare and release: ids, capacities, residency, broken images and objects.
#include "kernel_mode/registry.h"

#include <unistd.h>

#include "artifact/artifact_writer.h"
#include "fixture.h"
#include "kernel_mode/context.h"
#include "kernel_mode/resident.h"
#include "os/thread.h"
#include "slip_test_allocator.h"

static slip_context_t *slip_registry_test_open(const slip_context_options_t *given) {
  slip_context_options_t options = given ? *given : (slip_context_options_t)SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags |= SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  return context;
}

static void slip_registry_test_end(slip_context_t *context) {
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

static slip_context_stats_t slip_registry_test_stats(slip_context_t *context) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(context, &stats));
  return stats;
}

static slip_code_t slip_registry_test_prepare(slip_context_t *context, slip_fixture_t fixture, const char *part) {
  int32_t id = 77;
  slip_bytes_t image = slip_fixture_pack(&fixture);
  slip_status_t status = slip_context_prepare(context, slip_fixture_bytes(image), &id);
  slip_code_t code = slip_status_code(status);
  slip_test_check_status(status, code, part, "prepare", __FILE__, __LINE__);
  if (code != SLIP_CODE_OK) SLIP_CHECK_EQ(id, -1);
  slip_fixture_free(image);
  return code;
}

SLIP_TEST(registry_ids_are_minted_once_and_residency_is_shared) {
  slip_context_t *context = slip_registry_test_open(NULL);
  slip__platform_counters_reset();
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 0);
  uint64_t bytes = slip_registry_test_stats(context).resident_bytes;
  SLIP_CHECK(bytes > 0);
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 1);
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, bytes);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD), 1);
  slip_fixture_t bad = slip_fixture_add();
  bad.object = "bad_magic";
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, bad, "starts with"), SLIP_CODE_CORRUPT);
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_control()), 2);  // a failure costs no id
  SLIP_CHECK_OK(slip_context_release(context, 0));
  SLIP_CHECK_ERROR(slip_context_release(context, 0), SLIP_CODE_NOT_PREPARED, "0");
  SLIP_CHECK_CODE(slip_context_release(context, 3), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_CODE(slip_context_release(context, -1), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_EQ(slip_registry_test_stats(context).callables, 2);
  SLIP_CHECK_OK(slip_context_release(context, 1));
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 3);  // dead ids stay dead
  slip_signature_t *signature = NULL;
  SLIP_CHECK_CODE(slip_context_signature(context, 1, &signature), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(signature == NULL);
  SLIP_CHECK_OK(slip_context_signature(context, 3, &signature));
  SLIP_CHECK_EQ(slip_signature_tensor_count(signature), 3);
  slip_registry_test_end(context);
  slip_signature_release(signature);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_UNLOAD), slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD));
  slip__platform_counters_stop();
}

SLIP_TEST(registry_capacities_are_told_apart) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.max_callables = 2;
  slip_context_t *context = slip_registry_test_open(&options);
  (void)slip_fixture_prepare(context, slip_fixture_add());
  uint64_t bytes = slip_registry_test_stats(context).resident_bytes;
  (void)slip_fixture_prepare(context, slip_fixture_add());
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_add(), "max_callables"), SLIP_CODE_CAPACITY_COUNT);
  SLIP_CHECK_OK(slip_context_release(context, 0));
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 2);
  slip_registry_test_end(context);

  options = (slip_context_options_t)SLIP_CONTEXT_OPTIONS_INIT;
  slip_fixture_t control = slip_fixture_control();
  slip_bytes_t image = slip_fixture_pack(&control);
  options.max_resident_bytes = bytes + image.size - 1;
  slip_fixture_free(image);
  context = slip_registry_test_open(&options);
  (void)slip_fixture_prepare(context, slip_fixture_add());
  (void)slip_fixture_prepare(context, slip_fixture_add());  // shared: costs nothing
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_control(), "max_resident_bytes"), SLIP_CODE_CAPACITY_BYTES);
  SLIP_CHECK_OK(slip_context_release(context, 0));
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_control(), NULL), SLIP_CODE_CAPACITY_BYTES);
  SLIP_CHECK_OK(slip_context_release(context, 1));
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, 0);
  slip_registry_test_end(context);

  options = (slip_context_options_t)SLIP_CONTEXT_OPTIONS_INIT;
  options.max_image_bytes = bytes - 1;
  context = slip_registry_test_open(&options);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_add(), "max_image_bytes"), SLIP_CODE_CAPACITY_IMAGE);
  slip_registry_test_end(context);
}

SLIP_TEST(registry_refuses_images_that_are_not_for_here) {
  slip_context_t *context = slip_registry_test_open(NULL);
  slip_fixture_t f = slip_fixture_add();
  f.image.contract = SLIP_CONTRACT_PROGRAM;
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "program contract"), SLIP_CODE_INCOMPATIBLE);
  f = slip_fixture_add();
  f.image.platform = SLIP_PLATFORM_SIM;
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "sim"), SLIP_CODE_INCOMPATIBLE);
  f = slip_fixture_add();
  f.image.target = "pdp-11";
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "pdp-11"), SLIP_CODE_INCOMPATIBLE);
  SLIP_CHECK_EQ(slip_registry_test_stats(context).callables, 0);
  slip_bytes_t image = slip_fixture_pack(&f);
  int32_t id = 0;
  SLIP_CHECK_CODE(slip_context_prepare(context, (slip_const_bytes_t){image.data, image.size - 1}, &id), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_context_prepare(context, slip_fixture_bytes(image), NULL), SLIP_CODE_INVALID_ARGUMENT);
  image.data[image.size / 2] ^= 1;
  SLIP_CHECK_CODE(slip_context_prepare(context, slip_fixture_bytes(image), &id), SLIP_CODE_CORRUPT);
  slip_fixture_free(image);
  slip_registry_test_end(context);
}

SLIP_TEST(registry_simulator_takes_images_of_the_cpu) {
  slip_platform_t *platform = NULL;
  slip_status_t found = slip_platform_find("sim", &platform);
  bool absent = slip_status_code(found) == SLIP_CODE_NOT_FOUND;
  slip_status_free(found);
  if (absent) slip_test_skip("this build has no platform \"sim\"");
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = "sim";
  slip_context_t *context = slip_registry_test_open(&options);
  slip_fixture_t f = slip_fixture_add();
  SLIP_CHECK_EQ(f.image.platform, SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, NULL), SLIP_CODE_OK);
  f.image.platform = SLIP_PLATFORM_SIM;
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, NULL), SLIP_CODE_OK);
  f.image.platform = SLIP_PLATFORM_NULL;
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "for platform \"null\", but the context is open on \"sim\""),
                SLIP_CODE_INCOMPATIBLE);
  f = slip_fixture_add();
  f.image.target = "pdp-11";
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "pdp-11"), SLIP_CODE_INCOMPATIBLE);
  slip_registry_test_end(context);
}

SLIP_TEST(registry_refuses_objects_that_differ_from_their_image) {
  static const struct {
    const char *object;
    slip_code_t code;
    const char *part;
  } cases[] = {
      {"bad_magic", SLIP_CODE_CORRUPT, "starts with"},      {"bad_abi", SLIP_CODE_INCOMPATIBLE, "ABI 99"},
      {"bad_counts", SLIP_CODE_CORRUPT, "7 kernels"},       {"bad_kernel", SLIP_CODE_CORRUPT, "\"other\""},
      {"bad_symbol", SLIP_CODE_CORRUPT, "does not export"}, {"control", SLIP_CODE_CORRUPT, "entry 0 of the object"},
  };
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.allocator = slip_test_allocator(&memory);
  slip_context_t *context = slip_registry_test_open(&options);
  slip__platform_counters_reset();
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip_fixture_t f = slip_fixture_add();
    f.object = cases[i].object;
    SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, cases[i].part), cases[i].code);
  }
  slip_fixture_t f = slip_fixture_add();
  f.kernel.scratch_bytes = 64;
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, f, "64"), SLIP_CODE_CORRUPT);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_UNLOAD), slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD));
  slip__platform_counters_stop();
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, 0);
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 0);
  slip_registry_test_end(context);
  slip_test_allocator_check_empty(&memory);
}

SLIP_TEST(registry_failed_unload_is_owed_and_told_by_close) {
  slip_context_t *context = slip_registry_test_open(NULL);
  int32_t id = slip_fixture_prepare(context, slip_fixture_add());
  uint64_t bytes = slip_registry_test_stats(context).resident_bytes;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_UNLOAD, 1, true);
  SLIP_CHECK_ERROR(slip_context_release(context, id), SLIP_CODE_DEVICE, "stay resident");
  SLIP_CHECK_CODE(slip_context_release(context, id), SLIP_CODE_NOT_PREPARED);  // the id is dead all the same
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, bytes);
  SLIP_CHECK_EQ(slip_registry_test_stats(context).callables, 0);
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "unloading callables");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
  slip__platform_fault_clear();
  slip_registry_test_end(context);

  context = slip_registry_test_open(NULL);
  id = slip_fixture_prepare(context, slip_fixture_add());
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_UNLOAD, 1, false);
  SLIP_CHECK_CODE(slip_context_release(context, id), SLIP_CODE_DEVICE);
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_context_drain(context));  // tries again
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, 0);
  slip_registry_test_end(context);
}

SLIP_TEST(registry_ids_outlive_their_places) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.max_callables = 2;  // four places
  slip_context_t *context = slip_registry_test_open(&options);
  int32_t kept = slip_fixture_prepare(context, slip_fixture_add()), previous = kept;
  for (int i = 0; i < 40; ++i) {
    int32_t id = slip_fixture_prepare(context, slip_fixture_add());
    SLIP_CHECK(id > previous);
    SLIP_CHECK_OK(slip_context_release(context, id));
    SLIP_CHECK_CODE(slip_context_release(context, previous == kept ? id : previous), SLIP_CODE_NOT_PREPARED);
    previous = id;
  }
  slip_signature_t *signature = NULL;
  SLIP_CHECK_OK(slip_context_signature(context, kept, &signature));
  slip_signature_release(signature);
  slip_registry_test_end(context);
}

typedef struct slip_registry_test_worker_t {
  slip__thread_t thread;
  slip_context_t *context;
  slip_const_bytes_t image;
  int32_t id;
  slip_status_t status;
} slip_registry_test_worker_t;

static void slip_registry_test_worker(void *user) {
  slip_registry_test_worker_t *w = user;
  w->status = slip_context_prepare(w->context, w->image, &w->id);
}

SLIP_TEST(registry_concurrent_prepares_share_one_load) {
  slip_context_t *context = slip_registry_test_open(NULL);
  slip_registry_test_worker_t workers[6] = {0};
  slip_fixture_t fixture = slip_fixture_add();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  uint32_t seen = 0;
  slip__platform_counters_reset();
  for (int i = 0; i < 6; ++i) {
    workers[i] = (slip_registry_test_worker_t){.context = context, .image = slip_fixture_bytes(image)};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "prepare", slip_registry_test_worker, &workers[i]));
  }
  for (int i = 0; i < 6; ++i) {
    slip__thread_join(&workers[i].thread);
    SLIP_CHECK_OK(workers[i].status);
    seen |= 1u << workers[i].id;
  }
  SLIP_CHECK_EQ(seen, 0x3f);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD), 1);
  slip__platform_counters_stop();
  slip_fixture_free(image);
  slip_registry_test_end(context);
}

// Keeps the loader in its failing load until all others wait for its result.
static void slip_registry_test_hold_load(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  slip_context_t *context = user;
  (void)platform;
  (void)code;
  for (uint32_t waiting = 0; call == SLIP__PLATFORM_CALL_MODULE_LOAD && waiting < 6; usleep(200)) {
    pthread_mutex_lock(&context->registry.lock);
    waiting = context->registry.residents->references;
    pthread_mutex_unlock(&context->registry.lock);
  }
}

SLIP_TEST(registry_concurrent_prepares_share_one_failure) {
  slip_context_t *context = slip_registry_test_open(NULL);
  slip_registry_test_worker_t workers[6] = {0};
  slip_fixture_t fixture = slip_fixture_add();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  slip__platform_counters_reset();
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_LOAD, 1, false);  // a second load would succeed
  slip__platform_log_set(slip_registry_test_hold_load, context);
  for (int i = 0; i < 6; ++i) {
    workers[i] = (slip_registry_test_worker_t){.context = context, .image = slip_fixture_bytes(image)};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "prepare", slip_registry_test_worker, &workers[i]));
  }
  for (int i = 0; i < 6; ++i) {
    slip__thread_join(&workers[i].thread);
    SLIP_CHECK_ERROR(workers[i].status, SLIP_CODE_OUT_OF_MEMORY, "fails on request");
    SLIP_CHECK_EQ(workers[i].id, -1);
  }
  slip__platform_log_set(NULL, NULL);
  slip__platform_fault_clear();
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD), 1);
  slip__platform_counters_stop();
  SLIP_CHECK_EQ(slip_registry_test_stats(context).resident_bytes, 0);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_add(), NULL), SLIP_CODE_OK);
  slip_fixture_free(image);
  slip_registry_test_end(context);
}

static void slip_registry_test_write_artifact(const char *path, uint32_t contract) {
  slip_fixture_t fixture = slip_fixture_add();
  slip_signature_t *signature = NULL;
  fixture.image.contract = contract;
  slip_bytes_t image = slip_fixture_pack(&fixture);
  SLIP_CHECK_OK(slip_signature_parse(fixture.signature, strlen(fixture.signature), slip_allocator_system(), &signature));
  slip__artifact_entry_t entry = {"add", signature, signature};
  slip__artifact_fact_t fact = {"compiler", "none"};
  slip__artifact_image_t target = {fixture.image.target, slip_fixture_bytes(image)};
  slip__artifact_desc_t desc = {.name = "add",
                                .platform = SLIP_PLATFORM_CPU,
                                .contract = contract,
                                .key = "00112233445566778899aabbccddeeff",
                                .entries = &entry,
                                .entry_count = 1,
                                .toolchain = &fact,
                                .toolchain_count = 1,
                                .images = &target,
                                .image_count = 1};
  SLIP_CHECK_OK(slip__artifact_write(&desc, path, false, slip_allocator_system()));
  slip_signature_release(signature);
  slip_fixture_free(image);
}

SLIP_TEST(registry_prepares_artifacts_of_the_kernel_contract) {
  slip_context_t *context = slip_registry_test_open(NULL);
  slip_artifact_t *artifact = NULL;
  char path[256];
  int32_t id = 7;
  SLIP_CHECK_CODE(slip_context_prepare_artifact(context, NULL, &id), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(id, -1);
  (void)snprintf(path, sizeof(path), "%s/kernel.slipc", slip_test_temporary_directory());
  slip_registry_test_write_artifact(path, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_OK(slip_artifact_open(path, NULL, slip_allocator_system(), &artifact));
  SLIP_CHECK_CODE(slip_context_prepare_artifact(context, artifact, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_context_prepare_artifact(context, artifact, &id));
  SLIP_CHECK_EQ(id, 0);
  slip_artifact_release(artifact);  // the context keeps what it needs
  float x[2] = {1, 2}, y[2] = {10, 20}, z[2] = {0};
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, context, id, x, y, z, 2);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL));
  slip_frame_deinitialize(&frame);
  SLIP_CHECK(z[0] == 11 && z[1] == 22);
  (void)snprintf(path, sizeof(path), "%s/program.slipc", slip_test_temporary_directory());
  slip_registry_test_write_artifact(path, SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_OK(slip_artifact_open(path, NULL, slip_allocator_system(), &artifact));
  SLIP_CHECK_ERROR(slip_context_prepare_artifact(context, artifact, &id), SLIP_CODE_INCOMPATIBLE, "program contract");
  SLIP_CHECK_EQ(id, -1);
  slip_registry_test_end(context);
  SLIP_CHECK_CODE(slip_context_prepare_artifact(NULL, artifact, &id), SLIP_CODE_INVALID_ARGUMENT);
  slip_artifact_release(artifact);
}

SLIP_TEST(registry_scratch_grows_at_prepare) {
  slip_context_t *context = slip_registry_test_open(NULL);
  int32_t id = slip_fixture_prepare(context, slip_fixture_scratch());
  float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
  slip_device_t device = slip_context_device(context);
  slip_tensor_t tx = slip_fixture_tensor(SLIP_DTYPE_F32, x, 5, device), ty = slip_fixture_tensor(SLIP_DTYPE_F32, y, 5, device);
  slip_arg_t args[2] = {slip_arg_tensor(&tx, NULL), slip_arg_tensor(&ty, NULL)};
  slip_signature_t *signature = NULL;
  slip_frame_t frame = {0};
  SLIP_CHECK_OK(slip_context_signature(context, id, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, NULL, device, args, 2, 0));
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL));
  for (int i = 0; i < 5; ++i) SLIP_CHECK(y[i] == x[4 - i]);
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
  slip_registry_test_end(context);
}

SLIP_TEST(registry_scratch_growth_while_running_is_busy) {
  slip_context_t *context = slip_registry_test_open(NULL);
  SLIP_CHECK_EQ(slip__slot_acquire(context, false), 0);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_scratch(), "drain the context"), SLIP_CODE_BUSY);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_add(), NULL), SLIP_CODE_OK);
  slip__slot_release(context, 0);
  SLIP_CHECK_EQ(slip_registry_test_prepare(context, slip_fixture_scratch(), NULL), SLIP_CODE_OK);
  slip_registry_test_end(context);
}

static slip_status_t slip_registry_test_cycle(slip_allocator_t allocator, void *user) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  int32_t id = -1;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.allocator = allocator;
  SLIP_RETURN_IF_ERROR(slip_context_open(&options, &context));
  slip_status_t status = slip_context_prepare(context, *(slip_const_bytes_t *)user, &id);
  SLIP_CHECK(slip_status_is_ok(status) ? id == 0 : id == -1);
  if (slip_status_is_ok(status)) status = slip_context_release(context, id);
  status = slip_status_join(status, slip_context_close(context));
  return slip_status_join(status, slip_context_destroy(context));
}

SLIP_TEST(registry_prepare_survives_every_failing_allocation) {
  slip_fixture_t fixture = slip_fixture_control();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  slip_const_bytes_t bytes = slip_fixture_bytes(image);
  SLIP_CHECK(slip_test_allocator_loop(slip_registry_test_cycle, &bytes) > 10);
  slip_fixture_free(image);
}
