// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include "cli_support.h"

// The artifact k.slipc of kinds.json and good inputs: x.npy, w.npy (3 floats), s.npy (two integers).
static void make_kinds(void) {
  static const float x[3] = {2, 3, 4}, w[3] = {5, 6, 7};
  static const int32_t s[2] = {10, 20};
  SLIP(0, NULL, "compile", in_source("tests/cli/kinds.json"), "-o", "k.slipc");
  write_floats("x.npy", x, 3);
  write_floats("w.npy", w, 3);
  write_npy("s.npy", "<i4", "(2,)", s, sizeof(s));
}

#define ARGS_TENSORS "--arg", "x=@x.npy", "--arg", "layer_0_w=@w.npy", "--arg", "s=@s.npy"
#define ARGS_SCALARS "--arg", "k=-3", "--arg", "e=0.5", "--arg", "flag=false"
#define GOOD         "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=4"

static float float_at(const char *file, size_t index) {
  uint8_t bytes[4096];
  float value = 0;
  size_t size = read_file(file, bytes, sizeof(bytes));
  size_t start = 10 + (size_t)bytes[8] + ((size_t)bytes[9] << 8);
  SLIP_CHECK(start + (index + 1) * 4 <= size);
  memcpy(&value, bytes + start + index * 4, 4);
  return value;
}

SLIP_TEST_TIMEOUT(run_computes_and_writes, 120) {
  make_kinds();
  SLIP(0, "y: f32[4] -> y.npy", GOOD, "--out", "y=@y.npy", "--out", "s=@t.npy");
  for (size_t i = 0; i < 4; ++i) SLIP_CHECK(float_at("y.npy", i) == 7.5f);
  int32_t counted[2];
  float raw[2] = {float_at("t.npy", 0), float_at("t.npy", 1)};
  memcpy(counted, raw, sizeof(counted));
  SLIP_CHECK_EQ(counted[0], 11);
  SLIP_CHECK_EQ(counted[1], 22);
  SLIP_CHECK_EQ(count_files("npy"), 5);  // no temporary file is left
  SLIP(0, "y: f32[4] = 7.5 7.5 7.5 7.5", GOOD);
  SLIP(0, "median", GOOD, "--bench", "50", "--threads", "1");
  json_t *document = SLIP_JSON(0, GOOD, "--bench", "10", "--threads", "2");
  SLIP_CHECK_EQ(json_integer_value(json_object_get(json_object_get(document, "bench"), "count")), 10);
  SLIP_CHECK_EQ(json_array_size(json_object_get(document, "outputs")), 2);
  json_decref(document);
}

SLIP_TEST_TIMEOUT(run_inline_and_async_write_the_same_bytes, 120) {
  static float x[20000], y[20000];
  uint64_t seed = slip_test_seed();
  for (size_t i = 0; i < 20000; ++i) {
    x[i] = (float)(int32_t)slip_test_random(&seed) * 1e-5f;
    y[i] = (float)(int32_t)slip_test_random(&seed) * 1e-5f;
  }
  write_floats("x.npy", x, 20000);
  write_floats("y.npy", y, 20000);
  SLIP(0, NULL, "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc");
  SLIP(0, "inline", "run", "a.slipc", "-a", "x=@x.npy", "-a", "y=@y.npy", "-a", "a=1.25", "-o", "y=@i.npy", "--stream", "inline");
  SLIP(0, "async", "run", "a.slipc", "-a", "x=@x.npy", "-a", "y=@y.npy", "-a", "a=1.25", "-o", "y=@s.npy", "--stream", "async");
  static uint8_t files[2][100000];
  size_t size = read_file("i.npy", files[0], sizeof(files[0]));
  SLIP_CHECK(size > 80000);
  SLIP_CHECK_EQ(read_file("s.npy", files[1], sizeof(files[1])), size);
  SLIP_CHECK(memcmp(files[0], files[1], size) == 0);
  float first = 0;
  memcpy(&first, files[0] + size - 80000, 4);
  SLIP_CHECK(first != y[0]);  // something was computed
}

