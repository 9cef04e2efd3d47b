// SPDX-License-Identifier: Apache-2.0
// torch.Tensor objects read by PyTorch's own C functions, without the interpreter.
//
// A handle of PyTorch's C shim is the address of an at::Tensor, one word, and a torch.Tensor object holds its at::Tensor right behind the
// object's head. So a handle of the object costs nothing, and its getters a few nanoseconds each.
//
// That place, and two functions of no stable ABI (shim.h), are not promised by anybody. They are believed only after probes: tensors made
// for it are read in the usual way, by DLPack and attributes, and in this one, and must come out the same, the place being checked against
// the address that Python tells (_cdata) before it is used. Where a symbol is missing or an answer differs, everything is read as usual.
//
//   state->direct   becomes
//   OPEN            NO: no PyTorch with a shim that fits, or an answer differed; YES: all answers agreed;
//                   stays OPEN while tensors cannot be made as wanted (modes that intercept, transforms, tracing), for a number of tries
//   NO, YES         final
#include "direct.h"

#include "torch/shim.h"

#define PYSLIP_DIRECT_TRIES 64

// The at::Tensor in a tensor object.
static inline slip__torch_tensor_t pyslip_direct_handle(PyObject *object) {
  return (slip__torch_tensor_t)(void *)((char *)object + sizeof(PyObject));
}

bool pyslip_direct_read(PyObject *object, slip_tensor_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  slip__torch_tensor_t handle = pyslip_direct_handle(object);
  if (!slip__torch_describe(handle, SLIP_PLATFORM_NONE, out) || out->device.platform != SLIP_PLATFORM_CPU) return false;
  if (slip__torch_requires_grad(handle) && shim->aoti_torch_grad_mode_is_enabled()) out->flags |= SLIP_TENSOR_REQUIRES_GRAD;
  if (shim->_ZN2at6native6is_negERKNS_6TensorE(handle)) out->flags |= SLIP_TENSOR_NEG;
  return true;
}

// DLPack would keep the tensor, not its storage: `x.data = y` under a launch would free what it works on.
bool pyslip_direct_keep(PyObject *object, slip_tensor_t *out, pyslip_kept_t *kept) {
  static const int64_t sizes[] = {0}, strides[] = {1};
  const slip__torch_shim_t *shim = &slip__torch_shim;
  if (!shim->aoti_torch__reinterpret_tensor || !pyslip_direct_read(object, out) || out->flags) return false;
  if (shim->aoti_torch__reinterpret_tensor(pyslip_direct_handle(object), 1, sizes, strides, 0, &kept->value.direct) != 0) return false;
  kept->kind = PYSLIP_KEPT_DIRECT;
  return true;
}

void pyslip_direct_release(struct slip__torch_tensor_s *kept) {
  slip__torch_shim.aoti_torch_delete_tensor_object(kept);
}

static PyTypeObject *pyslip_direct_imported(void) {
  PyObject *torch = pyslip_imported("torch");
  PyObject *base = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
  PyErr_Clear();
  if (base && !PyType_Check(base)) Py_CLEAR(base);
  return (PyTypeObject *)base;
}

pyslip_direct_e pyslip_direct_of(pyslip_state_t *state, PyTypeObject *type) {
  if (state->direct == PYSLIP_DIRECT_NO) return PYSLIP_DIRECT_NO;
  PyTypeObject *base = state->direct_base ? (PyTypeObject *)Py_NewRef((PyObject *)state->direct_base) : pyslip_direct_imported();
  bool fits = base && PyType_IsSubtype(type, base);
  Py_XDECREF((PyObject *)base);
  return fits ? (pyslip_direct_e)state->direct : PYSLIP_DIRECT_NO;
}

// --- probes ----------------------------------------------------------------------------------------------------------------------------

