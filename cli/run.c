// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bind.h"
#include "io/npy.h"

static const cli_option_t cli_run_options[] = {
    {"arg", 'a', "NAME=VALUE", "an argument: @file.npy, @file.safetensors[:TENSOR], or a number", true},
    {"weights", 'w', "FILE", ".safetensors file whose tensors fill the remaining IN parameters by name ('.' read as '_')", true},
    {"out", 'o', "NAME=@FILE", "write an output as .npy", true},
    {"dim", 'd', "NAME=VALUE", "a dimension that no input fixes", true},
    {"platform", 'p', "NAME", "platform (default: cpu)", false},
    {"target", 't', "NAME", "use this target's image (default: the best this machine runs)", false},
    {"stream", 's', "KIND", "inline (on this thread; default) or async (a stream of its own)", false},
    {"threads", 'j', "N", "worker threads, this one included (default: usable cores)", false},
    {"bench", 'n', "N", "launch N times more and print median, p10 and p90", false},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    CLI_OPTION_END,
};

// Values of an output that is written to no file are shown up to this count.
#define CLI_SHOWN_VALUES 8
#define CLI_BENCH_MAX    10000000
#define CLI_PROGRESS_NS  200000000u

typedef struct cli_session_t {
  const cli_invocation_t *invocation;
  slip_artifact_t *artifact;
  slip_platform_t *platform;
  slip_context_t *context;
  slip_stream_t stream;
  bool owns_stream;
  bool has_bindings;
  cli_bindings_t bindings;
  slip_frame_t frame;
  int32_t id;
  uint64_t first_ns;
  uint64_t *times_ns;  // of --bench, sorted
  size_t time_count;
} cli_session_t;

static uint64_t cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// What is plainly something else is named as such; the library says the rest.
static slip_status_t cli_check_artifact(const char *path) {
  struct stat info;
  char file[4096];
  if (stat(path, &info) != 0) return slip_ok_status();
  if (!S_ISDIR(info.st_mode)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is a file; run takes an artifact, the directory that slip compile makes", path);
  }
  int length = snprintf(file, sizeof(file), "%s/manifest.json", path);
  if (length < (int)sizeof(file) && access(file, F_OK) != 0 && errno == ENOENT) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the directory \"%s\" is no artifact: it has no manifest.json", path);
  }
  return slip_ok_status();
}

static slip_status_t cli_session_open(cli_session_t *s) {
  const char *platform = cli_value(s->invocation, "platform");
  const slip_artifact_options_t artifact_options = {(uint32_t)sizeof(artifact_options), 0, cli_value(s->invocation, "target")};
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  uint64_t threads = 0;
  SLIP_RETURN_IF_ERROR(cli_number(s->invocation, "threads", 4096, 0, &threads));
  SLIP_RETURN_IF_ERROR(cli_check_artifact(s->invocation->positional[0]));
  SLIP_RETURN_IF_ERROR(slip_artifact_open(s->invocation->positional[0], &artifact_options, slip_allocator_system(), &s->artifact));
  SLIP_RETURN_IF_ERROR(slip_platform_find(platform ? platform : "cpu", &s->platform));
  const slip_device_t device = {slip_platform_from_name(platform ? platform : "cpu"), 0};
  s->has_bindings = true;
  SLIP_RETURN_IF_ERROR(cli_bindings_initialize(&s->bindings, s->invocation, slip_artifact_params(s->artifact),
                                               slip_artifact_name(s->artifact), s->platform, device));
  SLIP_RETURN_IF_ERROR(cli_bindings_frame(&s->bindings, &s->frame));  // what is wrong with the arguments is said before anything is claimed
  options.platform = platform;
  options.target = cli_value(s->invocation, "target");
  options.scheduler_threads = threads > 1 ? (uint32_t)threads : 0;
  options.flags = threads == 1 ? SLIP_CONTEXT_SINGLE_THREAD : SLIP_CONTEXT_NONE;
  SLIP_RETURN_IF_ERROR(slip_context_open(&options, &s->context));
  return slip_context_prepare_artifact(s->context, s->artifact, &s->id);
}

static slip_status_t cli_session_stream(cli_session_t *s) {
  const char *kind = cli_value(s->invocation, "stream");
  s->stream = SLIP_STREAM_INLINE;
  if (!kind || strcmp(kind, "inline") == 0) return slip_ok_status();
  s->stream = NULL;
  SLIP_RETURN_IF_ERROR(slip_stream_create(s->platform, 0, &s->stream));
  s->owns_stream = true;
  return slip_ok_status();
}

