// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/preflight.h"

#include <inttypes.h>
#include <string.h>

#include "kernel_mode/context.h"
#include "platform/dispatch.h"
#include "slipstream/image.h"

static slip_status_t slip__preflight_platform(slip__plan_t *plan) {
  const slip_context_options_t *options = &plan->options;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_platform_find(options->platform, &plan->platform), "opening a context on platform \"%s\"",
                                 options->platform);
  slip_status_t build = slip_platform_check_build(plan->platform, NULL);
  if (!slip_status_is_ok(build)) {
    if ((options->flags & SLIP_CONTEXT_SKIP_BUILD_CHECK) == 0) return build;
    plan->build_skipped = true;
    slip_status_free(build);
  }
  plan->device.platform = slip__platform_code(plan->platform);
  return slip_ok_status();
}

// An entry that a platform needs for what it says of itself. The table guarantees the others (dispatch.h).
typedef struct slip__preflight_entry_t {
  const char *name;
  bool present;
} slip__preflight_entry_t;

// UNSUPPORTED, naming the first missing entry.
static slip_status_t slip__preflight_entries(const char *platform, const char *purpose, const slip__preflight_entry_t *entries,
                                             size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].present) continue;
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "platform \"%s\" has no %s entry, which %s needs; use a build of the platform that has it",
                       platform, entries[i].name, purpose);
  }
  return slip_ok_status();
}

#define SLIP__PREFLIGHT_ENTRY(vtable, entry) \
  { #entry, (vtable)->entry != NULL }

// Code of a host-native callable must be reachable: by a stream that runs it, and with a view of memory that the host cannot dereference.
static slip_status_t slip__preflight_host_native(const slip_platform_vtable_t *vtable, uint32_t capabilities) {
  const slip__preflight_entry_t launch[] = {SLIP__PREFLIGHT_ENTRY(vtable, stream_launch)};
  const slip__preflight_entry_t map[] = {SLIP__PREFLIGHT_ENTRY(vtable, device_map), SLIP__PREFLIGHT_ENTRY(vtable, device_unmap)};
  if ((capabilities & SLIP_PLATFORM_CAN_STREAMS) != 0)
    SLIP_RETURN_IF_ERROR(slip__preflight_entries(vtable->name, "launching on its streams", launch, 1));
  if ((capabilities & SLIP_PLATFORM_HOST_MEMORY) != 0) return slip_ok_status();
  return slip__preflight_entries(vtable->name, "running host-native callables on memory that the host cannot reach", map, 2);
}

// All or nothing: a launch in a capture that cannot be retained, or one that nobody notices, would be worse than no capture.
static slip_status_t slip__preflight_capture_group(const slip_platform_vtable_t *vtable, uint32_t capabilities) {
  const slip__preflight_entry_t group[] = {
      SLIP__PREFLIGHT_ENTRY(vtable, thread_capture_info), SLIP__PREFLIGHT_ENTRY(vtable, capture_begin),
      SLIP__PREFLIGHT_ENTRY(vtable, capture_end),         SLIP__PREFLIGHT_ENTRY(vtable, capture_retain),
      SLIP__PREFLIGHT_ENTRY(vtable, graph_launch),        SLIP__PREFLIGHT_ENTRY(vtable, graph_destroy),
  };
  const size_t count = sizeof(group) / sizeof(group[0]);
  bool any = (capabilities & SLIP_PLATFORM_CAN_CAPTURE) != 0;
  for (size_t i = 0; i < count; ++i) any |= group[i].present;
  return any ? slip__preflight_entries(vtable->name, "capturing", group, count) : slip_ok_status();
}

static slip_status_t slip__preflight_binding(const slip_platform_vtable_t *vtable) {
  const slip__preflight_entry_t pair[] = {SLIP__PREFLIGHT_ENTRY(vtable, device_push), SLIP__PREFLIGHT_ENTRY(vtable, device_pop)};
  return pair[0].present == pair[1].present ? slip_ok_status()
                                            : slip__preflight_entries(vtable->name, "binding a device to a thread", pair, 2);
}

// What the platform says of itself is only a hint: whatever it claims is looked for in its table.
static slip_status_t slip__preflight_runtime(slip__plan_t *plan) {
  uint32_t capabilities = slip__platform_capabilities(plan->platform), kind = plan->options.runtime_kind;
  const slip_platform_vtable_t *vtable = plan->platform->vtable;
  if (kind != 0 && kind != SLIP_RUNTIME_HOST_NATIVE) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                       "runtime_kind is %" PRIu32 ", but this build runs only %d (host-native); leave it 0 for the platform's own", kind,
                       SLIP_RUNTIME_HOST_NATIVE);
  }
  if ((capabilities & SLIP_PLATFORM_CAN_HOST_NATIVE) == 0) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "platform \"%s\" cannot run host-native callables; open a platform that can, such as \"cpu\"",
                       vtable->name);
  }
  if ((capabilities & (SLIP_PLATFORM_CAN_INLINE | SLIP_PLATFORM_CAN_STREAMS)) == 0) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "platform \"%s\" has neither inline nor asynchronous streams", vtable->name);
  }
  SLIP_RETURN_IF_ERROR(slip__preflight_host_native(vtable, capabilities));
  SLIP_RETURN_IF_ERROR(slip__preflight_capture_group(vtable, capabilities));
  SLIP_RETURN_IF_ERROR(slip__preflight_binding(vtable));
  plan->options.runtime_kind = SLIP_RUNTIME_HOST_NATIVE;
  return slip_ok_status();
}

