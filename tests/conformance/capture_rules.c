// SPDX-License-Identifier: Apache-2.0
// The table. Sources: section and number of the rule in the vendors' documents as collected for this project: 5a is CUDA's (the text of
// cuda.h), 5b is Ascend ACL's (its developer guide and runtime), 6 public bug reports.
#include "capture_rules.h"

#define NONE        SLIP_CAPTURE_NONE
#define ACTIVE      SLIP_CAPTURE_ACTIVE
#define INVALIDATED SLIP_CAPTURE_INVALIDATED
#define NO_END      CONFORM_NO_END
// An illegal call: in CUDA the capture dies, in ACL it goes on.
#define ILLEGAL(cuda, ascend)   \
  {(cuda), INVALIDATED, 901}, { \
    (ascend), ACTIVE, 0         \
  }
#define FINE_ACTIVE \
  {0, ACTIVE, 0}, { \
    0, ACTIVE, 0    \
  }
#define BOTH(number, ascend, state, end, ascend_end) \
  {(number), (state), (end)}, {                      \
    (ascend), (state), (ascend_end)                  \
  }

#define FORK "record e A; wait B e"
#define JOIN "record f B; wait A f"
// Breaks the capture of A in both flavours: the capture of B is merged into it.
#define BREAK "begin B relaxed; record g B; ?wait A g"

