// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "slipstream/sim.h"

#define CLI_BENCH_MAX   10000000
#define CLI_PROGRESS_NS 200000000u

static uint64_t cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// --- Opening ---------------------------------------------------------------------------------------------------------

// What is plainly something else is named as such; the library says the rest.
static slip_status_t cli_check_artifact(const char *path) {
  struct stat info;
  char file[4096];
  if (stat(path, &info) != 0) return slip_ok_status();
  if (!S_ISDIR(info.st_mode)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is a file; run takes an artifact, the directory that slip compile makes", path);
  }
  int length = snprintf(file, sizeof(file), "%s/manifest.json", path);
  if (length < (int)sizeof(file) && access(file, F_OK) != 0 && errno == ENOENT) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the directory \"%s\" is no artifact: it has no manifest.json", path);
  }
  return slip_ok_status();
}

// The device is this program's to choose, and to make current where the platform has such a thing: the library never does.
static slip_status_t cli_session_device(cli_session_t *s, const char *platform) {
  uint64_t device = 0;
  int32_t count = 0;
  SLIP_RETURN_IF_ERROR(cli_number(s->invocation, "device", INT16_MAX, 0, &device));
  SLIP_RETURN_IF_ERROR(slip_platform_find(platform, &s->place.platform));
  SLIP_RETURN_IF_ERROR(slip_platform_device_count(s->place.platform, &count));
  if (device >= (uint64_t)count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--device %llu: platform \"%s\" has devices 0 to %d", (unsigned long long)device,
                       platform, count - 1);
  }
  s->place.device = (slip_device_t){slip_platform_from_name(platform), (int16_t)device};
  return cli_session_is_simulated(s) && device > 0 ? slip_sim_set_device((int32_t)device) : slip_ok_status();
}

// Only the cpu runs a launch on the calling thread, which is its default.
static slip_status_t cli_session_stream(cli_session_t *s, const char *platform) {
  const char *kind = cli_value(s->invocation, "stream");
  bool has_inline = s->place.device.platform == SLIP_PLATFORM_CPU, wants_inline = kind ? strcmp(kind, "inline") == 0 : has_inline;
  if (wants_inline && !has_inline) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                       "--stream inline: platform \"%s\" runs launches on streams only; leave the option away, or give async", platform);
  }
  if (wants_inline) {
    s->place.stream = SLIP_STREAM_INLINE;
    return slip_ok_status();
  }
  return slip_stream_create(s->place.platform, s->place.device.ordinal, &s->place.stream);
}

static slip_status_t cli_session_context(cli_session_t *s, const char *platform) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  uint64_t threads = 0;
  SLIP_RETURN_IF_ERROR(cli_number(s->invocation, "threads", 4096, 0, &threads));
  options.platform = platform;
  options.device = s->place.device.ordinal;
  options.target = cli_value(s->invocation, "target");
  options.scheduler_threads = threads > 1 ? (uint32_t)threads : 0;
  options.flags = threads == 1 ? SLIP_CONTEXT_SINGLE_THREAD : SLIP_CONTEXT_NONE;
  if (cli_value(s->invocation, "skip-build-check")) {
    options.flags |= SLIP_CONTEXT_SKIP_BUILD_CHECK;
    fprintf(stderr, "slip run: the build identity of platform \"%s\" is not checked\n", platform);
  }
  SLIP_RETURN_IF_ERROR(slip_context_open(&options, &s->context));
  return slip_context_prepare_artifact(s->context, s->artifact, &s->id);
}

slip_status_t cli_session_open(cli_session_t *s, const cli_invocation_t *invocation) {
  const char *platform = cli_value(invocation, "platform");
  const slip_artifact_options_t options = {(uint32_t)sizeof(options), 0, cli_value(invocation, "target")};
  if (!platform) platform = "cpu";
  *s = (cli_session_t){.invocation = invocation, .id = -1};
  SLIP_RETURN_IF_ERROR(cli_number(invocation, "capture", CLI_BENCH_MAX, 0, &s->replays));
  SLIP_RETURN_IF_ERROR(cli_check_artifact(invocation->positional[0]));
  SLIP_RETURN_IF_ERROR(slip_artifact_open(invocation->positional[0], &options, slip_allocator_system(), &s->artifact));
  SLIP_RETURN_IF_ERROR(cli_session_device(s, platform));
  SLIP_RETURN_IF_ERROR(cli_session_stream(s, platform));
  s->has_bindings = true;
  SLIP_RETURN_IF_ERROR(
      cli_bindings_initialize(&s->bindings, invocation, slip_artifact_params(s->artifact), slip_artifact_name(s->artifact), &s->place));
  SLIP_RETURN_IF_ERROR(cli_bindings_frame(&s->bindings, &s->frame));  // what is wrong with the arguments is said before anything is claimed
  return cli_session_context(s, platform);
}

// --- Launching -------------------------------------------------------------------------------------------------------

// Waits for what was enqueued and tells how it ended.
static slip_status_t cli_session_replayed(cli_session_t *s) {
  SLIP_RETURN_IF_ERROR(slip_stream_synchronize(s->place.platform, s->place.stream));
  slip_status_t status = slip_ticket_query(s->captured);  // NOT_READY while the graph lives, unless a replay faulted
  if (slip_status_code(status) != SLIP_CODE_NOT_READY) return status;
  slip_status_free(status);
  return slip_ok_status();
}

