// SPDX-License-Identifier: Apache-2.0
// Recorded graphs of the workloads, and their replay. The recordings are built by hand, edge by edge, as the peers' graphs are.
#ifndef SLIP_BENCH_GRAPH_REPLAY_H_
#define SLIP_BENCH_GRAPH_REPLAY_H_

#include "graph/engine.h"

typedef enum bench_recorded_e {
  BENCH_RECORDED_NODES,      // w5
  BENCH_RECORDED_WAVEFRONT,  // w3
  BENCH_RECORDED_SINGLE,     // one node
  BENCH_RECORDED_COUNT,
} bench_recorded_e;

// Replays |graph| on |words|, |repeats| times, and returns the nanoseconds. |planned|: by the plan for each thread, else by what is ready.
// The first call for a graph makes the recording, before the clock starts.
double bench_replay(slip__engine_t *engine, slip__workspace_t *workspace, bench_recorded_e graph, bool planned, slip_otensor_t *words,
                    uint32_t repeats);
// Before the engine is stopped.
void bench_replay_stop(slip__workspace_t *workspace);

#endif  // SLIP_BENCH_GRAPH_REPLAY_H_