static const conform_rule_t conform_rules[] = {
    // -- membership
    {"5a.9", "a capture is begun on an idle stream and ended there", "!begin A global", 'A', FINE_ACTIVE},
    {"5a.9, 5b.4", "work on a capturing stream is recorded", "begin A global; !kernel A", 'A', FINE_ACTIVE},
    {"5a.12", "a host function becomes a node", "begin A global; !host A", 'A', FINE_ACTIVE},
    {"5a.9",
     "an event recorded in the capture and waited for by an idle stream takes that stream in",
     "begin A global; record e A; !wait B e; " JOIN,
     'B',
     {0, ACTIVE, NO_END},
     {0, ACTIVE, NO_END}},
    {"5a.9", "a side stream that was joined leaves the capture complete", "begin A global; " FORK "; kernel B; " JOIN "; !end A", 'A',
     BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.9", "a side stream may be joined through another one",
     "begin A global; record e A; wait B e; kernel B; record f B; wait C f; kernel C; record g C; wait A g; !end A", 'A',
     BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.9, 5b.4", "a side stream that was never joined fails the end", "begin A global; " FORK "; kernel B; !end A", 'A',
     BOTH(904, 107025, NONE, NO_END, NO_END)},
    {"5a.9, 5b.4", "work on a side stream after its join fails the end", "begin A global; " FORK "; kernel B; " JOIN "; kernel B; !end A",
     'A', BOTH(904, 107025, NONE, NO_END, NO_END)},
    {"5a.9, 5b.4", "side work that was recorded but that nobody waited for fails the end",
     "begin A global; " FORK "; kernel B; record f B; !end A", 'A', BOTH(904, 107025, NONE, NO_END, NO_END)},
    {"5b.4", "a side stream may be joined twice, after work in between",
     "begin A global; " FORK "; kernel B; " JOIN "; kernel B; record f B; wait A f; !end A", 'A', BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.3", "a stream of another device may join a capture",
     "begin A global; record e A; bind D; !wait D e; record h D; unbind D; wait A h", 'A', FINE_ACTIVE},

    // -- begin and end
    {"5b.4", "a capture cannot begin on a stream that is capturing", "begin A global; !begin A global", 'A',
     BOTH(900, 107027, ACTIVE, 0, 0)},
    {"5b.4", "... nor on a stream that was taken into a capture", "begin A global; " FORK "; !begin B global; " JOIN, 'A',
     BOTH(900, 107027, ACTIVE, 0, 0)},
    {"5b.6", "... nor on one whose capture is invalidated", "begin A relaxed; " BREAK "; !begin A relaxed", 'A',
     BOTH(900, 107027, INVALIDATED, 901, 507903)},
    {"5b.4", "a stream that does not capture cannot end a capture", "!end A", 'A', BOTH(1, 107029, NONE, NO_END, NO_END)},
    {"5a.6, 5b.4", "a capture is ended on the stream that it began on", "begin A global; " FORK "; " JOIN "; !end B", 'A',
     BOTH(903, 107036, ACTIVE, 0, 0)},
    {"5a.10, 5b.4",
     "a capture is ended by the thread that began it; in ACL it is over then",
     "begin A thread-local; !other end A",
     'A',
     {908, ACTIVE, 0},
     {107038, NONE, NO_END}},
    {"5a.10, 5b.4", "... also in global mode", "begin A global; !other end A", 'A', {908, ACTIVE, 0}, {107038, NONE, NO_END}},
    {"5a.10", "... but in relaxed mode any thread may end it", "begin A relaxed; !other end A", 'A', BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.10, 5b.4", "any thread may record into a capture", "begin A relaxed; !other kernel A", 'A', FINE_ACTIVE},

    // -- events
    {"5a.7, 5b.4", "a never recorded event is no dependency", "begin A global; !wait A e", 'A', FINE_ACTIVE},
    {"5a.7, 5b.4, 5b.5", "an event recorded before the capture is not waited for in it", "record e B; begin A global; !wait A e", 'A',
     ILLEGAL(905, 107024)},
    {"5a.7, 5b.4", "... also not when it was recorded on the stream that captures", "record e A; begin A global; !wait A e", 'A',
     ILLEGAL(905, 107024)},
    {"5a.7, 5b.4", "... nor by a side stream", "record g C; begin A global; " FORK "; !wait B g; " JOIN, 'A', ILLEGAL(905, 107024)},
    {"5a.7", "an event recorded during the capture by a stream outside it is not waited for in it", "begin A global; record e B; !wait A e",
     'A', ILLEGAL(905, 107024)},
    {"5a.8", "the last record counts: an event of before, recorded again in the capture, may be waited for",
     "record e B; begin A global; record e A; !wait A e", 'A', FINE_ACTIVE},
    {"5a.8", "an event may serve several captures, each recording it first",
     "begin A global; " FORK "; " JOIN "; end A; begin A global; " FORK "; !record f B; wait A f", 'A', FINE_ACTIVE},
    {"5a.6, 5b.4", "two captures cannot be merged: the waiting one is invalidated",
     "begin A relaxed; begin B relaxed; record e B; !wait A e", 'A', BOTH(902, 107032, INVALIDATED, 901, 507903)},
    {"5b.4, 5b.6", "... and so is the one that was waited for", "begin A relaxed; begin B relaxed; record e B; !wait A e", 'B',
     BOTH(902, 107032, INVALIDATED, 901, 507903)},
    {"5a.6", "an event of an earlier capture cannot be waited for in a later one",
     "begin A global; record e A; end A; begin A global; !wait A e", 'A', ILLEGAL(905, 107024)},
    {"5a.6, 5b.4", "an event that was last recorded in a capture cannot be queried", "begin A relaxed; record e A; !query-event e", 'A',
     ILLEGAL(907, 107028)},
    {"5a.6, 5b.4", "... nor synchronized", "begin A relaxed; record e A; !synchronize-event e", 'A', ILLEGAL(907, 107028)},
    {"5a.6, 5b.4", "... also after the capture has ended", "begin A relaxed; record e A; end A; !query-event e", 'A',
     BOTH(907, 107028, NONE, NO_END, NO_END)},
    {"5a.6", "... and no idle stream may wait for it then", "begin A relaxed; record e A; end A; !wait B e", 'B',
     BOTH(907, 107028, NONE, NO_END, NO_END)},
    {"5a.8", "... until it is recorded outside one", "begin A relaxed; record e A; end A; record e B; !synchronize-event e", 'A',
     BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.3", "an event is recorded on a stream of its own device", "begin A global; !record h A", 'A', BOTH(400, 107017, ACTIVE, 0, 0)},

    // -- asking and waiting
    {"5a.11", "asking for the capture state disturbs nothing", "begin A global; !state-of A", 'A', FINE_ACTIVE},
    {"5a.14, 5b.4", "a capturing stream cannot be synchronized, in whatever mode", "begin A relaxed; !synchronize A", 'A',
     ILLEGAL(900, 107027)},
    {"5a.14, 5b.4", "... nor queried", "begin A relaxed; !query A", 'A', ILLEGAL(900, 107027)},
    {"5a.14, 5b.4", "... nor can a side stream", "begin A relaxed; " FORK "; !synchronize B; " JOIN, 'A', ILLEGAL(900, 107027)},
    {"5a.10, 5b.4", "another stream cannot be synchronized in global mode", "begin A global; !synchronize C", 'A', ILLEGAL(900, 107030)},
    {"5a.10, 6.18", "... nor by another thread", "begin A global; !other synchronize C", 'A', ILLEGAL(900, 107030)},
    {"5a.10", "in thread-local mode another thread may synchronize its streams", "begin A thread-local; !other synchronize C", 'A',
     FINE_ACTIVE},
    {"5a.10", "in relaxed mode any other stream may be synchronized", "begin A relaxed; !synchronize C", 'A', FINE_ACTIVE},

    {"5a.10, 6.18", "an event cannot be queried in global mode, by no thread", "record e B; begin A global; !other query-event e", 'A',
     ILLEGAL(900, 107030)},
    {"5a.10", "... in thread-local mode another thread may", "begin A thread-local; !other query-event e", 'A', FINE_ACTIVE},

    // -- unsafe calls
    {"5a.13, 6.17", "memory is not allocated in a capture", "begin A global; !allocate", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "... nor freed", "begin A global; !free", 'A', ILLEGAL(900, 107030)},
    {"5a.13, 2.4", "... nor page-locked", "begin A global; !allocate-host", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "... nor unlocked", "begin A global; !free-host", 'A', ILLEGAL(900, 107030)},
    {"5b.4", "nothing is copied with waiting", "begin A global; !copy", 'A', ILLEGAL(900, 107030)},
    {"5b.4", "... nor filled", "begin A global; !fill", 'A', ILLEGAL(900, 107030)},
    {"5a.13, 6.14", "no code is loaded", "begin A global; !load", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "no stream is made", "begin A global; !create-stream", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "... or destroyed", "begin A global; !destroy-stream C", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "no event is made", "begin A global; !create-event", 'A', ILLEGAL(900, 107030)},
    {"5a.13", "... or destroyed", "begin A global; !destroy-event g", 'A', ILLEGAL(900, 107030)},
    {"5a.10, 6.18, 6.20b", "in global mode unsafe calls of other threads are illegal too", "begin A global; !other allocate", 'A',
     ILLEGAL(900, 107030)},
    {"5a.10", "in thread-local mode unsafe calls of the capturing thread are illegal", "begin A thread-local; !allocate", 'A',
     ILLEGAL(900, 107030)},
    {"5a.10", "... those of other threads are not", "begin A thread-local; !other allocate", 'A', FINE_ACTIVE},
    {"5a.10", "in relaxed mode unsafe calls are legal", "begin A relaxed; !allocate", 'A', FINE_ACTIVE},
    {"5a.10", "... also blocking copies", "begin A relaxed; !copy", 'A', FINE_ACTIVE},
    {"5b.4", "a copy of page-locked memory becomes a node", "begin A global; !copy-pinned A", 'A', FINE_ACTIVE},
    {"5b.4", "a copy of pageable memory cannot", "begin A global; !copy-pageable A", 'A', ILLEGAL(900, 107041)},
    {"5b.6", "a stream cannot be destroyed while it captures", "begin A relaxed; !destroy-stream A", 'A', ILLEGAL(900, 107027)},

    // -- graphs
    {"5a.14, 6.16", "a graph is not launched into a capture", "begin B global; kernel B; end B; begin A relaxed; !launch A", 'A',
     ILLEGAL(900, 107027)},
    {"5a.14, 6.16", "... nor destroyed in one", "begin B global; kernel B; end B; begin A global; !destroy", 'A', ILLEGAL(900, 107030)},
    {"5a.12", "a graph may be launched on the stream it was captured on", "begin A global; kernel A; end A; !launch A", 'A',
     BOTH(0, 0, NONE, NO_END, NO_END)},
    {"5a.12", "... and on another", "begin A global; kernel A; end A; !launch B", 'A', BOTH(0, 0, NONE, NO_END, NO_END)},
    {"6.6", "... while another stream captures", "begin B global; kernel B; end B; begin A global; !launch C", 'A', FINE_ACTIVE},

    // -- after an invalidation
    {"5a.10", "an invalidated capture takes no work", "begin A relaxed; " BREAK "; !kernel A", 'A',
     BOTH(901, 507903, INVALIDATED, 901, 507903)},
    {"5b.6", "... and no wait", "begin A relaxed; " BREAK "; !wait A g", 'A', BOTH(901, 507903, INVALIDATED, 901, 507903)},
    {"5b.6", "... and takes no stream in", "begin A relaxed; record f A; " BREAK "; !wait C f", 'C', BOTH(1, 107000, NONE, NO_END, NO_END)},
    {"5a.10, 5b.4", "its end gives no graph", "begin A relaxed; " BREAK "; !end A", 'A', BOTH(901, 507903, NONE, NO_END, NO_END)},
    {"5a.10", "after its end the stream works as ever", "begin A relaxed; " BREAK "; ?end A; !kernel A", 'A',
     BOTH(0, 0, NONE, NO_END, NO_END)},
    {"6.20", "a second end is told that there is no capture", "begin A relaxed; " BREAK "; ?end A; !end A", 'A',
     BOTH(1, 107029, NONE, NO_END, NO_END)},
    {"5a.10, 6.22b", "after a failed end the stream can capture again", "begin A global; " FORK "; kernel B; ?end A; !begin A global", 'A',
     FINE_ACTIVE},
    {"5b.6", "... and so can the side stream", "begin A global; " FORK "; kernel B; ?end A; !begin B global", 'B', FINE_ACTIVE},
};

const conform_rule_t *conform_rule_at(size_t index) {
  return index < sizeof(conform_rules) / sizeof(conform_rules[0]) ? &conform_rules[index] : NULL;
}
