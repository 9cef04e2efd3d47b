// SPDX-License-Identifier: Apache-2.0
// Executes the calls of a capture rule: see capture_rules.h.
#include <stdio.h>
#include <string.h>

#include "capture_rules.h"
#include "os/thread.h"
#include "platform/dispatch.h"

#define CONFORM_STREAMS 4  // A B C D
#define CONFORM_EVENTS  4  // e f g h
#define CONFORM_BYTES   64

typedef struct conform_stage_t {
  slip_platform_t *platform;
  slip_stream_t streams[CONFORM_STREAMS];
  slip_event_t events[CONFORM_EVENTS];
  void *memory, *pinned, *spare, *spare_pinned;  // the spare ones are there to be freed
  uint8_t pageable[CONFORM_BYTES];
  slip_graph_exec_t graphs[4];
  size_t graph_count;
  void *made;  // by allocate, create-stream ...
  char made_what;
  uint64_t runs;
} conform_stage_t;

typedef struct conform_step_call_t {
  conform_stage_t *stage;
  char verb[24];
  char names[2][16];  // arguments
  slip_status_t status;
} conform_step_call_t;

static int32_t conform_stage_device(size_t index) {
  return index == CONFORM_STREAMS - 1 ? 1 : 0;
}

static void conform_stage_count(void *user) {
  ++*(uint64_t *)user;
}

// --- setting up and tidying up; |status| keeps the first failure

static slip_status_t conform_stage_begin(conform_stage_t *stage) {
  int32_t devices = 0;
  slip_status_t status = slip_platform_device_count(stage->platform, &devices);
  for (size_t i = 0; i < CONFORM_STREAMS && slip_status_is_ok(status); ++i) {
    int32_t device = conform_stage_device(i);
    if (device >= devices) continue;
    status = slip__platform_device_push(stage->platform, device);
    if (slip_status_is_ok(status)) status = slip_stream_create(stage->platform, device, &stage->streams[i]);
    if (slip_status_is_ok(status)) status = slip_event_create(stage->platform, device, &stage->events[i]);
    if (slip_status_is_ok(status)) status = slip__platform_device_pop(stage->platform, device);
  }
  if (slip_status_is_ok(status)) status = slip_memory_allocate(stage->platform, 0, CONFORM_BYTES, &stage->memory);
  if (slip_status_is_ok(status)) status = slip_memory_allocate(stage->platform, 0, CONFORM_BYTES, &stage->spare);
  if (slip_status_is_ok(status)) status = slip_host_allocate(stage->platform, CONFORM_BYTES, &stage->pinned);
  if (slip_status_is_ok(status)) status = slip_host_allocate(stage->platform, CONFORM_BYTES, &stage->spare_pinned);
  if (slip_status_is_ok(status)) status = slip__platform_memory_fill(stage->platform, 0, stage->memory, 1, CONFORM_BYTES);
  if (slip_status_is_ok(status)) memset(stage->pinned, 2, CONFORM_BYTES);
  return status;
}

static slip_status_t conform_stage_end_streams(conform_stage_t *stage) {
  slip_status_t status = slip_ok_status();
  for (size_t i = 0; i < CONFORM_STREAMS; ++i) {
    int32_t device = conform_stage_device(i);
    if (!stage->streams[i] && !stage->events[i]) continue;
    status = slip_status_join(status, slip__platform_device_push(stage->platform, device));
    if (stage->streams[i]) status = slip_status_join(status, slip_stream_destroy(stage->platform, stage->streams[i]));
    if (stage->events[i]) status = slip_status_join(status, slip_event_destroy(stage->platform, stage->events[i]));
    status = slip_status_join(status, slip__platform_device_pop(stage->platform, device));
  }
  return status;
}

static slip_status_t conform_stage_end(conform_stage_t *stage) {
  slip_platform_t *platform = stage->platform;
  slip_status_t status = slip_ok_status();
  for (size_t i = 0; i < stage->graph_count; ++i) status = slip_status_join(status, slip_graph_exec_destroy(platform, stage->graphs[i]));
  status = slip_status_join(status, conform_stage_end_streams(stage));
  if (stage->made && stage->made_what == 's') status = slip_status_join(status, slip_stream_destroy(platform, stage->made));
  if (stage->made && stage->made_what == 'e') status = slip_status_join(status, slip_event_destroy(platform, stage->made));
  if (stage->made && stage->made_what == 'm') status = slip_status_join(status, slip_memory_free(platform, 0, stage->made));
  if (stage->made && stage->made_what == 'h') status = slip_status_join(status, slip_host_free(platform, stage->made));
  if (stage->memory) status = slip_status_join(status, slip_memory_free(platform, 0, stage->memory));
  if (stage->spare) status = slip_status_join(status, slip_memory_free(platform, 0, stage->spare));
  if (stage->pinned) status = slip_status_join(status, slip_host_free(platform, stage->pinned));
  if (stage->spare_pinned) status = slip_status_join(status, slip_host_free(platform, stage->spare_pinned));
  return status;
}

