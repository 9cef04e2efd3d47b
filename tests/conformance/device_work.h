// SPDX-License-Identifier: Apache-2.0
// Device work that reads or writes a piece of device memory, as a host-native kernel does.
#ifndef SLIP_CONFORMANCE_DEVICE_WORK_H_
#define SLIP_CONFORMANCE_DEVICE_WORK_H_

#include "conformance.h"

typedef struct conform_work_t {
  slip_platform_t *platform;
  void *address;
  uint64_t size_bytes;  // of the mapping
  uint32_t access;      // slip_map_bits_e
  int64_t write_from, write_bytes;
  uint8_t value;  // what is written: value, value + 1 ...
  uint8_t seen;   // the last byte read
  uint64_t runs;
  slip_code_t mapped, unmapped;  // what the platform said
  int64_t number;                // of the failure
  _Atomic uint32_t ended;        // runs that are over: a broken device's synchronisation does not wait for them
} conform_work_t;

static inline void conform_work_note(conform_work_t *work, slip_status_t status, slip_code_t *code) {
  *code = slip_status_code(status);
  if (!slip_status_is_ok(status)) work->number = slip_status_platform_code(status);
  slip_status_free(status);
}

static inline void conform_work_touch(conform_work_t *work) {
  void *view = NULL;
  ++work->runs;
  conform_work_note(work, slip__platform_device_map(work->platform, 0, work->address, work->size_bytes, work->access, &view),
                    &work->mapped);
  if (work->mapped != SLIP_CODE_OK) return;
  volatile uint8_t *bytes = view;
  if ((work->access & SLIP_MAP_READ) && work->size_bytes > 0) work->seen = bytes[work->size_bytes - 1];
  for (int64_t i = 0; i < work->write_bytes; ++i) bytes[work->write_from + i] = (uint8_t)(work->value + i);
  slip_status_t status = slip__platform_device_unmap(work->platform, 0, work->address, work->size_bytes, work->access);
  // One that was made to fail has not been made.
  if (slip_status_platform_code(status) == SLIP__PLATFORM_INJECTED)
    slip_status_free(slip__platform_device_unmap(work->platform, 0, work->address, work->size_bytes, work->access));
  conform_work_note(work, status, &work->unmapped);
}

// For slip__platform_stream_launch.
static inline void conform_work_run(void *user) {
  conform_work_t *work = user;
  conform_work_touch(work);
  atomic_fetch_add(&work->ended, 1);
}

#endif  // SLIP_CONFORMANCE_DEVICE_WORK_H_
