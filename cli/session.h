// SPDX-License-Identifier: Apache-2.0
// One run of an artifact, from the command line to the launches.
#ifndef SLIPSTREAM_CLI_SESSION_H_
#define SLIPSTREAM_CLI_SESSION_H_

#include "bind.h"

typedef struct cli_session_t {
  const cli_invocation_t *invocation;
  cli_place_t place;
  slip_artifact_t *artifact;
  slip_context_t *context;
  bool has_bindings;
  cli_bindings_t bindings;
  slip_frame_t frame;
  int32_t id;
  uint64_t replays;         // of --capture; 0: launched as it is
  slip_graph_exec_t graph;  // the captured launch, where the platform captures
  slip_ticket_t *captured;  // of it
  slip_graph_t *recording;  // the launch, where the library records
  uint64_t first_ns;        // the first launch or replay, from the call to the results
  uint64_t *times_ns;       // of --bench, sorted
  size_t time_count;
} cli_session_t;

// Everything up to the first launch: artifact, stream, arguments, context, callable. Close |*session| in any case.
slip_status_t cli_session_open(cli_session_t *session, const cli_invocation_t *invocation) SLIP_MUST_USE;
// The launch; with --capture its capture and replays. The results are there when it returns.
slip_status_t cli_session_run(cli_session_t *session) SLIP_MUST_USE;
// --bench.
slip_status_t cli_session_bench(cli_session_t *session) SLIP_MUST_USE;
// Gives everything back but the times.
slip_status_t cli_session_close(cli_session_t *session) SLIP_MUST_USE;

static inline bool cli_session_is_simulated(const cli_session_t *session) {
  return session->place.device.platform == SLIP_PLATFORM_SIM;
}

static inline bool cli_session_is_inline(const cli_session_t *session) {
  return session->place.stream == SLIP_STREAM_INLINE;
}

#endif  // SLIPSTREAM_CLI_SESSION_H_
