// SPDX-License-Identifier: Apache-2.0
// Instantiated graphs: nodes, their executions, and what they keep.
//
// An execution is an operation of the stream it was launched on. Each launch takes a turn; executions of one graph run in the order of
// their turns, one at a time. A turn can only wait for earlier calls, so turns cannot deadlock. Within one execution a ready node is
// drawn at random after the other: any order that the dependencies allow, none that they do not.
//
// A graph is *alive* until its handle was destroyed and its last turn is over; then its retains are run by whoever came last.
#include "base/allocator.h"
#include "os/fork.h"
#include "platform/sim/board.h"

// Where executions draw their random numbers: beyond all streams' ordinals.
#define SLIP__SIM_EXEC_WHERE (UINT64_C(1) << 40)

struct slip__sim_exec_t {
  uint32_t index;
  uint32_t generation;
  int32_t device;
  uint32_t epoch;
  uint64_t ordinal;
  bool alive;
  bool destroyed;     // its handle is stale
  uint64_t launched;  // turns given
  uint64_t finished;
  slip__sim_node_t *nodes;
  uint32_t count;
  uint32_t capacity;
  uint32_t *ready;  // |count|, for the execution
  slip__sim_retain_t *retains;
};

// Guarded by the board.
static slip__sim_table_t slip__sim_execs;
static uint64_t slip__sim_execs_made;

// --- retains and nodes

void slip__sim_retains_run(slip__sim_retain_t *retains) {
  while (retains) {
    slip__sim_retain_t *retain = retains;
    retains = retain->next;
    slip__sim_call_guarded(SLIP__SIM_ROLE_HOST_FUNCTION, -1, retain->release, retain->user);
    slip__free(slip_allocator_system(), retain, sizeof(*retain));
  }
}

void slip__sim_nodes_free(slip__sim_node_t *nodes, uint32_t count, uint32_t capacity) {
  for (uint32_t i = 0; i < count; ++i) {
    if (nodes[i].work.kind == SLIP__SIM_WORK_COPY) slip__sim_copy_discard(&nodes[i].work.copy);
  }
  slip__free(slip_allocator_system(), nodes, capacity * sizeof(*nodes));
}

static void slip__sim_nodes_link(slip__sim_node_t *nodes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) nodes[i].first_edge = SLIP__SIM_NO_NODE;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t k = 0; k < 2; ++k) {
      uint32_t before = nodes[i].before[k];
      if (before == SLIP__SIM_NO_NODE) continue;
      nodes[i].next_edge[k] = nodes[before].first_edge;
      nodes[before].first_edge = 2 * i + k;
    }
  }
}

// --- handles

static slip_status_t slip__sim_exec_resolve(slip_graph_exec_t handle, slip__sim_exec_t **out) {
  uint32_t generation = 0;
  slip__sim_exec_t *exec = slip__sim_table_find(&slip__sim_execs, SLIP__SIM_GRAPH_TAG, handle, &generation);
  *out = NULL;
  if (!exec || !exec->alive || exec->destroyed || exec->generation != generation) {
    return slip__sim_error(SLIP__SIM_INVALID_HANDLE, "%p is no graph of the sim platform, or was destroyed; use slip_stream_capture_end",
                           (void *)handle);
  }
  if (exec->epoch != slip__fork_epoch()) {
    return SLIP_STATUS(SLIP_CODE_FORKED, "the graph was captured before fork() and is the parent's; capture it in the child, or use spawn");
  }
  *out = exec;
  return slip_ok_status();
}

uint32_t slip__sim_exec_alive(void) {
  uint32_t alive = 0;
  for (uint32_t i = 0; i < slip__sim_execs.count; ++i) {
    const slip__sim_exec_t *exec = slip__sim_execs.slots[i];
    alive += exec->alive && exec->epoch == slip__fork_epoch();
  }
  return alive;
}

static slip_status_t slip__sim_exec_take_slot(slip__sim_exec_t **out) {
  for (uint32_t i = 0; i < slip__sim_execs.count; ++i) {
    *out = slip__sim_execs.slots[i];
    if (!(*out)->alive) return slip_ok_status();
  }
  void *slot = NULL;
  uint32_t index = 0;
  SLIP_RETURN_IF_ERROR(slip__sim_table_add(&slip__sim_execs, sizeof(slip__sim_exec_t), &slot, &index));
  *out = slot;
  (*out)->index = index;
  return slip_ok_status();
}

slip_status_t slip__sim_exec_make(int32_t device, slip__sim_node_t *nodes, uint32_t count, uint32_t capacity, slip__sim_retain_t *retains,
                                  slip_graph_exec_t *out) {
  slip__sim_exec_t *exec = NULL;
  void *ready = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_exec_take_slot(&exec));
  SLIP_RETURN_IF_ERROR(slip__alloc_array(slip_allocator_system(), count, sizeof(uint32_t), &ready));
  slip__sim_nodes_link(nodes, count);
  *exec = (slip__sim_exec_t){.index = exec->index,
                             .generation = exec->generation + 1,
                             .device = device,
                             .epoch = slip__fork_epoch(),
                             .ordinal = slip__sim_execs_made++,
                             .alive = true,
                             .nodes = nodes,
                             .count = count,
                             .capacity = capacity,
                             .ready = ready,
                             .retains = retains};
  *out = slip__sim_handle(SLIP__SIM_GRAPH_TAG, exec->index, exec->generation);
  return slip_ok_status();
}