static slip_status_t slip__preflight_device(slip__plan_t *plan) {
  int32_t count = 0, current = -1, wanted = plan->options.device;
  const char *name = slip__platform_name(plan->platform);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_platform_device_count(plan->platform, &count), "opening a context on platform \"%s\"", name);
  if (wanted < 0 || wanted >= count || wanted > INT16_MAX) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "device is %" PRId32 ", but platform \"%s\" has devices 0 to %" PRId32, wanted, name,
                       count - 1);
  }
  if (!plan->program) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip__platform_device_current(plan->platform, &current), "opening a context on %s:%" PRId32, name,
                                   wanted);
  }
  if (!plan->program && current != wanted) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "device is %" PRId32 ", but the calling thread's current device is %" PRId32
                       "; select it before opening (it is never selected for you)",
                       wanted, current);
  }
  plan->device.ordinal = (int16_t)wanted;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_platform_device_properties(plan->platform, wanted, &plan->properties),
                                 "opening a context on %s:%" PRId32, name, wanted);
  return slip_ok_status();
}

static slip_status_t slip__preflight_target(slip__plan_t *plan) {
  const char *target = plan->options.target;
  if (!target) return slip_ok_status();
  if (strlen(target) >= sizeof(plan->properties.target) || !slip_platform_target_supported(plan->platform, plan->device.ordinal, target)) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "target is \"%.63s\", which %s:%d does not run; its best is \"%s\"", target,
                       slip__platform_name(plan->platform), plan->device.ordinal, plan->properties.target);
  }
  return slip_ok_status();
}

static slip_status_t slip__preflight_plan(const slip_context_options_t *options, bool program, slip__plan_t *out) {
  memset(out, 0, sizeof(*out));
  out->program = program;
  SLIP_RETURN_IF_ERROR(slip__options_resolve(options, &out->options));
  SLIP_RETURN_IF_ERROR(slip__options_check(&out->options));
  SLIP_RETURN_IF_ERROR(slip__preflight_platform(out));
  // Up to here the platform was only loaded, which is safe in a capture (60): everything behind this line may assume that there is none.
  SLIP_RETURN_IF_ERROR(slip__context_refuse_capture(out->platform, "open"));
  SLIP_RETURN_IF_ERROR(slip__preflight_runtime(out));
  SLIP_RETURN_IF_ERROR(slip__preflight_device(out));
  return slip__preflight_target(out);
}

slip_status_t slip__preflight(const slip_context_options_t *options, slip__plan_t *out) {
  return slip__preflight_plan(options, false, out);
}

slip_status_t slip__preflight_program(const slip_context_options_t *options, slip__plan_t *out) {
  return slip__preflight_plan(options, true, out);
}
