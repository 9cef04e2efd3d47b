// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "io/npy.h"
#include "isolate.h"
#include "session.h"
#include "simulator.h"

static const cli_option_t cli_run_options[] = {
    {"arg", 'a', "NAME=VALUE", "an argument: @file.npy, @file.safetensors[:TENSOR], or a number", true},
    {"weights", 'w', "FILE", ".safetensors file whose tensors fill the remaining IN parameters by name ('.' read as '_')", true},
    {"out", 'o', "NAME=@FILE", "write an output as .npy", true},
    {"dim", 'd', "NAME=VALUE", "a dimension that no input fixes", true},
    {"platform", 'p', "NAME", "platform: cpu (default), or sim, the strict virtual device (SLIP_SIM_* set it up)", false},
    {"device", 0, "N", "device of the platform (default: 0)", false},
    {"target", 't', "NAME", "use this target's image (default: the best this machine runs)", false},
    {"stream", 's', "KIND", "inline (on this thread; cpu only, and its default) or async (a stream of its own)", false},
    {"threads", 'j', "N", "worker threads, this one included (default: usable cores)", false},
    {"capture", 0, "N", "capture the launch instead of running it, and replay it N times (0: launch eagerly)", false},
    {"bench", 'n', "N", "launch N times more and print median, p10 and p90", false},
    {"isolate", 0, NULL, "run in a child process, and name the kernel if one crashes", false},
    {"skip-build-check", 0, NULL, "accept a platform whose build identity is missing or another one", false},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    CLI_OPTION_END,
};

// Values of an output that is written to no file are shown up to this count.
#define CLI_SHOWN_VALUES 8

static slip_status_t cli_session_write(cli_session_t *s) {
  for (size_t i = 0; i < s->bindings.count; ++i) {
    const cli_binding_t *binding = &s->bindings.items[i];
    cli_array_t array;
    if (!binding->out_path) continue;
    slip_status_t status = cli_binding_download(&s->bindings, binding, &array);
    if (slip_status_is_ok(status)) status = cli_npy_write(binding->out_path, &array);
    SLIP_RETURN_IF_ERROR_ANNOTATED(status, "writing output '%s'", binding->param->name);
  }
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
  SLIP_RETURN_IF_ERROR(cli_binding_download(&s->bindings, binding, &array));
  json_object_set_new(object, "first_values", cli_values_json(&array));
  return slip_ok_status();
}

static uint64_t cli_percentile(const cli_session_t *s, size_t percent) {
  return s->times_ns[(s->time_count - 1) * percent / 100];
}

