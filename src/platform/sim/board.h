// SPDX-License-Identifier: Apache-2.0
// What stream.c, worker.c, event.c, capture.c and graph.c share: everything here is guarded by one lock, the board.
//
// The simulator is a referee, not a racer: one lock and two kinds of futex words, each bumped under the lock:
//
//   word                bumped by                                     slept on by
//   slip__sim_progress  whoever finishes an operation, an execution   synchronize, waits for events, executions that wait for their turn,
//                       or ends a stream                              enqueuers that wait for room
//   stream.wake         enqueuers, destroy                            the stream's thread, while its queue is empty
//
// Records. An event's record is a mark: (slot, position), reached when |done| of that slot has come to the position. Slots are never freed
// and positions never fall, so a mark stays meaningful after its stream was destroyed.
//
// Fork. The board is held across every fork, so the child finds it whole. Streams, events, captures and graphs of the parent answer FORKED
// there: their threads are not in the child.
#ifndef SLIPSTREAM_SRC_PLATFORM_SIM_BOARD_H_
#define SLIPSTREAM_SRC_PLATFORM_SIM_BOARD_H_

#include "platform/sim/sim.h"

#define SLIP__SIM_RING         4096u  // operations that may wait in one stream; then enqueuers wait
#define SLIP__SIM_MAX_HANDLES  (1u << 24)
#define SLIP__SIM_STREAM_TAG   0x51u
#define SLIP__SIM_EVENT_TAG    0x53u
#define SLIP__SIM_GRAPH_TAG    0x57u
#define SLIP__SIM_NO_NODE      UINT32_MAX
#define SLIP__SIM_MAX_NODES    (1u << 20)
#define SLIP__SIM_MAX_CAPTURES 64u

typedef struct slip__sim_capture_t slip__sim_capture_t;
typedef struct slip__sim_exec_t slip__sim_exec_t;

// {0, 0} is reached at once: no stream's position 0 has work before it.
typedef struct slip__sim_mark_t {
  uint32_t slot;
  uint64_t position;
} slip__sim_mark_t;

typedef enum slip__sim_work_e {
  SLIP__SIM_WORK_NONE = 0,  // a record of an event; in a graph also a fork or a join
  SLIP__SIM_WORK_HOST,
  SLIP__SIM_WORK_DEVICE,
  SLIP__SIM_WORK_COPY,
  SLIP__SIM_WORK_WAIT,   // streams only
  SLIP__SIM_WORK_GRAPH,  // streams only
} slip__sim_work_e;

// What a stream or a graph's node does.
typedef struct slip__sim_work_t {
  uint32_t kind;  // slip__sim_work_e
  int32_t device;
  union {
    struct {
      void (*function)(void *user);
      void *user;
    } call;  // HOST, DEVICE
    slip__sim_copy_t copy;
    slip__sim_mark_t mark;
    struct {
      slip__sim_exec_t *exec;
      uint64_t turn;
    } graph;
  };
} slip__sim_work_t;

typedef struct slip__sim_stream_t {
  uint32_t index;
  uint32_t generation;
  int32_t device;
  uint32_t epoch;    // slip__fork_epoch() of the process that has the thread
  uint64_t ordinal;  // how many streams were created before: the place of its random decisions
  bool used;
  bool closing;    // being destroyed: takes no more work
  bool abandoned;  // its device was reset: what is left is not done, except host functions
  bool asleep;     // the thread waits for |wake|
  uint64_t base;   // |done| when it was created
  uint64_t tail;
  uint64_t done;
  slip__sim_work_t *ring;
  _Atomic uint32_t wake;
  slip__thread_t thread;
  slip__sim_capture_t *capture;  // it is the origin or a member of
  uint32_t last_node;            // of |capture|: its state, which the next node depends on
} slip__sim_stream_t;

typedef struct slip__sim_event_t {
  uint32_t index;
  uint32_t generation;
  int32_t device;
  uint32_t epoch;  // slip__fork_epoch() of the process that made it
  bool used;
  bool captured;          // the last record lies in a capture
  slip__sim_mark_t mark;  // the last record outside captures
  uint64_t capture_id;
  uint32_t node;
} slip__sim_event_t;