// --- the verbs

static slip_stream_t *conform_stage_stream(conform_step_call_t *call, int argument) {
  size_t index = (size_t)(call->names[argument][0] - 'A');
  return &call->stage->streams[index < CONFORM_STREAMS ? index : 0];
}
static slip_event_t *conform_stage_event(conform_step_call_t *call, int argument) {
  size_t index = (size_t)(call->names[argument][0] - 'e');
  return &call->stage->events[index < CONFORM_EVENTS ? index : 0];
}

static slip_status_t conform_do_begin(conform_step_call_t *call) {
  const char *mode = call->names[1];
  uint32_t value = !strcmp(mode, "relaxed")        ? SLIP_CAPTURE_MODE_RELAXED
                   : !strcmp(mode, "thread-local") ? SLIP_CAPTURE_MODE_THREAD_LOCAL
                                                   : SLIP_CAPTURE_MODE_GLOBAL;
  return slip_stream_capture_begin(call->stage->platform, *conform_stage_stream(call, 0), value);
}
static slip_status_t conform_do_end(conform_step_call_t *call) {
  slip_graph_exec_t graph = NULL;
  slip_status_t status = slip_stream_capture_end(call->stage->platform, *conform_stage_stream(call, 0), &graph);
  if (graph) call->stage->graphs[call->stage->graph_count++] = graph;
  if (slip_status_is_ok(status) == (graph == NULL)) {
    slip_status_free(status);
    return SLIP_STATUS(SLIP_CODE_INTERNAL, "a capture's end must give a graph on success, and none on failure");
  }
  return status;
}
static slip_status_t conform_do_state(conform_step_call_t *call) {
  slip_capture_info_t info;
  SLIP_RETURN_IF_ERROR(slip__platform_thread_capture_info(call->stage->platform, &info));
  return slip_stream_capture_info(call->stage->platform, *conform_stage_stream(call, 0), &info);
}
static slip_status_t conform_do_record(conform_step_call_t *call) {
  return slip_event_record(call->stage->platform, *conform_stage_event(call, 0), *conform_stage_stream(call, 1));
}
static slip_status_t conform_do_wait(conform_step_call_t *call) {
  return slip_stream_wait_event(call->stage->platform, *conform_stage_stream(call, 0), *conform_stage_event(call, 1));
}
static slip_status_t conform_do_query(conform_step_call_t *call) {
  return slip_stream_query(call->stage->platform, *conform_stage_stream(call, 0));
}
static slip_status_t conform_do_synchronize(conform_step_call_t *call) {
  return slip_stream_synchronize(call->stage->platform, *conform_stage_stream(call, 0));
}
static slip_status_t conform_do_query_event(conform_step_call_t *call) {
  return slip_event_query(call->stage->platform, *conform_stage_event(call, 0));
}
static slip_status_t conform_do_synchronize_event(conform_step_call_t *call) {
  return slip_event_synchronize(call->stage->platform, *conform_stage_event(call, 0));
}
static slip_status_t conform_do_host(conform_step_call_t *call) {
  return slip_stream_enqueue_host(call->stage->platform, *conform_stage_stream(call, 0), conform_stage_count, &call->stage->runs);
}
static slip_status_t conform_do_kernel(conform_step_call_t *call) {
  return slip__platform_stream_launch(call->stage->platform, *conform_stage_stream(call, 0), conform_stage_count, &call->stage->runs);
}
static slip_status_t conform_do_copy_pinned(conform_step_call_t *call) {
  return slip_memory_copy_async(call->stage->platform, *conform_stage_stream(call, 0), call->stage->memory, call->stage->pinned,
                                CONFORM_BYTES, SLIP_COPY_HOST_TO_DEVICE);
}
static slip_status_t conform_do_copy_pageable(conform_step_call_t *call) {
  return slip_memory_copy_async(call->stage->platform, *conform_stage_stream(call, 0), call->stage->memory, call->stage->pageable,
                                CONFORM_BYTES, SLIP_COPY_HOST_TO_DEVICE);
}
static slip_status_t conform_do_allocate(conform_step_call_t *call) {
  call->stage->made_what = 'm';
  return slip_memory_allocate(call->stage->platform, 0, CONFORM_BYTES, &call->stage->made);
}
static slip_status_t conform_do_allocate_host(conform_step_call_t *call) {
  call->stage->made_what = 'h';
  return slip_host_allocate(call->stage->platform, CONFORM_BYTES, &call->stage->made);
}
static slip_status_t conform_do_create_stream(conform_step_call_t *call) {
  call->stage->made_what = 's';
  return slip_stream_create(call->stage->platform, 0, &call->stage->made);
}
static slip_status_t conform_do_create_event(conform_step_call_t *call) {
  call->stage->made_what = 'e';
  return slip_event_create(call->stage->platform, 0, &call->stage->made);
}
static slip_status_t conform_forget(slip_status_t status, void **what) {
  if (slip_status_is_ok(status)) *what = NULL;
  return status;
}
static slip_status_t conform_do_free(conform_step_call_t *call) {
  return conform_forget(slip_memory_free(call->stage->platform, 0, call->stage->spare), &call->stage->spare);
}
static slip_status_t conform_do_free_host(conform_step_call_t *call) {
  return conform_forget(slip_host_free(call->stage->platform, call->stage->spare_pinned), &call->stage->spare_pinned);
}
static slip_status_t conform_do_destroy_stream(conform_step_call_t *call) {
  slip_stream_t *stream = conform_stage_stream(call, 0);
  return conform_forget(slip_stream_destroy(call->stage->platform, *stream), stream);
}
static slip_status_t conform_do_destroy_event(conform_step_call_t *call) {
  slip_event_t *event = conform_stage_event(call, 0);
  return conform_forget(slip_event_destroy(call->stage->platform, *event), event);
}
static slip_status_t conform_do_fill(conform_step_call_t *call) {
  return slip__platform_memory_fill(call->stage->platform, 0, call->stage->memory, 3, CONFORM_BYTES);
}
static slip_status_t conform_do_copy(conform_step_call_t *call) {
  return slip_memory_copy(call->stage->platform, 0, call->stage->memory, call->stage->pageable, CONFORM_BYTES, SLIP_COPY_HOST_TO_DEVICE);
}
// The refusal comes before the bytes are looked at.
static slip_status_t conform_do_load(conform_step_call_t *call) {
  static const uint8_t bytes[CONFORM_BYTES] = {1};
  slip_module_t module = NULL;
  return slip__platform_module_load(call->stage->platform, 0, (slip_const_bytes_t){bytes, sizeof(bytes)}, &module);
}
static slip_graph_exec_t conform_stage_graph(const conform_stage_t *stage) {
  return stage->graph_count > 0 ? stage->graphs[stage->graph_count - 1] : NULL;
}
static slip_status_t conform_do_launch(conform_step_call_t *call) {
  return slip_graph_exec_launch(call->stage->platform, conform_stage_graph(call->stage), *conform_stage_stream(call, 0));
}
static slip_status_t conform_do_destroy(conform_step_call_t *call) {
  slip_status_t status = slip_graph_exec_destroy(call->stage->platform, conform_stage_graph(call->stage));
  if (slip_status_is_ok(status)) --call->stage->graph_count;
  return status;
}
static slip_status_t conform_do_bind(conform_step_call_t *call) {
  return slip__platform_device_push(call->stage->platform, 1);
}
static slip_status_t conform_do_unbind(conform_step_call_t *call) {
  return slip__platform_device_pop(call->stage->platform, 1);
}

