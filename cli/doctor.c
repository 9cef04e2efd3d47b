// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli.h"
#include "slipstream/compile.h"
#include "simulator.h"
#include "slipstream/kernel/tile.h"

static const cli_option_t cli_doctor_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTION_END};

static slip_status_t cli_doctor_devices(slip_platform_t *platform, json_t *out) {
  int32_t count = 0;
  SLIP_RETURN_IF_ERROR(slip_platform_device_count(platform, &count));
  for (int32_t i = 0; i < count; ++i) {
    slip_device_properties_t properties;
    SLIP_RETURN_IF_ERROR(slip_platform_device_properties(platform, i, &properties));
    json_array_append_new(out, json_pack("{s:s,s:s,s:I,s:I,s:b}", "name", properties.name, "target", properties.target, "memory_bytes",
                                         (json_int_t)properties.memory_bytes, "cores", (json_int_t)properties.core_count, "capture",
                                         (int)(properties.capture_supported != 0)));
  }
  return slip_ok_status();
}

static json_t *cli_doctor_platform(const char *name) {
  slip_platform_t *platform = NULL;
  json_t *devices = json_array();
  slip_status_t status = slip_platform_find(name, &platform);
  if (slip_status_is_ok(status)) status = cli_doctor_devices(platform, devices);
  json_t *object = json_pack("{s:s,s:b,s:o}", "name", name, "usable", (int)slip_status_is_ok(status), "devices", devices);
  if (platform) {
    slip_status_t build = slip_platform_check_build(platform, NULL);
    if (!slip_status_is_ok(build)) json_object_set_new(object, "build_check", cli_status_json(build));
    slip_status_free(build);
  }
  if (!slip_status_is_ok(status)) json_object_set_new(object, "error", cli_status_json(status));
  if (strcmp(name, "sim") == 0) json_object_set_new(object, "variables", cli_simulator_variables());
  slip_status_free(status);
  return object;
}

static json_t *cli_doctor_targets(void) {
  static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};
  json_t *targets = json_object();
  slip_platform_t *cpu = NULL;
  slip_status_t status = slip_platform_find("cpu", &cpu);
  for (size_t i = 0; slip_status_is_ok(status) && i < sizeof(names) / sizeof(names[0]); ++i) {
    json_object_set_new(targets, names[i], json_boolean(slip_platform_target_supported(cpu, 0, names[i])));
  }
  slip_status_free(status);
  return targets;
}

static json_t *cli_doctor_compiler(void) {
  slip_compile_toolchain_t toolchain = SLIP_COMPILE_TOOLCHAIN_INIT;
  slip_status_t status = slip_compile_probe(NULL, &toolchain);
  json_t *object = slip_status_is_ok(status) ? json_pack("{s:s,s:s,s:s,s:s}", "program", toolchain.program, "version", toolchain.version,
                                                         "machine", toolchain.machine, "kernel_headers", toolchain.include_dir)
                                             : json_pack("{s:o}", "error", cli_status_json(status));
  slip_status_free(status);
  return object;
}

static json_t *cli_doctor_document(void) {
  json_t *platforms = json_array();
  for (size_t i = 0; slip_platform_name_at(i); ++i) json_array_append_new(platforms, cli_doctor_platform(slip_platform_name_at(i)));
  json_t *limits = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "entry_tensors", SLIP_ENTRY_MAX_TENSORS, "entry_scalars",
                             SLIP_ENTRY_MAX_SCALARS, "kernel_tensors", SLIP_KERNEL_MAX_TENSORS, "kernel_scalars", SLIP_KERNEL_MAX_SCALARS,
                             "rank", SLIP_MAX_RANK, "kernels", SLIP_IMAGE_MAX_KERNELS, "entries", SLIP_IMAGE_MAX_ENTRIES);
  json_t *check = json_pack("{s:b,s:s}", "on", 1, "skip_option", "--skip-build-check");
  return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "version", slip_version(), "build_check", check, "platforms", platforms, "cpu_targets",
                   cli_doctor_targets(), "compiler", cli_doctor_compiler(), "limits", limits);
}

