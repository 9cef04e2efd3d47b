// SPDX-License-Identifier: Apache-2.0
// Options, the thread's current device, and random decisions.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "os/thread.h"
#include "platform/sim/sim.h"

#define SLIP__SIM_PUSH_DEPTH 16
// More would not fit the address space that a sanitizer leaves, with the four-fold range of addresses that a device has.
#define SLIP__SIM_MAX_MEMORY ((uint64_t)1 << 40)

static const slip__sim_config_t slip__sim_defaults = {
    .flavour = SLIP_SIM_FLAVOUR_CUDA,
    .device_count = 2,
    .seed = 1,
    .memory_bytes = (uint64_t)1 << 30,
    .delay_ns = 20000,
    .max_streams = 256,
    .max_events = 4096,
};

// Written under the lock before |loaded|, and by slip_sim_reset while everything rests. The environment's values stay for later resets.
static pthread_mutex_t slip__sim_config_lock = PTHREAD_MUTEX_INITIALIZER;
static slip__sim_config_t slip__sim_environment;
static slip__sim_config_t slip__sim_active;
static _Atomic uint32_t slip__sim_config_loaded;  // release: pairs with the acquire in slip__sim_config

static slip_status_t slip__sim_read_number(const char *name, uint64_t low, uint64_t high, uint64_t *inout) {
  const char *text = getenv(name);
  if (!text || !*text) return slip_ok_status();
  char *end = NULL;
  errno = 0;
  uint64_t value = strtoull(text, &end, 0);
  if (errno != 0 || *end != '\0' || *text == '-' || value < low || value > high) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "environment variable %s is \"%s\"; it must be a number from %" PRIu64 " to %" PRIu64 ", or not set", name, text,
                       low, high);
  }
  *inout = value;
  return slip_ok_status();
}

static slip_status_t slip__sim_read_flavour(uint32_t *inout) {
  const char *text = getenv("SLIP_SIM_FLAVOUR");
  if (!text || !*text) return slip_ok_status();
  if (strcmp(text, "cuda") == 0) {
    *inout = SLIP_SIM_FLAVOUR_CUDA;
  } else if (strcmp(text, "ascend") == 0) {
    *inout = SLIP_SIM_FLAVOUR_ASCEND;
  } else {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "environment variable SLIP_SIM_FLAVOUR is \"%s\"; it must be \"cuda\" or \"ascend\", or not set", text);
  }
  return slip_ok_status();
}

static slip_status_t slip__sim_read_environment(slip__sim_config_t *out) {
  *out = slip__sim_defaults;
  uint64_t devices = (uint64_t)out->device_count;
  slip_status_t status = slip__sim_read_number("SLIP_SIM_DEVICES", 1, SLIP__SIM_MAX_DEVICES, &devices);
  if (slip_status_is_ok(status)) status = slip__sim_read_flavour(&out->flavour);
  if (slip_status_is_ok(status)) status = slip__sim_read_number("SLIP_SIM_SEED", 0, UINT64_MAX, &out->seed);
  if (slip_status_is_ok(status)) status = slip__sim_read_number("SLIP_SIM_DELAY_NS", 0, 1000000000, &out->delay_ns);
  if (slip_status_is_ok(status)) status = slip__sim_read_number("SLIP_SIM_MEMORY", 4096, SLIP__SIM_MAX_MEMORY, &out->memory_bytes);
  out->device_count = (int32_t)devices;
  return status;
}

static slip_status_t slip__sim_config_load_locked(void) {
  slip__sim_config_t config;
  if (atomic_load_explicit(&slip__sim_config_loaded, memory_order_relaxed)) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__sim_read_environment(&config));
  slip__sim_environment = slip__sim_active = config;
  atomic_store_explicit(&slip__sim_config_loaded, 1, memory_order_release);
  return slip_ok_status();
}

slip_status_t slip__sim_config_load(void) {
  if (atomic_load_explicit(&slip__sim_config_loaded, memory_order_acquire)) return slip_ok_status();
  (void)pthread_mutex_lock(&slip__sim_config_lock);
  slip_status_t status = slip__sim_config_load_locked();
  (void)pthread_mutex_unlock(&slip__sim_config_lock);
  return status;
}

const slip__sim_config_t *slip__sim_config(void) {
  if (atomic_load_explicit(&slip__sim_config_loaded, memory_order_acquire)) return &slip__sim_active;
  slip_status_t status = slip__sim_config_load();
  bool loaded = slip_status_is_ok(status);
  slip_status_free(status);
  return loaded ? &slip__sim_active : &slip__sim_defaults;
}

static slip_status_t slip__sim_check_options(const slip_sim_options_t *options) {
  if (options->flavour > SLIP_SIM_FLAVOUR_ASCEND)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "option flavour is %u; see slip_sim_flavour_e", options->flavour);
  if (options->memory_bytes > SLIP__SIM_MAX_MEMORY || (options->memory_bytes > 0 && options->memory_bytes < 4096)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "option memory_bytes is %" PRIu64 "; it must be from 4096 to %" PRIu64 ", or 0 for the default",
                       options->memory_bytes, SLIP__SIM_MAX_MEMORY);
  }
  if (options->delay_ns > 1000000000 && options->delay_ns != UINT64_MAX)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "option delay_ns is %" PRIu64 "; a second (1000000000) is the longest",
                       options->delay_ns);
  return slip_ok_status();
}