// Frees what nobody will execute any more, and hands over what it kept. Locked.
static void slip__sim_exec_retire(slip__sim_exec_t *exec, slip__sim_retain_t **inout_retains) {
  if (!exec->alive || !exec->destroyed || exec->finished != exec->launched) return;
  slip__sim_nodes_free(exec->nodes, exec->count, exec->capacity);
  slip__free(slip_allocator_system(), exec->ready, exec->count * sizeof(uint32_t));
  slip__sim_retain_t **tail = &exec->retains;
  while (*tail) tail = &(*tail)->next;
  *tail = *inout_retains;
  *inout_retains = exec->retains;
  exec->nodes = NULL;
  exec->ready = NULL;
  exec->retains = NULL;
  exec->alive = false;
}

// --- execution

static uint32_t slip__sim_exec_prepare(slip__sim_exec_t *exec) {
  uint32_t ready = 0;
  for (uint32_t i = 0; i < exec->count; ++i) {
    slip__sim_node_t *node = &exec->nodes[i];
    node->pending = (node->before[0] != SLIP__SIM_NO_NODE ? 1u : 0u) + (node->before[1] != SLIP__SIM_NO_NODE ? 1u : 0u);
    if (node->pending == 0) exec->ready[ready++] = i;
  }
  return ready;
}

// Only the execution whose turn it is touches |pending| and |ready|.
static void slip__sim_exec_walk(slip__sim_exec_t *exec, uint64_t turn, bool abandoned) {
  uint64_t where = SLIP__SIM_EXEC_WHERE + exec->ordinal, ordinal = turn << 20;
  uint32_t ready = slip__sim_exec_prepare(exec);
  for (; ready > 0; ++ordinal) {
    uint32_t drawn = (uint32_t)(slip__sim_random(where, ordinal) % ready);
    slip__sim_node_t *node = &exec->nodes[exec->ready[drawn]];
    exec->ready[drawn] = exec->ready[--ready];
    if (node->work.kind != SLIP__SIM_WORK_NONE && !abandoned) slip__sim_delay(where, ordinal);
    slip__sim_work_execute(&node->work, abandoned);
    for (uint32_t edge = node->first_edge; edge != SLIP__SIM_NO_NODE; edge = exec->nodes[edge / 2].next_edge[edge % 2]) {
      if (--exec->nodes[edge / 2].pending == 0) exec->ready[ready++] = edge / 2;
    }
  }
}

static void slip__sim_exec_hold(const slip__sim_exec_t *exec) {
  for (uint32_t i = 0; i < exec->count; ++i) slip__sim_work_hold(&exec->nodes[i].work);
}

static void slip__sim_exec_release(const slip__sim_exec_t *exec) {
  for (uint32_t i = 0; i < exec->count; ++i) slip__sim_work_release(&exec->nodes[i].work);
}

void slip__sim_exec_run(slip__sim_exec_t *exec, uint64_t turn, bool abandoned) {
  slip__sim_retain_t *retains = NULL;
  slip__sim_board_lock();
  while (exec->finished != turn) slip__sim_board_wait();
  slip__sim_board_unlock();
  slip__sim_exec_walk(exec, turn, abandoned);
  slip__sim_exec_release(exec);
  slip__sim_board_lock();
  ++exec->finished;
  slip__sim_exec_retire(exec, &retains);
  slip__sim_board_notify();
  slip__sim_board_unlock();
  slip__sim_retains_run(retains);
}

// --- entries

static slip_status_t slip__sim_graph_launch_locked(slip_graph_exec_t handle, slip_stream_t stream_handle) {
  slip__sim_exec_t *exec = NULL;
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_admit(stream_handle, "graph_launch", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_exec_resolve(handle, &exec));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(exec->device));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_forbid(stream, "graph_launch"));
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_GRAPH, .device = stream->device, .graph = {exec, exec->launched++}};
  slip__sim_exec_hold(exec);
  (void)slip__sim_stream_append(stream, &work);
  return slip_ok_status();
}

slip_status_t slip__sim_graph_launch(slip_graph_exec_t graph, slip_stream_t stream) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("graph_launch"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_graph_launch_locked(graph, stream);
  slip__sim_board_unlock();
  return status;
}

static slip_status_t slip__sim_graph_destroy_locked(slip_graph_exec_t handle, slip__sim_retain_t **out_retains) {
  slip__sim_exec_t *exec = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_exec_resolve(handle, &exec));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(exec->device));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("graph_destroy"));
  exec->destroyed = true;
  slip__sim_exec_retire(exec, out_retains);
  return slip_ok_status();
}

slip_status_t slip__sim_graph_destroy(slip_graph_exec_t graph) {
  slip__sim_retain_t *retains = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("graph_destroy"));
  if (!graph) return slip_ok_status();
  slip__sim_board_lock();
  slip_status_t status = slip__sim_graph_destroy_locked(graph, &retains);
  slip__sim_board_unlock();
  slip__sim_retains_run(retains);
  return status;
}

void slip__sim_exec_drop(int32_t device, slip__sim_retain_t **inout_retains) {
  for (uint32_t i = 0; i < slip__sim_execs.count; ++i) {
    slip__sim_exec_t *exec = slip__sim_execs.slots[i];
    if (!exec->alive || exec->epoch != slip__fork_epoch() || (device >= 0 && exec->device != device)) continue;
    exec->destroyed = true;
    slip__sim_exec_retire(exec, inout_retains);
  }
  if (device < 0) slip__sim_execs_made = 0;
}