// Expressions in |torch| and |cpu|. Both ways must read those that are |plain|, and none the others.
static const struct {
  const char *text;
  bool plain, grad, neg;
} pyslip_direct_cases[] = {
    {"torch.zeros(4, dtype=torch.float32, device=cpu)", true, false, false},
    {"torch.zeros(9, dtype=torch.float32, device=cpu).narrow(0, 2, 5)", true, false, false},
    {"torch.zeros((3, 4), dtype=torch.bfloat16, device=cpu).t()", true, false, false},
    {"torch.zeros((2, 3, 4), dtype=torch.int64, device=cpu).select(1, 1)", true, false, false},
    {"torch.zeros((), dtype=torch.bool, device=cpu)", true, false, false},
    {"torch.zeros((0, 2), dtype=torch.float32, device=cpu)", true, false, false},
    {"torch.zeros(4, dtype=torch.float64, device=cpu, requires_grad=True)", true, true, false},
    {"torch.Tensor._make_subclass(torch.nn.Parameter, torch.zeros(4, dtype=torch.float32, device=cpu), True)", true, true, false},
    {"torch.Tensor._make_subclass(torch.nn.Parameter, torch.zeros(4, dtype=torch.float32, device=cpu), False)", true, false, false},
    {"torch._neg_view(torch.zeros(4, dtype=torch.float32, device=cpu))", true, false, true},
    {"torch.zeros(4, dtype=torch.complex64, device=cpu).conj()", false, false, false},
    {"torch.zeros(4, dtype=torch.float32, device='meta')", false, false, false},
};

// What a tensor itself tells in Python.
typedef struct pyslip_direct_truth_t {
  uint64_t handle, address, storage, storage_bytes, size;
  uint64_t grad, neg;
} pyslip_direct_truth_t;

// An attribute, or what a method returns. Leaves the exception of a failure.
static bool pyslip_direct_number(PyObject *object, const char *name, bool call, uint64_t *out) {
  PyObject *number = !object ? NULL : call ? PyObject_CallMethod(object, name, NULL) : PyObject_GetAttrString(object, name);
  bool ok = number && PyLong_Check(number);  // a bool is one
  if (ok) *out = PyLong_AsUnsignedLongLong(number);
  Py_XDECREF(number);
  return ok && !PyErr_Occurred();
}

static bool pyslip_direct_ask(PyObject *tensor, pyslip_direct_truth_t *out) {
  PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
  bool ok = pyslip_direct_number(tensor, "_cdata", false, &out->handle) && pyslip_direct_number(tensor, "data_ptr", true, &out->address) &&
            pyslip_direct_number(storage, "data_ptr", true, &out->storage) &&
            pyslip_direct_number(storage, "nbytes", true, &out->storage_bytes) &&
            pyslip_direct_number(tensor, "requires_grad", false, &out->grad) && pyslip_direct_number(tensor, "is_neg", true, &out->neg) &&
            pyslip_direct_number((PyObject *)Py_TYPE(tensor), "__basicsize__", false, &out->size);
  Py_XDECREF(storage);
  return ok;
}

static bool pyslip_direct_equal(const slip_tensor_t *direct, const slip_tensor_t *usual, const pyslip_direct_truth_t *truth) {
  bool equal = direct->dtype == usual->dtype && direct->rank == usual->rank && direct->format == usual->format &&
               direct->device.platform == usual->device.platform && direct->device.ordinal == usual->device.ordinal;
  for (uint8_t i = 0; equal && i < usual->rank; ++i) equal = direct->dims[i] == usual->dims[i] && direct->strides[i] == usual->strides[i];
  if (truth->address == 0) return equal && !direct->data;  // empty
  return equal && (uint64_t)(uintptr_t)direct->data + direct->byte_offset == truth->address &&
         (uint64_t)(uintptr_t)usual->data + usual->byte_offset == truth->address &&
         (uint64_t)(uintptr_t)direct->storage_base == truth->storage && direct->storage_bytes == truth->storage_bytes;
}