static const char *cli_doctor_text(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static void cli_doctor_print_variable(const json_t *variable) {
  const char *value = json_string_value(json_object_get(variable, "value"));
  printf("  %s=%s%s  %s\n", cli_doctor_text(variable, "name"), value ? value : cli_doctor_text(variable, "default"),
         value ? "" : " (default)", cli_doctor_text(variable, "meaning"));
}

static void cli_doctor_print(const json_t *document) {
  size_t i, j;
  const json_t *platform, *device, *variable;
  const char *key;
  json_t *value;
  printf("slipstream %s\n", cli_doctor_text(document, "version"));
  json_array_foreach(json_object_get(document, "platforms"), i, platform) {
    const json_t *error = json_object_get(platform, "error"), *build = json_object_get(platform, "build_check");
    printf("platform %-8s %s\n", cli_doctor_text(platform, "name"), error ? cli_doctor_text(error, "text") : "usable");
    if (build) printf("  only with SLIP_CONTEXT_SKIP_BUILD_CHECK: %s\n", cli_doctor_text(build, "text"));
    json_array_foreach(json_object_get(platform, "devices"), j, device) {
      if (json_integer_value(json_object_get(device, "cores")) == 0) {
        printf("  device %zu: %s, runs nothing\n", j, cli_doctor_text(device, "name"));
        continue;
      }
      printf("  device %zu: %s, target %s, %lld cores, %.1f GiB\n", j, cli_doctor_text(device, "name"), cli_doctor_text(device, "target"),
             (long long)json_integer_value(json_object_get(device, "cores")),
             (double)json_integer_value(json_object_get(device, "memory_bytes")) / (1024.0 * 1024 * 1024));
    }
    json_array_foreach(json_object_get(platform, "variables"), j, variable) cli_doctor_print_variable(variable);
  }
  printf("build check: a platform of another build is refused; slip run --skip-build-check accepts it\n");
  json_object_foreach(json_object_get(document, "cpu_targets"), key, value) {
    printf("target %-10s %s\n", key, json_is_true(value) ? "runs here" : "does not run here");
  }
  const json_t *compiler = json_object_get(document, "compiler"), *error = json_object_get(compiler, "error");
  if (error) {
    printf("compiler   %s\n", cli_doctor_text(error, "text"));
  } else {
    printf("compiler   %s (%s), headers in %s\n", cli_doctor_text(compiler, "version"), cli_doctor_text(compiler, "machine"),
           cli_doctor_text(compiler, "kernel_headers"));
  }
  json_object_foreach(json_object_get(document, "limits"), key, value)
      printf("limit %-16s %lld\n", key, (long long)json_integer_value(value));
}

// Succeeds when the cpu platform is usable: what is missing beyond that is reported, not a failure.
static int cli_doctor_run(const cli_invocation_t *invocation) {
  slip_platform_t *cpu = NULL;
  slip_status_t status = slip_ok_status();
  json_t *document = cli_doctor_document();
  if (invocation->json) {
    status = cli_print_json(document);
  } else if (document) {
    cli_doctor_print(document);
    json_decref(document);
    status = cli_flush();
  } else {
    status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the report");
  }
  if (slip_status_is_ok(status)) status = slip_platform_find("cpu", &cpu);
  return cli_finish(invocation, status);
}

const cli_command_t cli_doctor_command = {
    .name = "doctor",
    .arguments = "[OPTIONS]",
    .positional_minimum = 0,
    .positional_maximum = 0,
    .summary = "Show what this machine offers: platforms, targets, compiler, limits.",
    .details = "Exits with 0 when the cpu platform works.\n",
    .options = cli_doctor_options,
    .run = cli_doctor_run,
};
