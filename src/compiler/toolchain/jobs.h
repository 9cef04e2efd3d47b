// SPDX-License-Identifier: Apache-2.0
// Runs command lines in parallel.
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_JOBS_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_JOBS_H_

#include "os/process.h"
#include "slipstream/compile.h"

typedef struct slip__job_t {
  const char *const *arguments;
  const char *name;  // for progress
  // Results. |output| is freed by slip__jobs_free().
  bool ran;
  slip_status_t status;  // the command could not be run
  slip__process_result_t result;
} slip__job_t;

// How far the whole build is; called under the queue's lock, one call at a time.
typedef struct slip__progress_t {
  slip_compile_progress_fn_t report;
  bool (*ask_cancelled)(void *user);  // NULL: never
  bool cancelled;                     // it has said so
  void *user;
  uint32_t done;
  uint32_t total;
} slip__progress_t;

// Runs the jobs in |directory|, in order, at most |parallel| at once, the calling thread included. After the first failure (a status or a
// non-zero exit), and when |progress| is cancelled, none is started any more. Blocks until those that run have ended. Results are in the
// jobs.
void slip__jobs_run(slip__job_t *jobs, size_t count, const char *directory, uint32_t parallel, slip_allocator_t allocator,
                    slip__progress_t *progress);
void slip__jobs_free(slip__job_t *jobs, size_t count, slip_allocator_t allocator);

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_JOBS_H_
