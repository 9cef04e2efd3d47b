// SPDX-License-Identifier: Apache-2.0
#include "graph/crash.h"

#include <inttypes.h>
#include <stdio.h>

#include "graph/fault.h"
#include "os/trap.h"
#include "slipstream/context.h"
#include "slipstream/crash.h"

#define SLIP__CRASH_NEAR 65536u  // longer is no kernel: the instruction lies elsewhere

typedef struct slip__crash_place_t {
  const slip__slot_t *slot;
  uint32_t block;
} slip__crash_place_t;

static _Thread_local slip__crash_place_t slip__crash_place;
// Set once, before any thread of an engine is started.
static bool slip__crash_reports;

bool slip__crash_wanted(void) {
  return slip__crash_reports;
}

void slip__crash_note(const slip__slot_t *slot, uint32_t block) {
  if (slot) slip__trap_thread();
  slip__crash_place = (slip__crash_place_t){slot, block};
}

// "step+0x1c" where the instruction lies in the kernel, else its address.
static void slip__crash_instruction(const slip__slot_t *slot, const void *instruction, char *text, size_t capacity) {
  const slip_object_kernel_t *kernel =
      slot->flags & SLIP__SLOT_OF_NODE ? &slot->workspace->run->object->kernels[slot->node_kernel] : slot->kernel;
  uintptr_t offset = (uintptr_t)instruction - (uintptr_t)kernel->run;
  if (kernel->name && offset < SLIP__CRASH_NEAR) {
    (void)snprintf(text, capacity, "%s+0x%zx", kernel->name, (size_t)offset);
  } else {
    (void)snprintf(text, capacity, "%p", instruction);
  }
}

// In the signal handler. snprintf allocates nothing for these conversions, and the thread was in a kernel, which calls nothing.
static size_t slip__crash_describe(const slip__trap_t *trap, char *text, size_t capacity) {
  const slip__slot_t *slot = slip__crash_place.slot;
  int length;
  if (slot) {
    char place[512], instruction[128];
    slip__fault_place(slot, place, sizeof(place));
    slip__crash_instruction(slot, trap->instruction, instruction, sizeof(instruction));
    length =
        snprintf(text, capacity, SLIP_CRASH_KERNEL "received %s at address %p, instruction %s, in block %" PRIu32 " of %" PRIu32 "; %s",
                 trap->signal, trap->address, instruction, slip__crash_place.block, slot->block_count, place);
  } else {
    length = snprintf(text, capacity,
                      SLIP_CRASH_OTHER "received %s at address %p, instruction %p, outside of kernels: look at the orchestration",
                      trap->signal, trap->address, trap->instruction);
  }
  return length < 0 ? 0 : (size_t)length < capacity ? (size_t)length : capacity - 1;
}

slip_status_t slip_crash_report_to(int descriptor) {
  if (slip_process_mode() != SLIP_MODE_UNCLAIMED) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "the process has opened a context already; ask for crash reports before the first open");
  }
  SLIP_RETURN_IF_ERROR(slip__trap_install(descriptor, slip__crash_describe));
  slip__crash_reports = true;
  return slip_ok_status();
}
