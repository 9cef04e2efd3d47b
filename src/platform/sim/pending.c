// SPDX-License-Identifier: Apache-2.0
// Stands in for the simulator's streams until they are here.
#include "platform/sim/sim.h"

#define SLIP__SIM_PENDING __attribute__((weak))

SLIP__SIM_PENDING slip_status_t slip__sim_check_unsafe(const char *call) {
  (void)call;
  return slip_ok_status();
}
SLIP__SIM_PENDING void slip__sim_stream_statistics(slip_sim_statistics_t *out) {
  (void)out;
}
SLIP__SIM_PENDING slip_status_t slip__sim_stream_synchronize_device(int32_t device) {
  (void)device;
  return slip_ok_status();
}
SLIP__SIM_PENDING void slip__sim_stream_reset(int32_t device) {
  (void)device;
}
