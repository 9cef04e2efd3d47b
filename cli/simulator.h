// SPDX-License-Identifier: Apache-2.0
// What the program does as the owner of the simulator's devices, and what it tells of them.
#ifndef SLIPSTREAM_CLI_SIMULATOR_H_
#define SLIPSTREAM_CLI_SIMULATOR_H_

#include "cli.h"

// What the simulator found wrong: an array of sentences, its violations and what was not given back to it.
json_t *cli_simulator_findings(void);
// The SLIP_SIM_* variables: [{"name", "meaning", "default", "value"}], value null where it is not set.
json_t *cli_simulator_variables(void);

#endif  // SLIPSTREAM_CLI_SIMULATOR_H_
