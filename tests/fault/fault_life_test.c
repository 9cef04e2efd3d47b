// SPDX-License-Identifier: Apache-2.0
// Whole lives, from open to close, with a fault at every place in them.
#include "fault_loop.h"

SLIP_TEST_TIMEOUT(fault_life, 800) {
  fault_try("life", 2000);
}
