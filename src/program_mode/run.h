// SPDX-License-Identifier: Apache-2.0
// One run: its arguments as the caller gave them and as the device sees them (bind.c), its place in the order (run.c), its end (result.c).
//
//   step          by, and where                                      leaves
//   plan          submit: arguments checked as one call frame,       pins on callable and blocks; nothing of the device
//                 with addresses that nobody has for outputs
//   materialise   submit, one at a time (|preparing|), while the     blocks of outputs and copies; inputs uploaded; the frame with the
//                 run before executes                                device's addresses
//   execute       the executor, in order                             uploads that had to wait, launch, downloads
//   finish        the executor                                       copies freed, pins gone, then |done|
// An input whose host memory an earlier, unfinished run is going to write is uploaded by execute instead (|deferred|).
//
// References: one of each handle, one of the worker until the run is done. The last one frees outputs that nobody took.
#ifndef SLIPSTREAM_SRC_PROGRAM_MODE_RUN_H_
#define SLIPSTREAM_SRC_PROGRAM_MODE_RUN_H_

#include "program_mode/worker.h"

typedef enum slip__binding_kind_e {
  SLIP__BINDING_NONE,      // a scalar, or what the frame refuses
  SLIP__BINDING_OWNED,     // worker memory that the caller passed
  SLIP__BINDING_IN_PLACE,  // host memory that the device reaches
  SLIP__BINDING_STAGED,    // host memory with a copy on the device
  SLIP__BINDING_OUTPUT,    // omitted by the caller: the run's own
} slip__binding_kind_e;

typedef struct slip__binding_t {
  slip_tensor_t given;   // as the caller knows it
  slip_tensor_t device;  // as the frame does
  slip__block_t *block;  // pinned until the run is done; NULL where there is none, or another binding of the same range has it
  void *host;            // STAGED: the range on the host
  uint64_t bytes;
  uint32_t leader;  // STAGED: the first binding of the same range, whose block it shares
  uint8_t kind;     // slip__binding_kind_e
  bool upload, download;
  bool taken;
} slip__binding_t;

struct slip_run_t {
  _Atomic uint32_t references;
  _Atomic uint32_t done;
  slip_worker_t *worker;
  slip__callable_t *callable;
  slip_signature_t *params;  // retained: results outlive the callable
  slip_run_t *next;
  uint64_t number;  // from 1, in the order of acceptance
  slip_status_t status;
  uint32_t flags;
  bool reframe;  // the device's addresses or signature differ from those that plan checked
  bool deferred;
  bool under_way;  // failed, and the device may still use its memory: that stays until close has made sure that nothing runs
  size_t block_bytes;
  slip_frame_t frame;
  uint32_t count;  // parameters
  slip__binding_t *bindings;
  slip_arg_t *args;
};

// bind.c. Plan pins under the lock, which it takes itself; discard undoes plan and materialise, at any point of either.
slip_status_t slip__run_plan(slip_run_t *run, const slip_arg_t *args, size_t arg_count) SLIP_MUST_USE;
slip_status_t slip__run_materialise(slip_run_t *run) SLIP_MUST_USE;
void slip__run_discard(slip_run_t *run);
slip_status_t slip__run_upload(slip_run_t *run) SLIP_MUST_USE;
slip_status_t slip__run_download(slip_run_t *run) SLIP_MUST_USE;
// Finish: copies are freed, other memory is unpinned. Outputs stay the run's.
void slip__run_unbind(slip_run_t *run);

// result.c
void slip__run_unreference(slip_run_t *run);

#endif  // SLIPSTREAM_SRC_PROGRAM_MODE_RUN_H_