static const struct {
  const char *verb;
  slip_status_t (*run)(conform_step_call_t *call);
} conform_verbs[] = {
    {"begin", conform_do_begin},
    {"end", conform_do_end},
    {"state-of", conform_do_state},
    {"record", conform_do_record},
    {"wait", conform_do_wait},
    {"query", conform_do_query},
    {"synchronize", conform_do_synchronize},
    {"query-event", conform_do_query_event},
    {"synchronize-event", conform_do_synchronize_event},
    {"host", conform_do_host},
    {"kernel", conform_do_kernel},
    {"copy-pinned", conform_do_copy_pinned},
    {"copy-pageable", conform_do_copy_pageable},
    {"allocate", conform_do_allocate},
    {"allocate-host", conform_do_allocate_host},
    {"create-stream", conform_do_create_stream},
    {"create-event", conform_do_create_event},
    {"free", conform_do_free},
    {"free-host", conform_do_free_host},
    {"destroy-stream", conform_do_destroy_stream},
    {"destroy-event", conform_do_destroy_event},
    {"fill", conform_do_fill},
    {"copy", conform_do_copy},
    {"load", conform_do_load},
    {"launch", conform_do_launch},
    {"destroy", conform_do_destroy},
    {"bind", conform_do_bind},
    {"unbind", conform_do_unbind},
};

static void conform_step_run(void *user) {
  conform_step_call_t *call = user;
  for (size_t i = 0; i < sizeof(conform_verbs) / sizeof(conform_verbs[0]); ++i) {
    if (strcmp(conform_verbs[i].verb, call->verb) != 0) continue;
    call->status = conform_verbs[i].run(call);
    return;
  }
  call->status = SLIP_STATUS(SLIP_CODE_INTERNAL, "the rules have no verb \"%s\"", call->verb);
}

