// SPDX-License-Identifier: Apache-2.0
// Loaded code: shared objects for the host, as the cpu backend loads them, but each belongs to a device.
#include <stdio.h>

#include "base/allocator.h"
#include "os/dylib.h"
#include "os/fork.h"
#include "platform/sim/sim.h"

struct slip_module_s {
  slip__dylib_t *library;
  int32_t device;
  uint32_t epoch;  // slip__fork_epoch() of the process that loaded
  struct slip_module_s *next;
};

// Guards the list, which tells a module's handle from anything else.
static pthread_mutex_t slip__sim_module_lock = PTHREAD_MUTEX_INITIALIZER;
static slip_module_t slip__sim_modules;
static uint64_t slip__sim_module_loads;  // so far; guarded

void slip__sim_module_watch_fork(void) {
  slip__fork_guard(&slip__sim_module_lock);
}

// The link that holds |module|; NULL if it is no module. Locked.
static slip_module_t *slip__sim_module_link(slip_module_t module) {
  slip_module_t *link = &slip__sim_modules;
  while (*link && *link != module) link = &(*link)->next;
  return *link ? link : NULL;
}

static slip_status_t slip__sim_module_check(slip_module_t module, const char *call) {
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  bool known = slip__sim_module_link(module) != NULL;
  uint32_t epoch = known ? module->epoch : 0;
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
  if (!known) return slip__sim_error(SLIP__SIM_INVALID_HANDLE, "%s was given %p, which is no loaded module", call, (void *)module);
  if (epoch == slip__fork_epoch()) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_FORKED, "%s: the module was loaded before the process was forked; the child has no device", call);
}

slip_status_t slip__sim_module_load(int32_t device, slip_const_bytes_t binary, slip_module_t *out) {
  static _Atomic uint32_t count;
  slip_allocator_t system = slip_allocator_system();
  char label[32];
  void *module = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_enter("module_load"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, "module_load"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_unsafe("module_load"));
  (void)snprintf(label, sizeof(label), "slip-sim-%u", atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  SLIP_RETURN_IF_ERROR(slip__alloc(system, sizeof(**out), &module));
  slip_module_t made = module;
  made->device = device;
  made->epoch = slip__fork_epoch();
  slip_status_t status = slip__dylib_open_memory(binary, label, system, &made->library);
  if (!slip_status_is_ok(status)) {
    slip__free(system, module, sizeof(*made));
    return status;
  }
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  made->next = slip__sim_modules;
  slip__sim_modules = made;
  ++slip__sim_module_loads;
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
  *out = made;
  return status;
}

// Takes |module| from the list; NULL if another thread did so first.
static slip_module_t slip__sim_module_take(slip_module_t module) {
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  slip_module_t *link = slip__sim_module_link(module);
  if (link) *link = module->next;
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
  return link ? module : NULL;
}

static slip_status_t slip__sim_module_close(slip_module_t module) {
  slip_status_t status = slip__dylib_close(module->library);
  if (!slip_status_is_ok(status)) {  // it stays loaded, and the unload may be repeated
    (void)pthread_mutex_lock(&slip__sim_module_lock);
    module->next = slip__sim_modules;
    slip__sim_modules = module;
    (void)pthread_mutex_unlock(&slip__sim_module_lock);
    return status;
  }
  slip__free(slip_allocator_system(), module, sizeof(*module));
  return status;
}

// Whether no other module of |device| is loaded; |*out_loads| is how many were loaded so far, on any device.
static bool slip__sim_module_alone(slip_module_t module, int32_t device, uint64_t *out_loads) {
  bool alone = true;
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  for (slip_module_t m = slip__sim_modules; m; m = m->next)
    alone = alone && (m == module || m->device != device || m->epoch != slip__fork_epoch());
  *out_loads = slip__sim_module_loads;
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
  return alone;
}

// Functions that run while |module| is the only one, before and after they were counted, run its code. Next to others it may be theirs,
// which is nobody's fault.
static void slip__sim_module_check_use(slip_module_t module, int32_t device) {
  uint64_t before = 0, after = 0;
  bool alone = slip__sim_module_alone(module, device, &before);
  uint32_t running = atomic_load_explicit(&slip__sim_running[device], memory_order_acquire);
  if (running == 0 || !alone || !slip__sim_module_alone(module, device, &after) || before != after) return;
  slip__sim_violation(device, false, SLIP__SIM_ILLEGAL_ADDRESS,
                      "module_unload while %u function%s on the device: code was taken away under %s", running,
                      running == 1 ? " runs" : "s run", running == 1 ? "it" : "them");
}

slip_status_t slip__sim_module_unload(slip_module_t module) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("module_unload"));
  SLIP_RETURN_IF_ERROR(slip__sim_module_check(module, "module_unload"));
  int32_t device = module->device;
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, "module_unload"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_unsafe("module_unload"));
  slip__sim_module_check_use(module, device);
  if (!slip__sim_module_take(module))
    return slip__sim_error(SLIP__SIM_INVALID_HANDLE, "module_unload was given a module that another thread is unloading");
  return slip__sim_module_close(module);
}

slip_status_t slip__sim_module_symbol(slip_module_t module, const char *name, void **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("module_symbol"));
  SLIP_RETURN_IF_ERROR(slip__sim_module_check(module, "module_symbol"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(module->device));
  return slip__dylib_symbol(module->library, name, out);
}

void slip__sim_module_statistics(slip_sim_statistics_t *out) {
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  for (slip_module_t module = slip__sim_modules; module; module = module->next) out->modules += module->epoch == slip__fork_epoch();
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
}

// One of |device|'s modules, taken from the list; NULL when there is none.
static slip_module_t slip__sim_module_take_any(int32_t device) {
  (void)pthread_mutex_lock(&slip__sim_module_lock);
  slip_module_t *link = &slip__sim_modules;
  while (*link && ((*link)->device != device || (*link)->epoch != slip__fork_epoch())) link = &(*link)->next;
  slip_module_t module = *link;
  if (module) *link = module->next;
  (void)pthread_mutex_unlock(&slip__sim_module_lock);
  return module;
}

void slip__sim_module_reset(int32_t device) {
  slip_module_t module;
  slip_status_t status = slip_ok_status();
  while (slip_status_is_ok(status) && (module = slip__sim_module_take_any(device)) != NULL) status = slip__sim_module_close(module);
  slip_status_free(status);
}