// Made before --bench runs, which changes INOUT tensors again.
static slip_status_t cli_report(const cli_session_t *s, json_t **out) {
  json_t *outputs = json_array();
  *out = json_pack("{s:s,s:s,s:i,s:s,s:s,s:I,s:o}", "name", slip_artifact_name(s->artifact), "platform",
                   slip_platform_name(s->place.device.platform), "device", (int)s->place.device.ordinal, "target",
                   slip_artifact_target(s->artifact), "stream", cli_session_is_inline(s) ? "inline" : "async", "launch_ns",
                   (json_int_t)s->first_ns, "outputs", outputs);
  if (!*out) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the report");
  if (s->replays) json_object_set_new(*out, "replays", json_integer((json_int_t)s->replays));
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

static const char *cli_text(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

static long long cli_integer(const json_t *object, const char *key) {
  return (long long)json_integer_value(json_object_get(object, key));
}

static void cli_report_bench(const cli_session_t *s, json_t *report) {
  if (!s->time_count) return;
  json_object_set_new(report, "bench",
                      json_pack("{s:I,s:I,s:I,s:I,s:I}", "count", (json_int_t)s->time_count, "min_ns", (json_int_t)s->times_ns[0], "p10_ns",
                                (json_int_t)cli_percentile(s, 10), "median_ns", (json_int_t)cli_percentile(s, 50), "p90_ns",
                                (json_int_t)cli_percentile(s, 90)));
}

static slip_status_t cli_print_report(const cli_session_t *s, const json_t *report) {
  size_t i;
  const json_t *output;
  printf("%s on %s:%lld (%s), %s: first %s %lld ns", cli_text(report, "name"), cli_text(report, "platform"), cli_integer(report, "device"),
         cli_text(report, "target"), cli_text(report, "stream"), s->replays ? "replay" : "launch", cli_integer(report, "launch_ns"));
  if (s->replays) printf(" of %llu", (unsigned long long)s->replays);
  printf("\n");
  json_array_foreach(json_object_get(report, "outputs"), i, output) cli_print_output(output);
  if (s->time_count) {
    printf("bench: %zu launches, median %llu ns, p10 %llu ns, p90 %llu ns, min %llu ns\n", s->time_count,
           (unsigned long long)cli_percentile(s, 50), (unsigned long long)cli_percentile(s, 10), (unsigned long long)cli_percentile(s, 90),
           (unsigned long long)s->times_ns[0]);
  }
  return cli_flush();
}

// --- Command ---------------------------------------------------------------------------------------------------------

// Ends the run: what the simulator found makes a run fail that was fine by itself; its results are shown all the same.
static int cli_run_end(const cli_session_t *s, slip_status_t status, json_t *report) {
  bool ran = slip_status_is_ok(status);
  size_t i;
  const json_t *finding;
  json_t *findings = cli_session_is_simulated(s) ? cli_simulator_findings() : NULL;
  size_t count = json_array_size(findings);
  if (count) {
    status = slip_status_join(status, SLIP_STATUS(SLIP_CODE_DEVICE, "the simulator found %zu thing%s wrong; the first: %s", count,
                                                  count == 1 ? "" : "s", json_string_value(json_array_get(findings, 0))));
  }
  if (s->invocation->json) {
    int code = slip_status_is_ok(status) ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
    json_t *document = ran ? json_incref(report) : json_object();
    cli_report_bench(s, document);
    if (findings) json_object_set_new(document, "findings", findings);
    if (!slip_status_is_ok(status)) json_object_set_new(document, "error", cli_status_json(status));
    slip_status_free(status);
    status = cli_print_json(document);
    return slip_status_is_ok(status) ? code : cli_finish(s->invocation, status);
  }
  if (ran) status = slip_status_join(status, cli_print_report(s, report));
  json_array_foreach(findings, i, finding) fprintf(stderr, "sim: %s\n", json_string_value(finding));
  json_decref(findings);
  return cli_finish(s->invocation, status);
}

static int cli_run_here(const cli_invocation_t *invocation) {
  cli_session_t session;
  json_t *report = NULL;
  slip_status_t status = cli_session_open(&session, invocation);
  if (slip_status_is_ok(status)) status = cli_session_run(&session);
  if (slip_status_is_ok(status)) status = cli_session_write(&session);
  if (slip_status_is_ok(status)) status = cli_report(&session, &report);
  if (slip_status_is_ok(status)) status = cli_session_bench(&session);
  status = slip_status_join(status, cli_session_close(&session));
  int code = cli_run_end(&session, status, report);
  json_decref(report);
  free(session.times_ns);
  return code;
}

static int cli_run_run(const cli_invocation_t *invocation) {
  const char *stream = cli_value(invocation, "stream");
  if (stream && strcmp(stream, "inline") != 0 && strcmp(stream, "async") != 0) {
    return cli_usage_error(invocation, "--stream is inline or async, not '%s'", stream);
  }
  return cli_value(invocation, "isolate") ? cli_isolate(invocation, cli_run_here) : cli_run_here(invocation);
}

const cli_command_t cli_run_command = {
    .name = "run",
    .arguments = "ARTIFACT [--arg NAME=VALUE]... [--out NAME=@FILE]... [OPTIONS]",
    .positional_minimum = 1,
    .positional_maximum = 1,
    .summary = "Run a kernel-contract artifact once on a stream of its own making.",
    .details =
        "Every IN and INOUT parameter and scalar needs an --arg (or a weight of its name); OUT buffers are made here, zeroed but for "
        "sim's.\n",
    .options = cli_run_options,
    .run = cli_run_run,
};