// --- board.c
void slip__sim_board_lock(void);
void slip__sim_board_unlock(void);
// Sleeps, the board unlocked, until something is notified; may return early.
void slip__sim_board_wait(void);
void slip__sim_board_notify(void);
// First thing of every entry: may the caller call at all; and now and then another thread goes first.
slip_status_t slip__sim_board_enter(const char *call) SLIP_MUST_USE;
// A table of pointers to slots that are never freed. Slot |index|, which may be NULL.
typedef struct slip__sim_table_t {
  void **slots;
  uint32_t count;
  uint32_t capacity;
} slip__sim_table_t;
// Adds a zeroed slot of |size_bytes|. OUT_OF_MEMORY.
slip_status_t slip__sim_table_add(slip__sim_table_t *table, size_t size_bytes, void **out, uint32_t *out_index) SLIP_MUST_USE;

static inline void *slip__sim_handle(uint8_t tag, uint32_t index, uint32_t generation) {
  return (void *)(uintptr_t)(tag | (uint64_t)index << 8 | (uint64_t)generation << 32);
}
// The table's slot that |handle| names, whatever its generation; NULL if it can be none.
static inline void *slip__sim_table_find(const slip__sim_table_t *table, uint8_t tag, const void *handle, uint32_t *out_generation) {
  uint64_t bits = (uint64_t)(uintptr_t)handle;
  uint32_t index = (uint32_t)(bits >> 8) & (SLIP__SIM_MAX_HANDLES - 1);
  *out_generation = (uint32_t)(bits >> 32);
  return (uint8_t)bits == tag && index < table->count ? table->slots[index] : NULL;
}

// --- stream.c. All locked.
// INVALID_HANDLE, FORKED.
slip_status_t slip__sim_stream_resolve(slip_stream_t handle, slip__sim_stream_t **out) SLIP_MUST_USE;
// The same, and the thread and the device are fit: INVALID_CONTEXT, the sticky fault.
slip_status_t slip__sim_stream_resolve_current(slip_stream_t handle, const char *call, slip__sim_stream_t **out) SLIP_MUST_USE;
// The same, and |*out| captures or has room for one more operation. The board may be unlocked meanwhile.
slip_status_t slip__sim_stream_admit(slip_stream_t handle, const char *call, slip__sim_stream_t **out) SLIP_MUST_USE;
// Appends work to an admitted stream that does not capture, and takes it over. Returns its mark.
slip__sim_mark_t slip__sim_stream_append(slip__sim_stream_t *stream, const slip__sim_work_t *work);
bool slip__sim_mark_reached(slip__sim_mark_t mark);
// FORKED if it never will be: the work is the parent's.
slip_status_t slip__sim_mark_check(slip__sim_mark_t mark) SLIP_MUST_USE;
// Blocks, the board unlocked. FORKED.
slip_status_t slip__sim_mark_wait(slip__sim_mark_t mark) SLIP_MUST_USE;
// The |index|th slot if it is a stream of this process that is not being destroyed; NULL if not, and past the end, which |*out_end| tells.
slip__sim_stream_t *slip__sim_stream_at(uint32_t index, bool *out_end);

// --- worker.c
// A stream's thread.
void slip__sim_worker_run(void *user);
uint64_t slip__sim_worker_operations(void);  // locked
// Does one piece of work of a stream or a graph (no WAIT, no GRAPH). Unlocked. Device functions and copies are left out if |abandoned| or
// on a broken device; host functions always run, other than a vendor's: who counts on completion gets it.
void slip__sim_work_execute(const slip__sim_work_t *work, bool abandoned);
// Keeps both sides of a copy in use, or ends that; nothing for other work.
void slip__sim_work_hold(const slip__sim_work_t *work);
void slip__sim_work_release(const slip__sim_work_t *work);
// Calls |function| so that it may not call the platform. Unlocked.
void slip__sim_call_guarded(slip__sim_role_e role, int32_t device, void (*function)(void *user), void *user);