SLIP_TEST_TIMEOUT(run_tensors_of_every_kind_travel_through_the_stream, 120) {
  static const char *const streams[] = {"inline", "async"};
  uint8_t files[2][2][4096];
  size_t sizes[2][2];
  make_kinds();
  for (size_t i = 0; i < 2; ++i) {
    SLIP(0, "on cpu:0", GOOD, "--stream", streams[i], "--device", "0", "--out", "y=@y.npy", "--out", "s=@t.npy", "--bench", "3");
    sizes[i][0] = read_file("y.npy", files[i][0], 4096);
    sizes[i][1] = read_file("t.npy", files[i][1], 4096);
  }
  for (size_t k = 0; k < 2; ++k) {
    SLIP_CHECK_EQ(sizes[1][k], sizes[0][k]);
    SLIP_CHECK(memcmp(files[0][k], files[1][k], sizes[0][k]) == 0);
  }
  SLIP(0, "y: f32[0] is empty", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=0", "--stream", "async");
  SLIP(0, "y: f32[4] = 7.5 7.5 7.5 7.5", GOOD, "--stream", "async", "--skip-build-check");
}

// The state's elements grow by 1 and 2 with each run.
static void check_state(const char *file, int32_t runs) {
  float raw[2] = {float_at(file, 0), float_at(file, 1)};
  int32_t state[2];
  memcpy(state, raw, sizeof(state));
  SLIP_CHECK_EQ(state[0], 10 + runs);
  SLIP_CHECK_EQ(state[1], 20 + 2 * runs);
}

SLIP_TEST_TIMEOUT(run_captured_replays, 120) {
  static const char *const streams[] = {"inline", "async"};
  make_kinds();
  for (size_t i = 0; i < 2; ++i) {
    SLIP(0, "first replay", GOOD, "--stream", streams[i], "--capture", "1", "--out", "s=@t.npy", "--out", "y=@y.npy");
    check_state("t.npy", 1);
    for (size_t k = 0; k < 4; ++k) SLIP_CHECK(float_at("y.npy", k) == 7.5f);
    SLIP(0, "bench: 7 launches", GOOD, "--stream", streams[i], "--capture", "5", "--out", "s=@t.npy", "--bench", "7");
    check_state("t.npy", 5);
    SLIP(0, "first launch", GOOD, "--stream", streams[i], "--capture", "0", "--out", "s=@t.npy");
    check_state("t.npy", 1);
  }
  json_t *document = SLIP_JSON(0, GOOD, "--capture", "2");
  SLIP_CHECK_EQ(json_integer_value(json_object_get(document, "replays")), 2);
  json_decref(document);
  SLIP(1, "--capture: '10000001' is no integer in 0..10000000", GOOD, "--capture", "10000001");
}

SLIP_TEST_TIMEOUT(run_refuses_devices_and_streams_that_are_not_there, 120) {
  make_kinds();
  SLIP(1, "--device 1: platform \"cpu\" has devices 0 to 0", GOOD, "--device", "1");
  SLIP(1, "--device: '32768' is no integer in 0..32767", GOOD, "--device", "32768");
  SLIP(1, "UNSUPPORTED: --stream inline: platform \"null\" runs launches on streams only", GOOD, "--platform", "null", "--stream",
       "inline");
  SLIP(1, "UNSUPPORTED: the null platform cannot", GOOD, "--platform", "null");
}

SLIP_TEST_TIMEOUT(run_submits_must_fit_the_manifest, 120) {
  static const float x[3] = {2, 3, 4};
  write_floats("x.npy", x, 3);
  SLIP(0, NULL, "compile", in_source("tests/cli/mistakes.json"), "-o", "m.slipc");
  SLIP(0, "= 2 3 4", "run", "m.slipc", "-a", "x=@x.npy", "-a", "kind=0");
  SLIP(1, "tensor 0 was given with access OUT_EXISTING, but the kernel declares 'x' as in", "run", "m.slipc", "-a", "x=@x.npy", "-a",
       "kind=1");
  SLIP(1, "tensor 1 has dtype i32 and rank 1, but the kernel declares 'y' with dtype f32 and rank 1; task of kernel 0 (copy)", "run",
       "m.slipc", "-a", "x=@x.npy", "-a", "kind=2");
  SLIP(1, "dimension 0 of tensor 1 is 2, but 'y' must have 3 there, as an earlier tensor with the same symbol", "run", "m.slipc", "-a",
       "x=@x.npy", "-a", "kind=3");
  SLIP(1, "tensor 1 would be written, but it is a parameter that the entry declares as in", "run", "m.slipc", "-a", "x=@x.npy", "-a",
       "kind=4", "--stream", "async");
  SLIP(1, "mistakes.c:34: slice of 3 elements from 1 leaves dimension 0, which has 3", "run", "m.slipc", "-a", "x=@x.npy", "-a", "kind=5",
       "--stream", "async");
}

SLIP_TEST_TIMEOUT(run_names_the_cause_not_a_consequence, 120) {
  static const float x[3] = {2, 3, 4};
  SLIP(0, NULL, "compile", in_source("tests/cli/mistakes.json"), "-o", "m.slipc");
  write_npy("square.npy", "<f4", "(1, 3)", x, sizeof(x));
  SLIP(1, "argument 'x' is f32[N], of rank 1, but its file holds an array of rank 2", "run", "m.slipc", "-a", "x=@square.npy", "-a",
       "kind=0");
  write_npy("empty.npy", "<f4", "(0,)", x, 0);
  SLIP(0, "y: f32[0] is empty", "run", "m.slipc", "-a", "x=@empty.npy", "-a", "kind=0");
  SLIP(1, "run takes an artifact, the directory that slip compile makes", "run", in_source("tests/cli/mistakes.json"));
  SLIP(1, "the directory \".\" is no artifact", "run", ".");
  SLIP(1, "neither an artifact directory nor a callable image", "inspect", in_source("tests/cli/mistakes.json"));
}

SLIP_TEST_TIMEOUT(run_weights_fill_by_name, 120) {
  static const float data[3] = {5, 6, 7};
  make_kinds();
  write_safetensors("w.safetensors", "{\"layer.0.w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", data, 12);
  SLIP(0, "= 7.5", "run", "k.slipc", "--arg", "x=@x.npy", "--arg", "s=@s.npy", ARGS_SCALARS, "--dim", "M=1", "--weights", "w.safetensors");
  SLIP(0, "= 7.5", "run", "k.slipc", "--arg", "x=@x.npy", "--arg", "s=@s.npy", ARGS_SCALARS, "--dim", "M=1", "--arg",
       "layer_0_w=@w.safetensors:layer.0.w");
  SLIP(1, "has no tensor 'none'", "run", "k.slipc", "--arg", "layer_0_w=@w.safetensors:none");
  SLIP(1, "has no tensor 'layer_0_w'", "run", "k.slipc", "--arg", "layer_0_w=@w.safetensors");
  SLIP(1, "1 argument is missing: 'layer_0_w'", "run", "k.slipc", "--arg", "x=@x.npy", "--arg", "s=@s.npy", ARGS_SCALARS, "--dim", "M=1");
  SLIP(1, "takes a .safetensors file", "run", "k.slipc", "--weights", "x.npy");
  write_safetensors("w.safetensors", "{\"layer.0.w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", data, 11);
  SLIP(1, "CORRUPT: tensor 'layer.0.w' ends at byte 12 of the data, the file has 11: it is cut short", "run", "k.slipc", "--weights",
       "w.safetensors");
  write_safetensors("w.safetensors",
                    "{\"layer.0.w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"layer_0.w\":{\"dtype\":\"F32\",\"shape\":["
                    "0],\"data_offsets\":[12,12]}}",
                    data, 12);
  SLIP(1, "several weights fit", "run", "k.slipc", "--weights", "w.safetensors");
}

SLIP_TEST_TIMEOUT(run_refuses_wrong_arguments, 120) {
  make_kinds();
  SLIP(1, "has no parameter 'z'", GOOD, "--arg", "z=1");
  SLIP(1, "argument 'k' is given twice", GOOD, "--arg", "k=1");
  SLIP(1, "--out x: the parameter is in, not an output", GOOD, "--out", "x=@x2.npy");
  SLIP(1, "has no parameter 'q'", GOOD, "--out", "q=@q.npy");
  SLIP(1, "--out y is given twice", GOOD, "--out", "y=@1.npy", "--out", "y=@2.npy");
  SLIP(1, "3 arguments are missing: 'k', 'e', 'flag'", "run", "k.slipc", ARGS_TENSORS, "--dim", "M=4");
  SLIP(1, "argument 'x' is a tensor (in f32[N])", "run", "k.slipc", "--arg", "x=3");
  SLIP(1, "argument 'k' is a scalar", "run", "k.slipc", "--arg", "k=@x.npy");
  SLIP(1, "no input fixes its dimension M; give --dim M=VALUE", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS);
  SLIP(1, "has no dimension 'Q' (--dim); its dimensions are: 'N', 'M'", GOOD, "--dim", "Q=1");
  SLIP(1, "--dim N=4 contradicts x, which makes it 3", GOOD, "--dim", "N=4");
  SLIP(1, "--dim M=5 contradicts --dim", GOOD, "--dim", "M=5");
  SLIP(1, "'-1' is no integer", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=-1");
  SLIP(1, "'9223372036854775808' is no integer", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=9223372036854775808");
  SLIP(1, "more than 2^63-1 bytes", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=9223372036854775807");
  SLIP(1, "OUT_OF_MEMORY", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=1000000000000000000");
  SLIP(1, "--bench: '99999999999999999999' is no integer", GOOD, "--bench", "99999999999999999999");
  json_t *document = SLIP_JSON(1, GOOD, "--arg", "z=1");
  SLIP_CHECK_STR(json_string_value(json_object_get(json_object_get(document, "error"), "code")), "INVALID_ARGUMENT");
  json_decref(document);
}

SLIP_TEST_TIMEOUT(run_refuses_wrong_scalars, 120) {
  static const char *const bad[] = {"k=3.0",  "k=2147483648", "k=-2147483649", "k=1e2", "k=99999999999999999999999",
                                    "k=x",    "k=nan",        "e=1e39",        "e=x",   "e=1.5f",
                                    "flag=2", "flag=maybe",   "k= 1",          "k=1 "};
  static const char *const good[] = {"k=-2147483648", "k=0x10", "e=nan", "e=inf", "e=-1e-45", "e=3", "flag=1", "flag=true"};
  make_kinds();
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    const char *output = SLIP(1, "INVALID_ARGUMENT", "run", "k.slipc", "--arg", bad[i]);
    if (strstr(output, "missing")) slip_test_fail(__FILE__, __LINE__, "%s was taken", bad[i]);
  }
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); ++i) SLIP(1, "arguments are missing", "run", "k.slipc", "--arg", good[i]);
}

// |file| as argument x, everything else good.
static void check_x(const char *file, const char *part) {
  char arg[64];
  snprintf(arg, sizeof(arg), "x=@%s", file);
  SLIP(1, part, "run", "k.slipc", "--arg", arg, "--arg", "layer_0_w=@w.npy", "--arg", "s=@s.npy", ARGS_SCALARS, "--dim", "M=4");
}

SLIP_TEST_TIMEOUT(run_refuses_wrong_files, 120) {
  static const double eight[8] = {0};
  make_kinds();
  check_x("none.npy", "NOT_FOUND: cannot open \"none.npy\"");
  check_x(".", "is a directory");
  check_x("/dev/null", "not a regular file");
  write_file("empty.npy", "", 0);
  check_x("empty.npy", "not a .npy file");
  write_npy("d.npy", "<f8", "(3,)", eight, 24);
  check_x("d.npy", "f64");
  write_npy("d.npy", "<f4", "(3, 1)", eight, 12);
  check_x("d.npy", "rank");
  write_npy("d.npy", "<f4", "(4,)", eight, 16);
  check_x("d.npy", "N");
  write_npy("d.npy", "<f4", "(4,)", eight, 12);
  check_x("d.npy", "CORRUPT: the .npy header promises 16 bytes of data, the file has 12");
  write_npy("d.npy", "<f4", "(4611686018427387905,)", eight, 4);
  check_x("d.npy", "2^63-1");
  write_npy("d.npy", "<f4", "(9223372036854775808,)", eight, 4);
  check_x("d.npy", "CORRUPT");
  write_npy("d.npy", "<V2", "(3,)", eight, 6);
  check_x("d.npy", "bf16");
  write_npy("d.npy", ">f4", "(3,)", eight, 12);
  check_x("d.npy", "big-endian");
  write_safetensors("d.safetensors", "{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"x\":{}}", eight, 12);
  check_x("d.safetensors", "duplicate");
}

SLIP_TEST_TIMEOUT(run_refuses_wrong_artifacts, 120) {
  make_kinds();
  SLIP(1, "NOT_FOUND", "run", "none.slipc");
  SLIP(1, NULL, "run", "x.npy");
  SLIP(1, NULL, "run", ".");
  SLIP(1, "none-target", "run", "k.slipc", "--target", "none-target");
  SLIP(1, "no-platform", GOOD, "--platform", "no-platform");
  SLIP(0, NULL, "compile", in_source("tests/cli/kinds.json"), "-o", "p.slipc", "--contract", "program");
  SLIP(1, "INCOMPATIBLE", "run", "p.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=4");
}

SLIP_TEST_TIMEOUT(run_outputs_that_cannot_be_written, 120) {
  make_kinds();
  SLIP(1, "No space left on device", GOOD, "--out", "y=@/dev/full");
  SLIP(1, "is a directory", GOOD, "--out", "y=@.");
  SLIP(1, "none/y.npy", GOOD, "--out", "y=@none/y.npy");
  SLIP(1, ".safetensors", GOOD, "--out", "y=@y.safetensors");
}

SLIP_TEST_TIMEOUT(run_unreadable_files, 120) {
  make_kinds();
  SLIP_CHECK_EQ(chmod(in_test("x.npy"), 0), 0);
  SLIP_CHECK_EQ(mkdir(in_test("closed"), 0555), 0);
  become_nobody();
  SLIP(1, "IO: cannot open \"x.npy\": Permission denied", GOOD);
  SLIP(1, "Permission denied", "run", "k.slipc", "--arg", "x=@w.npy", "--arg", "layer_0_w=@w.npy", "--arg", "s=@s.npy", ARGS_SCALARS,
       "--dim", "M=1", "--out", "y=@closed/y.npy");
}

SLIP_TEST_TIMEOUT(run_full_disk_leaves_the_old_file, 120) {
  make_kinds();
  mount_small("disk", 8192);
  write_file("disk/y.npy", "old", 3);
  SLIP(1, "No space left on device", "run", "k.slipc", ARGS_TENSORS, ARGS_SCALARS, "--dim", "M=100000", "--out", "y=@disk/y.npy");
  char text[16];
  SLIP_CHECK_EQ(read_file("disk/y.npy", text, sizeof(text)), 3);
  SLIP(0, NULL, GOOD, "--out", "y=@disk/y.npy");
  SLIP_CHECK(float_at("disk/y.npy", 3) == 7.5f);
}

// Every task-graph fault that the command's options leave possible: the status, and where it happened.
SLIP_TEST_TIMEOUT(run_reports_task_faults, 240) {
  static const struct {
    const char *which, *text;
  } faults[] = {
      {"which=1101", "GRAPH_SCOPE_DEADLOCK: an intermediate of 41943040 bytes"},
      {"which=1102", "raise heap_bytes[0]; in scope depth 0, before the first task of ring 0"},
      {"which=1105", "GRAPH_INVALID_TASK: tensor 1 was given with access IN"},
      {"which=1106", "GRAPH_TOO_MANY_DEPENDENCIES: 70 explicit dependencies"},
      {"which=1107", "GRAPH_GANG_TOO_LARGE: a gang of 1000 blocks"},
      {"which=1109", "GRAPH_USER_FAIL: the orchestration failed with code 7: the batch is empty"},
      {"which=1111", "task of kernel 2 (picky) in ring 0, scope depth 0, submitted at"},
      {"which=1112", "GRAPH_PREDICATE_UNREADABLE: the predicate reads element 0 of 4"},
      {"which=1113", "GRAPH_STALE_TENSOR: tensor 0 was made in a scope of depth 1"},
  };
  static const float x[4] = {1, 2, 3, 4};
  static const char *const streams[] = {"inline", "async"};
  write_floats("x.npy", x, 4);
  SLIP(0, NULL, "compile", in_source("tests/docs/faults.json"), "-o", "f.slipc");
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) {
    for (size_t k = 0; k < 2; ++k) {
      SLIP(1, faults[i].text, "run", "f.slipc", "-a", "x=@x.npy", "-a", "y=@x.npy", "-a", faults[i].which, "--stream", streams[k]);
    }
    SLIP(1, faults[i].text, "run", "f.slipc", "-a", "x=@x.npy", "-a", "y=@x.npy", "-a", faults[i].which, "--platform", "sim");
    json_t *document = SLIP_JSON(1, "run", "f.slipc", "-a", "x=@x.npy", "-a", "y=@x.npy", "-a", faults[i].which);
    json_t *error = json_object_get(document, "error");
    SLIP_CHECK_EQ(json_integer_value(json_object_get(error, "number")), -atoi(faults[i].which + strlen("which=")));
    json_decref(document);
  }
}

SLIP_TEST_TIMEOUT(run_isolated_names_the_kernel_that_crashes, 240) {
  static const float x[4] = {1, 2, 3, 4};
  static const char *const streams[] = {"inline", "async"};
  write_floats("y.npy", x, 4);
  SLIP(0, NULL, "compile", in_source("tests/cli/crash.json"), "-o", "c.slipc");
#define CRASH(which) "run", "c.slipc", "-a", "y=@y.npy", "-a", "which=" which, "--isolate", "--threads", "2"
  for (size_t i = 0; i < 2; ++i) {
    SLIP(0, "y: f32[4] = 2 2 3 4", CRASH("0"), "--stream", streams[i]);
    SLIP(1, "GRAPH_KERNEL_FAULT: the kernel received SIGSEGV at address 0x40, instruction wild+0x", CRASH("1"), "--stream", streams[i]);
    SLIP(1, "in block 2 of 4; task of kernel 0 (wild) in ring 0, scope depth 0, submitted at", CRASH("1"), "--stream", streams[i]);
    SLIP(1, "in block 0 of 1; task of kernel 1 (overflow) in ring 0", CRASH("2"), "--stream", streams[i]);
    SLIP(1, "INTERNAL: the process received SIGSEGV at address 0x3", CRASH("3"), "--stream", streams[i]);
  }
#if defined(__x86_64__)  // elsewhere a division by zero is no signal
  SLIP(1, "the kernel received SIGFPE", CRASH("4"));
#endif
  SLIP(1, "the kernel received SIGSEGV at address 0x40", CRASH("1"), "--platform", "sim");
  SLIP(1, "argument", "run", "c.slipc", "-a", "y=@none.npy", "-a", "which=0", "--isolate");
  json_t *document = SLIP_JSON(1, CRASH("1"));
  SLIP_CHECK_EQ(json_integer_value(json_object_get(json_object_get(document, "error"), "number")), SLIP_CODE_GRAPH_KERNEL_FAULT);
  json_decref(document);
#undef CRASH
}