// --- playing

// Executes one step without its mark.
static slip_status_t conform_stage_step(conform_stage_t *stage, const char *text) {
  conform_step_call_t call = {.stage = stage};
  bool other = strncmp(text, "other ", 6) == 0;
  if (other) text += 6;
  if (sscanf(text, "%23s %15s %15s", call.verb, call.names[0], call.names[1]) < 1)
    return SLIP_STATUS(SLIP_CODE_INTERNAL, "a rule has an empty step");
  if (!other) {
    conform_step_run(&call);
    return call.status;
  }
  slip__thread_t thread;
  SLIP_RETURN_IF_ERROR(slip__thread_start(&thread, "other", conform_step_run, &call));
  slip__thread_join(&thread);
  return call.status;
}

static int64_t conform_number(slip_status_t status) {
  int64_t number = slip_status_platform_code(status);
  if (number == 0 && !slip_status_is_ok(status)) number = slip_status_code(status);  // no vendor number: ours
  slip_status_free(status);
  return number;
}

static uint32_t conform_stage_state(conform_stage_t *stage, char name) {
  slip_capture_info_t info = {0};
  slip_stream_t stream = stage->streams[name - 'A'];
  if (stream) slip_status_free(slip_stream_capture_info(stage->platform, stream, &info));
  return info.state;
}

// Ends what is left. A stream that a capture took in is not where it began: its end fails and changes nothing, and it is asked again after
// the others.
static void conform_stage_end_captures(conform_stage_t *stage, char watch, conform_answer_t *out) {
  for (int round = 0; round < 2; ++round) {
    for (char name = 'A'; name < 'A' + CONFORM_STREAMS; ++name) {
      if (conform_stage_state(stage, name) == SLIP_CAPTURE_NONE) continue;
      conform_step_call_t call = {.stage = stage, .verb = "end", .names = {{name, 0}}};
      conform_step_run(&call);
      int64_t number = conform_number(call.status);
      if (name == watch && conform_stage_state(stage, name) == SLIP_CAPTURE_NONE) out->end = number;
    }
  }
}

static bool conform_stage_play(conform_stage_t *stage, const conform_rule_t *rule, conform_answer_t *out, char *problem,
                               size_t problem_capacity) {
  char text[256];
  bool answered = false;
  (void)snprintf(text, sizeof(text), "%s", rule->calls);
  for (char *rest = text, *step = strsep(&rest, ";"); step; step = strsep(&rest, ";")) {
    step += strspn(step, " ");
    bool asked = *step == '!', lenient = *step == '?' || answered;
    slip_status_t status = conform_stage_step(stage, step + (*step == '!' || *step == '?'));
    if (asked) {
      out->number = conform_number(status);
      out->state = conform_stage_state(stage, rule->watch);
      answered = true;
    } else if (lenient) {
      slip_status_free(status);
    } else if (!slip_status_is_ok(status)) {
      (void)snprintf(problem, problem_capacity, "\"%s\" failed: %s", step, slip_status_message(status));
      slip_status_free(status);
      return false;
    }
  }
  return answered;
}

bool conform_rule_run(const conform_rule_t *rule, slip_platform_t *platform, conform_answer_t *out, char *problem,
                      size_t problem_capacity) {
  conform_stage_t stage = {.platform = platform};
  *out = (conform_answer_t){0, 0, CONFORM_NO_END};
  (void)snprintf(problem, problem_capacity, "no step is asked about");
  slip_status_t status = conform_stage_begin(&stage);
  bool played = slip_status_is_ok(status) && conform_stage_play(&stage, rule, out, problem, problem_capacity);
  conform_stage_end_captures(&stage, rule->watch, out);
  status = slip_status_join(status, conform_stage_end(&stage));
  if (!slip_status_is_ok(status)) {
    (void)snprintf(problem, problem_capacity, "setting up or tidying up failed: %s", slip_status_message(status));
    played = false;
  }
  slip_status_free(status);
  return played;
}

size_t conform_answer_format(conform_answer_t answer, char *buffer, size_t capacity) {
  static const char *const states[] = {"no capture", "active", "invalidated"};
  char number[32] = "OK", end[32] = "";
  if (answer.number != 0) (void)snprintf(number, sizeof(number), "**%lld**", (long long)answer.number);
  if (answer.end == 0) (void)snprintf(end, sizeof(end), ", end OK");
  if (answer.end > 0) (void)snprintf(end, sizeof(end), ", end %lld", (long long)answer.end);
  return (size_t)snprintf(buffer, capacity, "%s, %s%s", number, states[answer.state <= 2 ? answer.state : 0], end);
}