// --- event.c. All locked.
slip_status_t slip__sim_event_resolve(slip_event_t handle, slip__sim_event_t **out) SLIP_MUST_USE;
uint32_t slip__sim_event_alive(void);
void slip__sim_event_drop(int32_t device);  // -1: all

// --- capture.c. All locked but the last.
typedef struct slip__sim_retain_t {
  struct slip__sim_retain_t *next;
  void (*release)(void *user);
  void *user;
} slip__sim_retain_t;

// A graph in the making. Nodes are numbered so that dependencies come first. |stream->last_node| is always one of them: begin, fork and
// join make nodes without work, so that every stream's state is one node.
typedef struct slip__sim_node_t {
  slip__sim_work_t work;
  uint32_t before[2];     // nodes that must have run, or SLIP__SIM_NO_NODE
  uint32_t first_edge;    // graph.c: nodes that depend on this one; an edge is 2 * node + place in |before|
  uint32_t next_edge[2];  // the next edge of the same |before|
  uint32_t pending;       // graph.c: of |before|, in this execution; capture.c: seen
} slip__sim_node_t;

// OK if |stream| does not capture. CAPTURE_UNSUPPORTED if it does (which breaks the capture in the cuda flavour), CAPTURE_INVALIDATED.
slip_status_t slip__sim_capture_forbid(slip__sim_stream_t *stream, const char *call) SLIP_MUST_USE;
// slip__sim_check_unsafe, locked.
slip_status_t slip__sim_capture_check_unsafe(const char *call) SLIP_MUST_USE;
// Breaks capture |id|, if it lives, in the flavour that does so.
void slip__sim_capture_offend(uint64_t id, const char *call);
void slip__sim_capture_break_by_flavour(slip__sim_capture_t *capture, const char *call);
// |stream| captures: CAPTURE_INVALIDATED.
slip_status_t slip__sim_capture_check(const slip__sim_stream_t *stream) SLIP_MUST_USE;
// |stream| captures: adds |work|. CAPTURE_INVALIDATED, OUT_OF_MEMORY.
slip_status_t slip__sim_capture_add(slip__sim_stream_t *stream, const slip__sim_work_t *work) SLIP_MUST_USE;
// |stream| captures: |event| takes its state.
slip_status_t slip__sim_capture_record(const slip__sim_stream_t *stream, slip__sim_event_t *event) SLIP_MUST_USE;
// |stream| captures or |event| was recorded in a capture: the table in capture.c.
slip_status_t slip__sim_capture_wait(slip__sim_stream_t *stream, const slip__sim_event_t *event) SLIP_MUST_USE;
uint32_t slip__sim_capture_alive(void);
// Ends the captures that began on |device| (-1: all), breaks those that it took part in, and hands the retains to the caller.
void slip__sim_capture_drop(int32_t device, slip__sim_retain_t **inout_retains);

// --- graph.c
// Locked. Takes over nodes and retains; on failure they stay with the caller.
slip_status_t slip__sim_exec_make(int32_t device, slip__sim_node_t *nodes, uint32_t count, uint32_t capacity, slip__sim_retain_t *retains,
                                  slip_graph_exec_t *out) SLIP_MUST_USE;
// Waits for |turn|, executes, and lets go. Unlocked.
void slip__sim_exec_run(slip__sim_exec_t *exec, uint64_t turn, bool abandoned);
void slip__sim_nodes_free(slip__sim_node_t *nodes, uint32_t count, uint32_t capacity);
// Runs and frees them. Unlocked.
void slip__sim_retains_run(slip__sim_retain_t *retains);
uint32_t slip__sim_exec_alive(void);  // locked
// The handles of |device|'s graphs (-1: all) go stale; what will never be executed again hands its retains to the caller. Locked.
void slip__sim_exec_drop(int32_t device, slip__sim_retain_t **inout_retains);

#endif  // SLIPSTREAM_SRC_PLATFORM_SIM_BOARD_H_
