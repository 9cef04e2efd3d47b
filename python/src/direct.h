// SPDX-License-Identifier: Apache-2.0
// torch.Tensor objects read by PyTorch's own C functions, without the interpreter: see direct.c.
#ifndef PYSLIP_DIRECT_H_
#define PYSLIP_DIRECT_H_

#include "pyslip.h"

// What a new entry for |type| begins with: NO unless it is torch.Tensor, the one that was probed if that is done, or a subclass of it.
pyslip_direct_e pyslip_direct_of(pyslip_state_t *state, PyTypeObject *type);

// Tries to find out, if that is still open, whether objects may be read so. Calls into Python, which may change the cache of types; leaves
// no exception.
void pyslip_direct_probe(pyslip_state_t *state);

// Describes |object| with the flags that its calls need. False, and nothing said, where this is no way to read it: the usual way then
// reads or refuses it. Only for types of PYSLIP_DIRECT_YES.
bool pyslip_direct_read(PyObject *object, slip_tensor_t *out);

// The same for memory that |kept| is to keep: the storage that the tensor has now, whatever it is given later. False, too, for tensors with
// flags, which cannot be used, and for those of a device.
bool pyslip_direct_keep(PyObject *object, slip_tensor_t *out, pyslip_kept_t *kept);
void pyslip_direct_release(struct slip__torch_tensor_s *kept);

// --- for the probes (read.c) -----------------------------------------------------------------------------------------------------------
// Reads |object| the usual way, whatever its type's entry says of this one.
bool pyslip_read_usual(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, uint32_t bits, slip_tensor_t *out,
                       pyslip_kept_t *kept);

#endif  // PYSLIP_DIRECT_H_