// OPEN: Python does not tell what the case wants.
static pyslip_direct_e pyslip_direct_compare(pyslip_state_t *state, size_t index, PyObject *tensor) {
  slip_tensor_t usual, direct;
  pyslip_kept_t kept = {.kind = PYSLIP_KEPT_NOTHING};
  pyslip_direct_truth_t truth = {0};
  const bool plain = pyslip_direct_cases[index].plain, grad = pyslip_direct_cases[index].grad, neg = pyslip_direct_cases[index].neg;
  void *word;
  bool asked = pyslip_direct_ask(tensor, &truth), read = pyslip_read_usual(state, NULL, tensor, PYSLIP_READ_VIEW, &usual, &kept);
  PyErr_Clear();
  pyslip_kept_release(&kept, 1);
  if (!asked || read != plain || (truth.grad != 0) != grad || (truth.neg != 0) != neg) return PYSLIP_DIRECT_OPEN;
  if (truth.size < sizeof(PyObject) + sizeof(word)) return PYSLIP_DIRECT_NO;
  memcpy(&word, pyslip_direct_handle(tensor), sizeof(word));
  if (!word || (uint64_t)(uintptr_t)word != truth.handle) return PYSLIP_DIRECT_NO;
  if (pyslip_direct_read(tensor, &direct) != plain) return PYSLIP_DIRECT_NO;
  if (slip__torch_requires_grad(pyslip_direct_handle(tensor)) != grad) return PYSLIP_DIRECT_NO;
  if (!plain) return PYSLIP_DIRECT_YES;
  if (((direct.flags & SLIP_TENSOR_NEG) != 0) != neg) return PYSLIP_DIRECT_NO;
  return pyslip_direct_equal(&direct, &usual, &truth) ? PYSLIP_DIRECT_YES : PYSLIP_DIRECT_NO;
}

static pyslip_direct_e pyslip_direct_case(pyslip_state_t *state, size_t index, PyObject *names) {
  PyObject *code = Py_CompileString(pyslip_direct_cases[index].text, "<slipstream>", Py_eval_input);
  PyObject *tensor = code ? PyEval_EvalCode(code, names, names) : NULL;
  pyslip_direct_e answer = tensor && pyslip_direct_of(state, Py_TYPE(tensor)) == PYSLIP_DIRECT_OPEN
                               ? pyslip_direct_compare(state, index, tensor)
                               : PYSLIP_DIRECT_OPEN;
  Py_XDECREF(tensor);
  Py_XDECREF(code);
  PyErr_Clear();
  return answer;
}

// A mode that intercepts every operation sees none of ours, nor makes the tensors something else.
static bool pyslip_direct_intercepted(PyObject *torch) {
  PyObject *internals = PyObject_GetAttrString(torch, "_C");
  uint64_t modes = 0;
  if (internals && !pyslip_direct_number(internals, "_len_torch_dispatch_stack", true, &modes)) modes = 0;
  Py_XDECREF(internals);
  PyErr_Clear();
  return modes != 0;
}

static pyslip_direct_e pyslip_direct_try(pyslip_state_t *state) {
  PyObject *torch = pyslip_imported("torch");
  if (!torch || pyslip_direct_intercepted(torch)) return PYSLIP_DIRECT_OPEN;
  if (slip__torch_shim_load("libtorch_cpu.so", "libc10.so", NULL) || !slip__torch_shim_fits()) return PYSLIP_DIRECT_NO;
  if (!slip__torch_shim._ZN2at6native6is_negERKNS_6TensorE || !slip__torch_shim._ZNK3c1010TensorImpl13requires_gradEv)
    return PYSLIP_DIRECT_NO;
  PyObject *names = Py_BuildValue("{s:O,s:s}", "torch", torch, "cpu", "cpu");
  pyslip_direct_e answer = names ? PYSLIP_DIRECT_YES : PYSLIP_DIRECT_OPEN;
  for (size_t i = 0; answer == PYSLIP_DIRECT_YES && i < sizeof(pyslip_direct_cases) / sizeof(pyslip_direct_cases[0]); ++i)
    answer = pyslip_direct_case(state, i, names);
  Py_XDECREF(names);
  PyErr_Clear();
  return answer;
}

void pyslip_direct_probe(pyslip_state_t *state) {
  if (state->direct != PYSLIP_DIRECT_OPEN || state->direct_probing) return;
  state->direct_probing = true;
  PyTypeObject *base = pyslip_direct_imported();
  pyslip_direct_e answer = pyslip_direct_try(state);
  state->direct_probing = false;
  if (answer == PYSLIP_DIRECT_OPEN && ++state->direct_tries >= PYSLIP_DIRECT_TRIES) answer = PYSLIP_DIRECT_NO;
  state->direct = (uint8_t)answer;
  if (answer == PYSLIP_DIRECT_YES && base)
    state->direct_base = base;
  else
    Py_XDECREF((PyObject *)base);
}
