// SPDX-License-Identifier: Apache-2.0
// A parent process to be forked, and what its children do.
#ifndef SLIP_FORK_WORLD_H_
#define SLIP_FORK_WORLD_H_

#include "fixture.h"
#include "os/thread.h"
#include "slipstream/graph.h"

// What a process with an open context holds. Before open all is NULL.
typedef struct fork_world_t {
  slip_context_t *context;
  slip_platform_t *platform;
  slip_stream_t stream;
  slip_ticket_t *ticket;  // of a launch that waits at |door|
  slip_graph_t *graph;    // with one node
  slip_frame_t frame;
  int32_t add, control;
  int64_t door[4];
  float x[4], y[4], z[4];
} fork_world_t;

// Opens, prepares, records a graph, launches what waits at the door.
void fork_world_open(fork_world_t *world);
// Launches and replays once more, opens the door and looks at everything: nobody may have touched it.
void fork_world_check(fork_world_t *world);
void fork_world_close(fork_world_t *world);

// How a child ends after its body returned 0.
typedef enum fork_end_e {
  FORK_END_AT_ONCE,   // _exit
  FORK_END_NORMALLY,  // exit: handlers, destructors
  FORK_END_BY_EXEC,
  FORK_END_COUNT,
} fork_end_e;

// Forks a child that runs |body| and ends. Fails the test if the child hangs, dies, writes to stderr or |body| returns other than 0 (which
// is then told).
void fork_run(int (*body)(void *user), void *user, fork_end_e end);
// Around each round of a thread that works while others fork. Without a sanitizer they do nothing. The sanitizers' allocators hold locks of
// their own that a child inherits held (the C library's does not), so that with them a fork must not meet a thread inside malloc.
void fork_round_begin(void);
void fork_round_end(void);
// The body for children of a kernel-mode process: every public function refuses. |user| is a fork_world_t.
int fork_everything_is_refused(void *user);
// Each exported symbol that is |ours| must be in |names|, of which there are |count|; at least |minimum| must be ours. |table| is for the
// message.
void fork_check_symbols(const char *table, const char *const *names, size_t count, bool (*ours)(const char *symbol), uint32_t minimum);
// That table names each function of a context that the library exports.
void fork_check_table(void);
// The body for children that start afresh: open, prepare, launch, close, and a grandchild that is refused. |user| is not used.
int fork_everything_works(void *user);
// The same for children of a process with several threads. Under the thread sanitizer, which does not know threads that such a child
// starts, it starts none.
int fork_everything_works_after_threads(void *user);

// Code of |status|, which is freed.
slip_code_t fork_code(slip_status_t status);
uint32_t fork_rounds(uint32_t usual);
// 0 at first, shared with children.
uint32_t *fork_shared_word(void);
// Forks so far, for the RESULT line.
uint64_t fork_count(void);

#endif  // SLIP_FORK_WORLD_H_
