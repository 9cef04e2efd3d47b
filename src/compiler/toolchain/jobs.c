// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/jobs.h"

#include "base/allocator.h"
#include "os/thread.h"

#define SLIP__JOBS_MAX_THREADS 64
#define SLIP__JOB_TIMEOUT_NS   (600ull * 1000 * 1000 * 1000)

// |lock| protects next, failed and progress; a job belongs to the thread that took it.
typedef struct slip__job_queue_t {
  pthread_mutex_t lock;
  slip__job_t *jobs;
  size_t count;
  size_t next;
  bool failed;
  const char *directory;
  slip_allocator_t allocator;
  slip__progress_t *progress;
} slip__job_queue_t;

static slip__job_t *slip__job_take(slip__job_queue_t *queue) {
  pthread_mutex_lock(&queue->lock);
  slip__progress_t *progress = queue->progress;
  if (!progress->cancelled && progress->ask_cancelled) progress->cancelled = progress->ask_cancelled(progress->user);
  slip__job_t *job = !queue->failed && !progress->cancelled && queue->next < queue->count ? &queue->jobs[queue->next++] : NULL;
  pthread_mutex_unlock(&queue->lock);
  return job;
}

static void slip__job_done(slip__job_queue_t *queue, const slip__job_t *job) {
  slip__progress_t *progress = queue->progress;
  pthread_mutex_lock(&queue->lock);
  if (!slip_status_is_ok(job->status) || job->result.exit_code != 0) queue->failed = true;
  ++progress->done;
  if (progress->report) progress->report(progress->user, progress->done, progress->total, job->name);
  pthread_mutex_unlock(&queue->lock);
}

static void slip__job_worker(void *user) {
  slip__job_queue_t *queue = user;
  for (slip__job_t *job = slip__job_take(queue); job; job = slip__job_take(queue)) {
    job->ran = true;
    job->status = slip__process_run(job->arguments, queue->directory, SLIP__JOB_TIMEOUT_NS, queue->allocator, &job->result);
    slip__job_done(queue, job);
  }
}

void slip__jobs_run(slip__job_t *jobs, size_t count, const char *directory, uint32_t parallel, slip_allocator_t allocator,
                    slip__progress_t *progress) {
  slip__job_queue_t queue = {PTHREAD_MUTEX_INITIALIZER, jobs, count, 0, false, directory, allocator, progress};
  slip__thread_t threads[SLIP__JOBS_MAX_THREADS] = {0};
  size_t helpers = parallel > 1 ? parallel - 1 : 0;
  if (helpers > SLIP__JOBS_MAX_THREADS) helpers = SLIP__JOBS_MAX_THREADS;
  if (helpers >= count) helpers = count ? count - 1 : 0;
  for (size_t i = 0; i < helpers; ++i) {
    // A helper that cannot start only costs speed: this thread runs all that is left.
    slip_status_free(slip__thread_start(&threads[i], "slip-compile", slip__job_worker, &queue));
  }
  slip__job_worker(&queue);
  for (size_t i = 0; i < helpers; ++i) slip__thread_join(&threads[i]);
  pthread_mutex_destroy(&queue.lock);
}

void slip__jobs_free(slip__job_t *jobs, size_t count, slip_allocator_t allocator) {
  for (size_t i = 0; i < count; ++i) {
    slip_status_free(jobs[i].status);
    if (jobs[i].result.output.data) slip__free(allocator, jobs[i].result.output.data, jobs[i].result.output.size + 1);
    jobs[i] = (slip__job_t){0};
  }
}
