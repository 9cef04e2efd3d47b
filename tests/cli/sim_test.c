// SPDX-License-Identifier: Apache-2.0
// `slip run --platform sim`: the same bytes as on the cpu, and an exit that tells what a program did wrong.
#include <stdlib.h>
#include <unistd.h>

#include "cli_support.h"
#include "slipstream/signature.h"

static void need_simulator(void) {
  bool found = false;
  size_t i;
  const json_t *platform;
  json_t *document = SLIP_JSON(0, "doctor");
  json_array_foreach(json_object_get(document, "platforms"), i, platform) {
    found = found || strcmp(json_string_value(json_object_get(platform, "name")), "sim") == 0;
  }
  json_decref(document);
  if (!found) slip_test_skip("this build has no platform \"sim\"");
}

static void make_axpy(void) {
  static float x[5000], y[5000];
  uint64_t seed = slip_test_seed();
  for (size_t i = 0; i < 5000; ++i) {
    x[i] = (float)(int32_t)slip_test_random(&seed) * 1e-5f;
    y[i] = (float)(int32_t)slip_test_random(&seed) * 1e-5f;
  }
  write_floats("x.npy", x, 5000);
  write_floats("y.npy", y, 5000);
  SLIP(0, NULL, "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc");
}

#define AXPY "run", "a.slipc", "-a", "x=@x.npy", "-a", "y=@y.npy", "-a", "a=1.25", "-o", "y=@out.npy"

static void check_same(const char *one, const char *other) {
  static uint8_t files[2][1 << 20];
  size_t size = read_file(one, files[0], sizeof(files[0]));
  SLIP_CHECK(size > 0);
  SLIP_CHECK_EQ(read_file(other, files[1], sizeof(files[1])), size);
  SLIP_CHECK(memcmp(files[0], files[1], size) == 0);
  SLIP_CHECK_EQ(unlink(in_test(other)), 0);
}

SLIP_TEST_TIMEOUT(sim_gives_the_bytes_of_the_cpu, 300) {
  static const char *const flavours[] = {"cuda", "ascend"};
  need_simulator();
  make_axpy();
  SLIP(0, NULL, AXPY);
  SLIP_CHECK_EQ(rename(in_test("out.npy"), in_test("cpu.npy")), 0);
  for (size_t i = 0; i < 2; ++i) {
    SLIP_CHECK_EQ(setenv("SLIP_SIM_FLAVOUR", flavours[i], 1), 0);
    SLIP(0, "axpy on sim:0", AXPY, "--platform", "sim");
    check_same("cpu.npy", "out.npy");
    SLIP(0, "axpy on sim:1", AXPY, "--platform", "sim", "--device", "1", "--stream", "async", "--threads", "2");
    check_same("cpu.npy", "out.npy");
  }
}

SLIP_TEST_TIMEOUT(sim_captures_and_replays, 300) {
  static const char *const flavours[] = {"cuda", "ascend"};
  need_simulator();
  make_axpy();
  SLIP(0, NULL, AXPY, "--capture", "4");
  SLIP_CHECK_EQ(rename(in_test("out.npy"), in_test("cpu.npy")), 0);
  for (size_t i = 0; i < 2; ++i) {
    SLIP_CHECK_EQ(setenv("SLIP_SIM_FLAVOUR", flavours[i], 1), 0);
    SLIP(0, "first replay", AXPY, "--platform", "sim", "--capture", "4", "--bench", "3");
    check_same("cpu.npy", "out.npy");
  }
  json_t *document = SLIP_JSON(0, AXPY, "--platform", "sim", "--capture", "2");
  SLIP_CHECK_EQ(json_array_size(json_object_get(document, "findings")), 0);
  SLIP_CHECK_STR(json_string_value(json_object_get(document, "platform")), "sim");
  json_decref(document);
}

SLIP_TEST_TIMEOUT(sim_refuses_what_it_has_not, 120) {
  need_simulator();
  make_axpy();
  SLIP(1, "UNSUPPORTED: --stream inline: platform \"sim\" runs launches on streams only", AXPY, "--platform", "sim", "--stream", "inline");
  SLIP(1, "--device 2: platform \"sim\" has devices 0 to 1", AXPY, "--platform", "sim", "--device", "2");
  SLIP_CHECK_EQ(setenv("SLIP_SIM_DEVICES", "3", 1), 0);
  SLIP(0, "axpy on sim:2", AXPY, "--platform", "sim", "--device", "2");
  SLIP(0, "SLIP_SIM_DEVICES=3  virtual devices", "doctor");
  SLIP_CHECK_EQ(setenv("SLIP_SIM_DEVICES", "99", 1), 0);
  SLIP(1, "SLIP_SIM_DEVICES is \"99\"", AXPY, "--platform", "sim");
  SLIP(0, "SLIP_SIM_DEVICES is \"99\"", "doctor");
  SLIP_CHECK_EQ(unsetenv("SLIP_SIM_DEVICES"), 0);
  SLIP_CHECK_EQ(setenv("SLIP_SIM_MEMORY", "8192", 1), 0);
  SLIP(1, "OUT_OF_MEMORY", AXPY, "--platform", "sim");
}

