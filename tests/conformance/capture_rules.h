// SPDX-License-Identifier: Apache-2.0
// The rules of stream capture as one table: what is called, and what each vendor answers.
//
// A rule's |calls| are words in a small language, executed against the platform:
//   step (";" step)*       each step must succeed, unless it begins with
//     !                    the call that the rule is about: its answer is compared
//     ?                    may fail or not
//   steps after the "!" may fail or not; they tidy up.
//   other STEP             the step made by another thread
// Streams are A B C (device 0) and D (device 1); events e f g (device 0) and h (device 1); G is the graph of the last successful end.
//   begin A global|thread-local|relaxed     end A      state-of A
//   record e A        wait A e              query A    synchronize A    query-event e    synchronize-event e
//   host A            kernel A              copy-pinned A               copy-pageable A
//   allocate  free  fill  copy  allocate-host  free-host  load  create-stream  destroy-stream C  create-event  destroy-event e
//   launch A (of G)   destroy (G)           bind D (D's device becomes current)           unbind D
// After the "!" step the capture of |watch| is looked at, then every capture that is left is ended where it began; |end| is the answer of
// ending |watch|'s, CONFORM_NO_END if there was none to end.
#ifndef SLIP_CONFORMANCE_CAPTURE_RULES_H_
#define SLIP_CONFORMANCE_CAPTURE_RULES_H_

#include <stddef.h>
#include <stdint.h>

#include "slipstream/device.h"

#define CONFORM_NO_END (-1)

typedef struct conform_answer_t {
  int64_t number;  // the vendor's; 0: success
  uint32_t state;  // slip_capture_state_e of |watch| afterwards
  int64_t end;     // the number of the end; 0: success; CONFORM_NO_END
} conform_answer_t;

typedef struct conform_rule_t {
  const char *source;  // where the rule comes from
  const char *text;
  const char *calls;
  char watch;  // the stream whose capture is looked at
  conform_answer_t cuda, ascend;
} conform_rule_t;

// NULL past the end.
const conform_rule_t *conform_rule_at(size_t index);
// Executes |rule| on |platform|, which must rest, and leaves it at rest. Returns false with what went wrong in |problem| if a step that
// must succeed did not.
bool conform_rule_run(const conform_rule_t *rule, slip_platform_t *platform, conform_answer_t *out, char *problem, size_t problem_capacity);
// "905, invalidated, end 901"; the number of characters.
size_t conform_answer_format(conform_answer_t answer, char *buffer, size_t capacity);

#endif  // SLIP_CONFORMANCE_CAPTURE_RULES_H_
