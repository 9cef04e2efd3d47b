// SPDX-License-Identifier: Apache-2.0
// What slipstream/sim.h offers: reset, device management, failures on request, and what is there.
#include <stdio.h>
#include <string.h>

#include "platform/dispatch.h"
#include "platform/sim/sim.h"

static _Atomic uint64_t slip__sim_counters[SLIP__PLATFORM_CALL_COUNT];
static _Atomic uint64_t slip__sim_total;
static _Atomic uint64_t slip__sim_lifecycle;

void slip__sim_count(uint32_t call) {
  atomic_fetch_add_explicit(&slip__sim_counters[call], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&slip__sim_total, 1, memory_order_relaxed);
}

uint64_t slip__sim_call_total(void) {
  return atomic_load_explicit(&slip__sim_total, memory_order_relaxed);
}

static slip_status_t slip__sim_check_ordinal(int32_t device, const char *call) {
  int32_t count = slip__sim_config()->device_count;
  if (device >= 0 && device < count) return slip_ok_status();
  return slip__sim_error(SLIP__SIM_INVALID_DEVICE, "%s was given device %d; there are devices 0 to %d", call, device, count - 1);
}

// --- what is there

static void slip__sim_collect(slip_sim_statistics_t *out) {
  *out = (slip_sim_statistics_t){.calls = slip__sim_call_total()};
  slip__sim_stream_statistics(out);
  slip__sim_memory_statistics(out);
  slip__sim_module_statistics(out);
}

slip_status_t slip_sim_statistics(slip_sim_statistics_t *out) {
  slip_sim_statistics_t statistics;
  if (!out || out->struct_size < 2 * sizeof(uint32_t))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_sim_statistics needs a structure with its struct_size filled in");
  size_t size = out->struct_size < sizeof(statistics) ? out->struct_size : sizeof(statistics);
  slip__sim_collect(&statistics);
  statistics.struct_size = out->struct_size;
  memcpy(out, &statistics, size);
  return slip_ok_status();
}

// SLIP__PLATFORM_CALL_COUNT for unknown names.
static slip__platform_call_e slip__sim_call_by_name(const char *name) {
  uint32_t call = 0;
  while (call < SLIP__PLATFORM_CALL_COUNT && (!name || strcmp(slip__platform_call_name((slip__platform_call_e)call), name) != 0)) ++call;
  return (slip__platform_call_e)call;
}

uint64_t slip_sim_call_count(const char *call) {
  slip__platform_call_e kind = slip__sim_call_by_name(call);
  return kind < SLIP__PLATFORM_CALL_COUNT ? atomic_load_explicit(&slip__sim_counters[kind], memory_order_relaxed) : 0;
}

// --- reset

// Adds "3 streams" to |text| if |count| is not 0.
static void slip__sim_list(char *text, size_t capacity, uint32_t count, const char *what) {
  size_t used = strlen(text);
  if (count == 0) return;
  (void)snprintf(text + used, capacity - used, "%s%u %s%s", used ? ", " : "", count, what, count == 1 ? "" : "s");
}

static slip_status_t slip__sim_check_rest(void) {
  slip_sim_statistics_t alive;
  char text[200] = "";
  slip__sim_collect(&alive);
  slip__sim_list(text, sizeof(text), alive.streams, "stream");
  slip__sim_list(text, sizeof(text), alive.events, "event");
  slip__sim_list(text, sizeof(text), alive.allocations, "device allocation");
  slip__sim_list(text, sizeof(text), alive.host_allocations, "page-locked allocation");
  slip__sim_list(text, sizeof(text), alive.modules, "module");
  slip__sim_list(text, sizeof(text), alive.graphs, "graph");
  slip__sim_list(text, sizeof(text), alive.captures, "capture");
  if (text[0] == '\0') return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_BUSY, "slip_sim_reset: %s must be given back first; an open context has some of each: close it, too", text);
}

static void slip__sim_purge(int32_t device) {
  slip__sim_stream_reset(device);
  slip__sim_memory_reset(device);
  slip__sim_module_reset(device);
}

slip_status_t slip_sim_reset(const slip_sim_options_t *options) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("slip_sim_reset"));
  SLIP_RETURN_IF_ERROR(slip__sim_config_check(options));
  // What a broken device holds nobody can give back.
  for (int32_t device = 0; device < slip__sim_config()->device_count; ++device) {
    if (slip__sim_device_broken(device)) slip__sim_purge(device);
  }
  SLIP_RETURN_IF_ERROR(slip__sim_check_rest());
  slip__sim_stream_reset(-1);
  slip__sim_memory_reset(-1);
  slip__sim_report_reset();
  slip__platform_fault_clear();
  for (size_t i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) atomic_store_explicit(&slip__sim_counters[i], 0, memory_order_relaxed);
  return slip__sim_config_set(options);
}

// --- device management

// Counts a lifecycle call.
static slip_status_t slip__sim_lifecycle_enter(int32_t device, const char *call) {
  atomic_fetch_add_explicit(&slip__sim_lifecycle, 1, memory_order_relaxed);
  SLIP_RETURN_IF_ERROR(slip__sim_enter(call));
  return slip__sim_check_ordinal(device, call);
}

slip_status_t slip_sim_set_device(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_lifecycle_enter(device, "slip_sim_set_device"));
  slip__sim_choose_device(device);
  return slip_ok_status();
}

slip_status_t slip_sim_synchronize_device(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_lifecycle_enter(device, "slip_sim_synchronize_device"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, "slip_sim_synchronize_device"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_unsafe("slip_sim_synchronize_device"));
  return slip__sim_stream_synchronize_device(device);
}

slip_status_t slip_sim_reset_device(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_lifecycle_enter(device, "slip_sim_reset_device"));
  slip__sim_purge(device);
  slip__sim_device_heal(device);
  return slip_ok_status();
}

uint64_t slip_sim_lifecycle_calls(void) {
  return atomic_load_explicit(&slip__sim_lifecycle, memory_order_relaxed);
}

// --- what went wrong, and making it go wrong

uint64_t slip_sim_violation_count(void) {
  return slip__sim_violation_total();
}

size_t slip_sim_violation(uint64_t index, char *buffer, size_t capacity) {
  return slip__sim_violation_text(index, buffer, buffer ? capacity : 0);
}

slip_status_t slip_sim_fail_call(const char *call, uint64_t nth, bool persistent) {
  slip__platform_call_e kind = slip__sim_call_by_name(call);
  if (kind == SLIP__PLATFORM_CALL_COUNT)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_sim_fail_call: there is no platform call \"%s\"; see slip_platform_vtable_t",
                       call ? call : "(null)");
  if (nth == 0)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_sim_fail_call counts calls of %s from 1, but was asked for number 0", call);
  slip__platform_fault_set(kind, nth, persistent);
  return slip_ok_status();
}

void slip_sim_fail_clear(void) {
  slip__platform_fault_clear();
}

slip_status_t slip_sim_break_device(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_check_ordinal(device, "slip_sim_break_device"));
  slip__sim_device_break(device, SLIP__SIM_ILLEGAL_ADDRESS, "slip_sim_break_device was called");
  return slip_ok_status();
}