// One launch, from the call to the results being there.
static slip_status_t cli_session_launch(cli_session_t *s, uint64_t *out_ns) {
  slip_ticket_t *ticket = NULL;
  uint64_t start = cli_now_ns();
  slip_status_t status = slip_context_launch(s->context, s->id, &s->frame, s->stream, s->owns_stream ? &ticket : NULL);
  if (ticket) status = slip_status_join(status, slip_ticket_wait(ticket, -1));
  *out_ns = cli_now_ns() - start;
  slip_ticket_release(ticket);
  return status;
}

static slip_status_t cli_session_write(cli_session_t *s) {
  for (size_t i = 0; i < s->bindings.count; ++i) {
    const cli_binding_t *binding = &s->bindings.items[i];
    cli_array_t array;
    void *memory = NULL;
    if (!binding->out_path) continue;
    slip_status_t status = cli_binding_download(&s->bindings, binding, &array, &memory);
    if (slip_status_is_ok(status)) status = cli_npy_write(binding->out_path, &array);
    free(memory);
    SLIP_RETURN_IF_ERROR_ANNOTATED(status, "writing output '%s'", binding->param->name);
  }
  return slip_ok_status();
}

static int cli_time_order(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static slip_status_t cli_session_bench(cli_session_t *s) {
  uint64_t count = 0;
  SLIP_RETURN_IF_ERROR(cli_number(s->invocation, "bench", CLI_BENCH_MAX, 0, &count));
  if (count == 0) return slip_ok_status();
  s->times_ns = calloc(count, sizeof(*s->times_ns));
  if (!s->times_ns) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %llu times", (unsigned long long)count);
  bool shown = false;
  for (uint64_t last = cli_now_ns(); s->time_count < count; ++s->time_count) {
    SLIP_RETURN_IF_ERROR(cli_session_launch(s, &s->times_ns[s->time_count]));
    if (s->invocation->json || !isatty(2) || cli_now_ns() - last < CLI_PROGRESS_NS) continue;
    last = cli_now_ns();
    shown = true;
    fprintf(stderr, "\r\033[K[%zu/%llu] launches", s->time_count + 1, (unsigned long long)count);
  }
  if (shown) fprintf(stderr, "\r\033[K");
  qsort(s->times_ns, s->time_count, sizeof(*s->times_ns), cli_time_order);
  return slip_ok_status();
}

// --- Report ----------------------------------------------------------------------------------------------------------

static json_t *cli_shape_json(const slip_tensor_t *tensor) {
  json_t *array = json_array();
  for (uint8_t i = 0; i < tensor->rank; ++i) json_array_append_new(array, json_integer(tensor->dims[i]));
  return array;
}

// The first elements as text.
static json_t *cli_values_json(const cli_array_t *array) {
  json_t *values = json_array();
  size_t size = slip_dtype_size_bytes(array->dtype);
  for (size_t i = 0; i < CLI_SHOWN_VALUES && (i + 1) * size <= array->data.size; ++i) {
    slip_scalar_t scalar = {0, array->dtype, {0}};
    char text[64];
    memcpy(&scalar.bits, array->data.data + i * size, size);
    slip_scalar_format(scalar, text, sizeof(text));
    json_array_append_new(values, json_string(text));
  }
  return values;
}

static slip_status_t cli_report_output(const cli_session_t *s, const cli_binding_t *binding, json_t *out) {
  json_t *object = json_pack("{s:s,s:s,s:o}", "name", binding->param->name, "dtype", slip_dtype_name(binding->tensor.dtype), "shape",
                             cli_shape_json(&binding->tensor));
  json_array_append_new(out, object);
  if (binding->out_path) {
    json_object_set_new(object, "file", json_string(binding->out_path));
    return slip_ok_status();
  }
  cli_array_t array;
  void *memory = NULL;
  slip_status_t status = cli_binding_download(&s->bindings, binding, &array, &memory);
  if (slip_status_is_ok(status)) json_object_set_new(object, "first_values", cli_values_json(&array));
  free(memory);
  return status;
}

static uint64_t cli_percentile(const cli_session_t *s, size_t percent) {
  return s->times_ns[(s->time_count - 1) * percent / 100];
}

// Made before --bench runs, which changes INOUT tensors again.
static slip_status_t cli_report(const cli_session_t *s, json_t **out) {
  json_t *outputs = json_array();
  *out = json_pack("{s:s,s:s,s:s,s:s,s:I,s:o}", "name", slip_artifact_name(s->artifact), "platform",
                   slip_platform_name(s->bindings.device.platform), "target", slip_artifact_target(s->artifact), "stream",
                   s->owns_stream ? "async" : "inline", "launch_ns", (json_int_t)s->first_ns, "outputs", outputs);
  if (!*out) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the report");
  for (size_t i = 0; i < s->bindings.count; ++i) {
    if (cli_param_is_output(s->bindings.items[i].param)) SLIP_RETURN_IF_ERROR(cli_report_output(s, &s->bindings.items[i], outputs));
  }
  return slip_ok_status();
}

static void cli_print_output(const json_t *output) {
  size_t i;
  const json_t *item;
  const char *file = json_string_value(json_object_get(output, "file"));
  printf("%s: %s[", json_string_value(json_object_get(output, "name")), json_string_value(json_object_get(output, "dtype")));
  json_array_foreach(json_object_get(output, "shape"), i, item) printf("%s%lld", i ? "," : "", (long long)json_integer_value(item));
  printf("]");
  if (file) printf(" -> %s", file);
  if (!file) printf(json_array_size(json_object_get(output, "first_values")) ? " =" : " is empty");
  json_array_foreach(json_object_get(output, "first_values"), i, item) printf(" %s", json_string_value(item));
  printf("%s\n", !file && json_array_size(json_object_get(output, "first_values")) == CLI_SHOWN_VALUES ? " ..." : "");
}

static slip_status_t cli_print_report(const cli_session_t *s, json_t *report) {
  size_t i;
  const json_t *output;
  if (s->time_count) {
    json_object_set_new(report, "bench",
                        json_pack("{s:I,s:I,s:I,s:I,s:I}", "count", (json_int_t)s->time_count, "min_ns", (json_int_t)s->times_ns[0],
                                  "p10_ns", (json_int_t)cli_percentile(s, 10), "median_ns", (json_int_t)cli_percentile(s, 50), "p90_ns",
                                  (json_int_t)cli_percentile(s, 90)));
  }
  if (s->invocation->json) return cli_print_json(json_incref(report));
  printf("%s on %s (%s), %s: first launch %llu ns\n", slip_artifact_name(s->artifact), slip_platform_name(s->bindings.device.platform),
         slip_artifact_target(s->artifact), s->owns_stream ? "async" : "inline", (unsigned long long)s->first_ns);
  json_array_foreach(json_object_get(report, "outputs"), i, output) cli_print_output(output);
  if (s->time_count) {
    printf("bench: %zu launches, median %llu ns, p10 %llu ns, p90 %llu ns, min %llu ns\n", s->time_count,
           (unsigned long long)cli_percentile(s, 50), (unsigned long long)cli_percentile(s, 10), (unsigned long long)cli_percentile(s, 90),
           (unsigned long long)s->times_ns[0]);
  }
  return cli_flush();
}

// --- Command ---------------------------------------------------------------------------------------------------------

static slip_status_t cli_session_close(cli_session_t *s) {
  slip_status_t status = slip_ok_status();
  if (s->context) status = slip_status_join(status, slip_context_close(s->context));
  if (s->owns_stream) status = slip_status_join(status, slip_stream_destroy(s->platform, s->stream));
  slip_frame_deinitialize(&s->frame);
  if (s->has_bindings) cli_bindings_deinitialize(&s->bindings);
  if (s->context) status = slip_status_join(status, slip_context_destroy(s->context));
  slip_artifact_release(s->artifact);
  free(s->times_ns);
  return status;
}

static int cli_run_run(const cli_invocation_t *invocation) {
  cli_session_t session = {.invocation = invocation, .id = -1};
  const char *stream = cli_value(invocation, "stream");
  json_t *report = NULL;
  if (stream && strcmp(stream, "inline") != 0 && strcmp(stream, "async") != 0) {
    return cli_usage_error(invocation, "--stream is inline or async, not '%s'", stream);
  }
  slip_status_t status = cli_session_open(&session);
  if (slip_status_is_ok(status)) status = cli_session_stream(&session);
  if (slip_status_is_ok(status)) status = cli_session_launch(&session, &session.first_ns);
  if (slip_status_is_ok(status)) status = cli_session_write(&session);
  if (slip_status_is_ok(status)) status = cli_report(&session, &report);
  if (slip_status_is_ok(status)) status = cli_session_bench(&session);
  if (slip_status_is_ok(status)) status = cli_print_report(&session, report);
  json_decref(report);
  status = slip_status_join(status, cli_session_close(&session));
  return cli_finish(invocation, status);
}

const cli_command_t cli_run_command = {
    .name = "run",
    .arguments = "ARTIFACT [--arg NAME=VALUE]... [--out NAME=@FILE]... [OPTIONS]",
    .positional_minimum = 1,
    .positional_maximum = 1,
    .summary = "Run a kernel-contract artifact once on a stream of its own making.",
    .details = "Every IN and INOUT parameter and scalar needs an --arg (or a weight of its name); OUT buffers are made here, zeroed.\n",
    .options = cli_run_options,
    .run = cli_run_run,
};
