// SPDX-License-Identifier: Apache-2.0
// What went wrong: vendor numbers, violations, sticky faults of devices; and who is calling.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "os/fork.h"
#include "platform/sim/sim.h"

#define SLIP__SIM_KEPT_VIOLATIONS 64
#define SLIP__SIM_SENTENCE        600

typedef struct slip__sim_fault_t {
  _Atomic uint32_t broken;  // release: pairs with the acquire of slip__sim_device_broken
  slip__sim_error_e error;
  char sentence[SLIP__SIM_SENTENCE];
} slip__sim_fault_t;

// Guards the texts; innermost of all locks.
static pthread_mutex_t slip__sim_report_lock = PTHREAD_MUTEX_INITIALIZER;
static slip__sim_fault_t slip__sim_faults[SLIP__SIM_MAX_DEVICES];
static char slip__sim_violations[SLIP__SIM_KEPT_VIOLATIONS][SLIP__SIM_SENTENCE + 64];
static uint64_t slip__sim_violations_seen;

_Thread_local slip__sim_role_e slip__sim_role = SLIP__SIM_ROLE_HOST;
_Thread_local int32_t slip__sim_running_device = -1;
_Atomic uint32_t slip__sim_running[SLIP__SIM_MAX_DEVICES];

void slip__sim_report_watch_fork(void) {
  slip__fork_guard(&slip__sim_report_lock);
}

// --- vendor numbers

typedef struct slip__sim_vendor_t {
  int32_t cuda;
  int32_t ascend;
  const char *text;
} slip__sim_vendor_t;

static const slip__sim_vendor_t slip__sim_vendor[SLIP__SIM_ERROR_COUNT] = {
#define SLIP__SIM_ERROR_ROW(name, cuda, ascend, text) [SLIP__SIM_##name] = {cuda, ascend, text},
    SLIP__SIM_ERROR_TABLE(SLIP__SIM_ERROR_ROW)
#undef SLIP__SIM_ERROR_ROW
};

int64_t slip__sim_error_number(slip__sim_error_e error) {
  return slip__sim_is_ascend() ? slip__sim_vendor[error].ascend : slip__sim_vendor[error].cuda;
}

static slip_code_t slip__sim_error_code(slip__sim_error_e error) {
  switch (error) {
    case SLIP__SIM_INVALID_VALUE:
    case SLIP__SIM_INVALID_DEVICE:
    case SLIP__SIM_INVALID_CONTEXT:
    case SLIP__SIM_INVALID_HANDLE:
      return SLIP_CODE_INVALID_ARGUMENT;
    case SLIP__SIM_OUT_OF_MEMORY:
    case SLIP__SIM_OUT_OF_RESOURCES:
      return SLIP_CODE_OUT_OF_MEMORY;
    default:
      return SLIP_CODE_DEVICE;
  }
}

slip_status_t slip__sim_error(slip__sim_error_e error, const char *format, ...) {
  char sentence[SLIP__SIM_SENTENCE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  return SLIP_STATUS_PLATFORM(slip__sim_error_code(error), slip__sim_error_number(error), "%s (%s)", sentence,
                              slip__sim_vendor[error].text);
}

// --- violations and sticky faults

static void slip__sim_break_locked(int32_t device, slip__sim_error_e error, const char *sentence) {
  slip__sim_fault_t *fault = &slip__sim_faults[device];
  if (atomic_load_explicit(&fault->broken, memory_order_relaxed)) return;  // the first one stays
  fault->error = error;
  (void)snprintf(fault->sentence, sizeof(fault->sentence), "%s", sentence);
  atomic_store_explicit(&fault->broken, 1, memory_order_release);
}

static void slip__sim_record_locked(int32_t device, bool fatal, const char *sentence) {
  uint64_t index = slip__sim_violations_seen++;
  if (index >= SLIP__SIM_KEPT_VIOLATIONS) return;
  char place[32] = "";
  if (device >= 0) (void)snprintf(place, sizeof(place), "device %d: ", device);
  (void)snprintf(slip__sim_violations[index], sizeof(slip__sim_violations[0]), "%s%s%s", place, sentence,
                 device >= 0 && fatal ? " (the device is broken now)" : "");
}

void slip__sim_device_break(int32_t device, slip__sim_error_e error, const char *sentence) {
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  slip__sim_break_locked(device, error, sentence);
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
}

void slip__sim_violation(int32_t device, bool fatal, slip__sim_error_e error, const char *format, ...) {
  char sentence[SLIP__SIM_SENTENCE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  slip__sim_record_locked(device, fatal, sentence);
  if (device >= 0 && fatal) slip__sim_break_locked(device, error, sentence);
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
}

bool slip__sim_device_broken(int32_t device) {
  return atomic_load_explicit(&slip__sim_faults[device].broken, memory_order_acquire) != 0;
}

slip_status_t slip__sim_check_device(int32_t device) {
  if (__builtin_expect(!slip__sim_device_broken(device), 1)) return slip_ok_status();
  slip__sim_fault_t *fault = &slip__sim_faults[device];
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  slip_status_t status =
      SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, slip__sim_error_number(fault->error), "device %d is broken until it is reset: %s (%s)", device,
                           fault->sentence, slip__sim_vendor[fault->error].text);
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
  return status;
}

static void slip__sim_heal_locked(slip__sim_fault_t *fault) {
  atomic_store_explicit(&fault->broken, 0, memory_order_release);
}

void slip__sim_device_heal(int32_t device) {
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  slip__sim_heal_locked(&slip__sim_faults[device]);
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
}

void slip__sim_report_reset(void) {
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  for (size_t i = 0; i < SLIP__SIM_MAX_DEVICES; ++i) slip__sim_heal_locked(&slip__sim_faults[i]);
  slip__sim_violations_seen = 0;
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
}

uint64_t slip__sim_violation_total(void) {
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  uint64_t total = slip__sim_violations_seen;
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
  return total;
}

size_t slip__sim_violation_text(uint64_t index, char *buffer, size_t capacity) {
  int length = 0;
  (void)pthread_mutex_lock(&slip__sim_report_lock);
  bool kept = index < slip__sim_violations_seen && index < SLIP__SIM_KEPT_VIOLATIONS;
  if (kept || capacity > 0) length = snprintf(buffer, capacity, "%s", kept ? slip__sim_violations[index] : "");
  (void)pthread_mutex_unlock(&slip__sim_report_lock);
  return (size_t)length;
}

// --- who is calling

slip_status_t slip__sim_enter(const char *call) {
  if (__builtin_expect(slip__sim_role == SLIP__SIM_ROLE_HOST, 1)) return slip_ok_status();
  const char *place = slip__sim_role == SLIP__SIM_ROLE_HOST_FUNCTION ? "a host function of a stream" : "a device function";
  slip__sim_violation(slip__sim_running_device, false, SLIP__SIM_NOT_PERMITTED, "%s was called from inside %s", call, place);
  return slip__sim_error(SLIP__SIM_NOT_PERMITTED, "%s was called from inside %s, which must not call the platform", call, place);
}
