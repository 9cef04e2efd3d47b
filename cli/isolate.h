// SPDX-License-Identifier: Apache-2.0
// --isolate: a command in a child process, so that a kernel that crashes can be named.
#ifndef SLIPSTREAM_CLI_ISOLATE_H_
#define SLIPSTREAM_CLI_ISOLATE_H_

#include "cli.h"

// Runs |run| in a child and returns its exit code, or reports what ended it. Nothing may have been opened yet.
int cli_isolate(const cli_invocation_t *invocation, int (*run)(const cli_invocation_t *invocation));

#endif  // SLIPSTREAM_CLI_ISOLATE_H_