// One launch or replay, from the call to the results being there.
static slip_status_t cli_session_launch(cli_session_t *s, uint64_t *out_ns) {
  slip_ticket_t *ticket = NULL;
  uint64_t start = cli_now_ns();
  slip_status_t status;
  if (s->graph) {
    status = slip_graph_exec_launch(s->place.platform, s->graph, s->place.stream);
    if (slip_status_is_ok(status)) status = cli_session_replayed(s);
  } else {
    slip_ticket_t **out = cli_session_is_inline(s) ? NULL : &ticket;
    status = s->recording ? slip_graph_launch(s->recording, s->place.stream, out)
                          : slip_context_launch(s->context, s->id, &s->frame, s->place.stream, out);
    if (ticket) status = slip_status_join(status, slip_ticket_wait(ticket, -1));
  }
  *out_ns = cli_now_ns() - start;
  slip_ticket_release(ticket);
  return status;
}

static slip_status_t cli_session_record(cli_session_t *s) {
  SLIP_RETURN_IF_ERROR(slip_graph_create(s->context, &s->recording));
  return slip_graph_add(s->recording, s->id, &s->frame, NULL);
}

// On the stream where the platform can, else by the library itself. A capture that began is ended, whatever happens in it.
static slip_status_t cli_session_capture(cli_session_t *s) {
  slip_device_properties_t properties;
  SLIP_RETURN_IF_ERROR(slip_platform_device_properties(s->place.platform, s->place.device.ordinal, &properties));
  if (!properties.capture_supported) return cli_session_record(s);
  SLIP_RETURN_IF_ERROR(slip_stream_capture_begin(s->place.platform, s->place.stream, SLIP_CAPTURE_MODE_GLOBAL));
  slip_status_t status = slip_context_launch(s->context, s->id, &s->frame, s->place.stream, &s->captured);
  return slip_status_join(status, slip_stream_capture_end(s->place.platform, s->place.stream, &s->graph));
}

slip_status_t cli_session_run(cli_session_t *s) {
  if (s->replays) SLIP_RETURN_IF_ERROR_ANNOTATED(cli_session_capture(s), "capturing the launch");
  SLIP_RETURN_IF_ERROR(cli_session_launch(s, &s->first_ns));
  uint64_t ns;
  for (uint64_t i = 1; i < s->replays; ++i) {  // a stream's back to back
    SLIP_RETURN_IF_ERROR(s->graph ? slip_graph_exec_launch(s->place.platform, s->graph, s->place.stream) : cli_session_launch(s, &ns));
  }
  return s->graph ? cli_session_replayed(s) : slip_ok_status();
}

static int cli_time_order(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

slip_status_t cli_session_bench(cli_session_t *s) {
  uint64_t count = 0;
  SLIP_RETURN_IF_ERROR(cli_number(s->invocation, "bench", CLI_BENCH_MAX, 0, &count));
  if (count == 0) return slip_ok_status();
  s->times_ns = calloc(count, sizeof(*s->times_ns));
  if (!s->times_ns) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %llu times", (unsigned long long)count);
  bool shown = false;
  for (uint64_t last = cli_now_ns(); s->time_count < count; ++s->time_count) {
    SLIP_RETURN_IF_ERROR(cli_session_launch(s, &s->times_ns[s->time_count]));
    if (s->invocation->json || !isatty(2) || cli_now_ns() - last < CLI_PROGRESS_NS) continue;
    last = cli_now_ns();
    shown = true;
    fprintf(stderr, "\r\033[K[%zu/%llu] launches", s->time_count + 1, (unsigned long long)count);
  }
  if (shown) fprintf(stderr, "\r\033[K");
  qsort(s->times_ns, s->time_count, sizeof(*s->times_ns), cli_time_order);
  return slip_ok_status();
}

// --- Closing ---------------------------------------------------------------------------------------------------------

// A simulated device that device code has broken takes no call any more, not even to give things back. Its owner is this program: it resets
// the device, which takes with it what lay there.
static slip_status_t cli_session_heal(cli_session_t *s, bool *out_healed) {
  *out_healed = false;
  if (!cli_session_is_simulated(s) || !s->place.stream) return slip_ok_status();
  slip_status_t status = slip_stream_synchronize(s->place.platform, s->place.stream);
  bool broken = slip_status_code(status) == SLIP_CODE_DEVICE;
  slip_status_free(status);
  if (!broken) return slip_ok_status();
  s->place.stream = NULL;
  s->graph = NULL;
  if (s->has_bindings) cli_bindings_forget(&s->bindings);
  *out_healed = true;
  return slip_sim_reset_device(s->place.device.ordinal);
}

slip_status_t cli_session_close(cli_session_t *s) {
  bool healed;
  slip_status_t status = cli_session_heal(s, &healed);
  if (s->graph) status = slip_status_join(status, slip_graph_exec_destroy(s->place.platform, s->graph));
  slip_ticket_release(s->captured);
  status = slip_status_join(status, slip_graph_destroy(s->recording));
  slip_status_t closed = s->context ? slip_context_close(s->context) : slip_ok_status();
  if (healed && slip_context_state(s->context) == SLIP_CONTEXT_CLOSED) {  // that the device was reset under it is known
    slip_status_free(closed);
    closed = slip_ok_status();
  }
  status = slip_status_join(status, closed);
  if (s->place.stream && !cli_session_is_inline(s))
    status = slip_status_join(status, slip_stream_destroy(s->place.platform, s->place.stream));
  slip_frame_deinitialize(&s->frame);
  if (s->has_bindings) status = slip_status_join(status, cli_bindings_deinitialize(&s->bindings));
  if (s->context) status = slip_status_join(status, slip_context_destroy(s->context));
  slip_artifact_release(s->artifact);
  return status;
}