SLIP_TEST_TIMEOUT(sim_finds_what_a_kernel_must_not_do, 120) {
  static const char *const kinds[] = {"kind=1", "kind=2", "kind=3"};
  static const float x[3] = {2, 3, 4};
  need_simulator();
  write_floats("x.npy", x, 3);
  SLIP(0, NULL, "compile", in_source("tests/cli/rogue.json"), "-o", "r.slipc");
  SLIP(0, "= 2 3 4", "run", "r.slipc", "-a", "x=@x.npy", "-a", "kind=0", "--platform", "sim");
  for (size_t i = 0; i < 3; ++i) {
    SLIP(1, "sim: ", "run", "r.slipc", "-a", "x=@x.npy", "-a", kinds[i], "--platform", "sim");
    SLIP(1, "wrong; the first: ", "run", "r.slipc", "-a", "x=@x.npy", "-a", kinds[i], "--platform", "sim", "--capture", "2");
    json_t *document = SLIP_JSON(1, "run", "r.slipc", "-a", "x=@x.npy", "-a", kinds[i], "--platform", "sim");
    SLIP_CHECK(json_array_size(json_object_get(document, "findings")) >= 1);
    SLIP_CHECK_STR(json_string_value(json_object_get(json_object_get(document, "error"), "code")), "DEVICE");
    json_decref(document);
  }
}

// --- the encoder -------------------------------------------------------------------------------------------------------------------------

#define VOCABULARY 300

// The entry's signature, from the manifest.
static slip_signature_t *encoder_signature(void) {
  json_error_t error;
  slip_signature_t *signature = NULL;
  json_t *manifest = json_load_file(in_source("examples/minilm/minilm.json"), 0, &error);
  const char *text = json_string_value(json_object_get(json_object_get(manifest, "entry"), "signature"));
  SLIP_CHECK(text != NULL);
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  json_decref(manifest);
  return signature;
}

static size_t weight_floats(const slip_param_t *param) {
  size_t floats = 1;
  for (uint8_t d = 0; d < param->rank; ++d) floats *= param->dims[d] == SLIP_DIM_DYNAMIC ? VOCABULARY : (size_t)param->dims[d];
  return floats;
}

// Small random weights for every f32 input: the bytes must agree, whatever they mean.
static void make_weights(const char *name) {
  static char header[1 << 16];
  static float values[1536 * 384];
  size_t used = 0, end = 0;
  uint64_t seed = slip_test_seed(), length;
  slip_signature_t *signature = encoder_signature();
  for (int pass = 0; pass < 2; ++pass) {
    FILE *file = pass ? fopen(in_test(name), "wb") : NULL;
    SLIP_CHECK(!pass || file);
    while (pass && (used + 1) % 8 != 0) header[used++] = ' ';
    if (pass) header[used++] = '}';
    length = used;
    if (pass) SLIP_CHECK(fwrite(&length, 8, 1, file) == 1 && fwrite(header, 1, used, file) == used);
    for (size_t i = 0; i < slip_signature_param_count(signature); ++i) {
      const slip_param_t *param = slip_signature_param(signature, i);
      if (param->direction != SLIP_DIRECTION_IN || param->dtype != SLIP_DTYPE_F32) continue;
      size_t floats = weight_floats(param);
      SLIP_CHECK(floats <= sizeof(values) / sizeof(values[0]) && used + 512 < sizeof(header));
      if (!pass) {
        long long rows = param->dims[0] == SLIP_DIM_DYNAMIC ? VOCABULARY : (long long)param->dims[0];
        char columns[32] = "";
        if (param->rank == 2) snprintf(columns, sizeof(columns), ",%lld", (long long)param->dims[1]);
        used += (size_t)snprintf(header + used, sizeof(header) - used,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld%s],\"data_offsets\":[%zu,%zu]}", end ? "," : "{", param->name,
                                 rows, columns, end, end + 4 * floats);
        end += 4 * floats;
        continue;
      }
      for (size_t k = 0; k < floats; ++k) values[k] = (float)(int32_t)slip_test_random(&seed) * 0x1p-35f;
      SLIP_CHECK_EQ(fwrite(values, 4, floats, file), floats);
    }
    if (pass) SLIP_CHECK_EQ(fclose(file), 0);
  }
  slip_signature_release(signature);
}

// Two sentences of 16 places, one of them shorter.
static void make_tokens(void) {
  int32_t ids[32], mask[32];
  for (int i = 0; i < 32; ++i) {
    ids[i] = (i * 37 + 11) % VOCABULARY;
    mask[i] = i < 16 || i < 25;
  }
  write_npy("ids.npy", "<i4", "(2, 16)", ids, sizeof(ids));
  write_npy("mask.npy", "<i4", "(2, 16)", mask, sizeof(mask));
}

#define ENCODE "run", "m.slipc", "-w", "w.safetensors", "-a", "ids=@ids.npy", "-a", "mask=@mask.npy", "-o", "embedding=@out.npy"

SLIP_TEST_TIMEOUT(sim_runs_the_encoder_to_the_bytes_of_the_cpu, 600) {
  need_simulator();
  json_t *document = SLIP_JSON(0, "doctor");
  const json_t *cpu = json_array_get(json_object_get(document, "platforms"), 0);
  const char *target = json_string_value(json_object_get(json_array_get(json_object_get(cpu, "devices"), 0), "target"));
  SLIP(0, NULL, "compile", in_source("examples/minilm/minilm.json"), "-o", "m.slipc", "--target", target);
  json_decref(document);
  make_weights("w.safetensors");
  make_tokens();
  SLIP(0, NULL, ENCODE);
  SLIP_CHECK_EQ(rename(in_test("out.npy"), in_test("cpu.npy")), 0);
  SLIP(0, "minilm on sim:0", ENCODE, "--platform", "sim");
  check_same("cpu.npy", "out.npy");
  SLIP(0, "first replay", ENCODE, "--platform", "sim", "--device", "1", "--capture", "3", "--threads", "1");
  check_same("cpu.npy", "out.npy");
}
