// SPDX-License-Identifier: Apache-2.0
// Refusals of arguments, in one form: "axpy: parameter 1 'y' (inout): what was expected, what came, what to do".
#ifndef PYSLIP_READ_H_
#define PYSLIP_READ_H_

#include "pyslip.h"

// All return NULL, with an exception set.
void *pyslip_refuse(pyslip_state_t *state, const pyslip_place_t *place, pyslip_error_e error, const char *format, ...);
// The exception that is set becomes the cause.
void *pyslip_refuse_because(pyslip_state_t *state, const pyslip_place_t *place, const char *what);
// Consumes |status|.
void *pyslip_refuse_status(pyslip_state_t *state, const pyslip_place_t *place, slip_status_t status);

#endif  // PYSLIP_READ_H_