// |*out|: what applies with |options| over the environment.
static slip_status_t slip__sim_config_merge(const slip_sim_options_t *options, slip__sim_config_t *out) {
  slip_sim_options_t given = {0};
  if (options) {
    size_t size = options->struct_size;
    if (size < 2 * sizeof(uint32_t))
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "option struct_size is %zu; begin with SLIP_SIM_OPTIONS_INIT", size);
    memcpy(&given, options, size < sizeof(given) ? size : sizeof(given));
  }
  SLIP_RETURN_IF_ERROR(slip__sim_check_options(&given));
  SLIP_RETURN_IF_ERROR(slip__sim_config_load());
  *out = slip__sim_environment;
  if (given.flavour) out->flavour = given.flavour;
  if (given.seed) out->seed = given.seed;
  if (given.memory_bytes) out->memory_bytes = given.memory_bytes;
  if (given.delay_ns) out->delay_ns = given.delay_ns == UINT64_MAX ? 0 : given.delay_ns;
  if (given.max_streams) out->max_streams = given.max_streams;
  if (given.max_events) out->max_events = given.max_events;
  return slip_ok_status();
}

slip_status_t slip__sim_config_check(const slip_sim_options_t *options) {
  slip__sim_config_t config;
  return slip__sim_config_merge(options, &config);
}

slip_status_t slip__sim_config_set(const slip_sim_options_t *options) {
  return slip__sim_config_merge(options, &slip__sim_active);
}

// --- the calling thread's current device

typedef struct slip__sim_thread_t {
  int32_t chosen;
  uint32_t depth;
  int32_t pushed[SLIP__SIM_PUSH_DEPTH];
} slip__sim_thread_t;

static _Thread_local slip__sim_thread_t slip__sim_thread;

int32_t slip__sim_current_device(void) {
  return slip__sim_thread.depth > 0 ? slip__sim_thread.pushed[slip__sim_thread.depth - 1] : slip__sim_thread.chosen;
}

void slip__sim_choose_device(int32_t device) {
  if (slip__sim_thread.depth > 0) {
    slip__sim_thread.pushed[slip__sim_thread.depth - 1] = device;
  } else {
    slip__sim_thread.chosen = device;
  }
}

slip_status_t slip__sim_device_push(int32_t device) {
  if (slip__sim_thread.depth == SLIP__SIM_PUSH_DEPTH)
    return slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "%d devices are pushed on this thread already; pop some", SLIP__SIM_PUSH_DEPTH);
  slip__sim_thread.pushed[slip__sim_thread.depth++] = device;
  return slip_ok_status();
}

slip_status_t slip__sim_device_pop(int32_t device) {
  if (slip__sim_thread.depth == 0)
    return slip__sim_error(SLIP__SIM_INVALID_CONTEXT, "device %d was to be popped, but nothing is pushed on this thread", device);
  int32_t top = slip__sim_current_device();
  if (top != device)
    return slip__sim_error(SLIP__SIM_INVALID_CONTEXT, "device %d was to be popped, but the last pushed is device %d", device, top);
  --slip__sim_thread.depth;
  return slip_ok_status();
}

slip_status_t slip__sim_check_current(int32_t device, const char *call) {
  int32_t current = slip__sim_current_device();
  if (__builtin_expect(current == device, 1)) return slip_ok_status();
  return slip__sim_error(SLIP__SIM_INVALID_CONTEXT,
                         "%s is for device %d, but the calling thread's current device is %d: slip_sim_set_device(%d) first", call, device,
                         current, device);
}

// --- random decisions

static uint64_t slip__sim_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t slip__sim_random(uint64_t where, uint64_t ordinal) {
  return slip__sim_mix(slip__sim_mix(slip__sim_mix(slip__sim_config()->seed) ^ where) ^ ordinal);
}

// Of 16: 10 go on, 3 yield, 2 spin, 1 sleeps. A sleep costs some 50 us whatever is asked, so it is rare.
void slip__sim_delay(uint64_t where, uint64_t ordinal) {
  uint64_t longest = slip__sim_config()->delay_ns;
  if (longest == 0) return;
  uint64_t random = slip__sim_random(where, ordinal);
  uint64_t choice = random & 15, length = random >> 4;
  if (choice < 10) return;
  if (choice < 13) {
    thrd_yield();
  } else if (choice < 15) {
    for (uint64_t turns = length % (1 + longest / 16); turns > 0; --turns) slip__cpu_relax();
  } else {
    uint64_t sleep_ns = length % (longest + 1);
    struct timespec pause = {.tv_sec = (time_t)(sleep_ns / 1000000000), .tv_nsec = (long)(sleep_ns % 1000000000)};
    (void)nanosleep(&pause, NULL);
  }
}
