// SPDX-License-Identifier: Apache-2.0
// What a submit must fulfil before anything is done about it. A good submit passes one branch per rule; the sentences are made out of line.
#include <inttypes.h>

#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/schedule.h"
#include "slipstream/signature.h"

#define SLIP__REFUSE(workspace, submit, code, ...) slip__refuse((workspace), (submit), SLIP_STATUS((code), __VA_ARGS__))

__attribute__((noinline, cold)) static bool slip__refuse(slip__workspace_t *workspace, const slip_submit_t *submit, slip_status_t status) {
  slip__workspace_fail(workspace, slip__fault_at_submit(workspace, submit, status));
  return false;
}

bool slip__tensor_bytes(const slip_ktensor_t *view, uint64_t *out_bytes) {
  uint64_t bytes = (uint64_t)slip_dtype_carrier_bytes(view->dtype);
  if (bytes == 0 || view->rank > SLIP_MAX_RANK) return false;
  bool empty = false;
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] < 0) return false;
    if (view->dims[i] == 0) empty = true;
    if (view->dims[i] > 0 && __builtin_mul_overflow(bytes, (uint64_t)view->dims[i], &bytes)) return false;
  }
  if (bytes > INT64_MAX) return false;
  *out_bytes = empty ? 1 : bytes;
  return true;
}

// Elements of a view; saturates. 0 for a negative dimension.
static uint64_t slip__view_count(const slip_ktensor_t *view) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] <= 0) return 0;
    if (__builtin_mul_overflow(count, (uint64_t)view->dims[i], &count)) count = UINT64_MAX;
  }
  return count;
}

// True if every element lies inside the storage. Strides may be negative or zero. Storage of unknown size (0) is not checked.
static bool slip__view_in_storage(const slip_otensor_t *tensor) {
  const slip_ktensor_t *view = &tensor->view;
  int64_t low = 0, high = 0, step;
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] == 0) return true;
    if (__builtin_mul_overflow(view->dims[i] - 1, view->strides[i], &step)) return false;
    if (step < 0 ? __builtin_add_overflow(low, step, &low) : __builtin_add_overflow(high, step, &high)) return false;
  }
  int64_t size = slip_dtype_carrier_bytes(view->dtype);
  if (__builtin_mul_overflow(low, size, &low) || __builtin_mul_overflow(high, size, &high) || __builtin_add_overflow(high, size, &high))
    return false;
  if (!view->data) return false;
  if (tensor->storage_bytes == 0) return true;
  int64_t offset = (int64_t)((uintptr_t)view->data - (uintptr_t)tensor->storage);
  return !__builtin_add_overflow(low, offset, &low) && low >= 0 && !__builtin_add_overflow(high, offset, &high) &&
         (uint64_t)high <= tensor->storage_bytes;
}

// |position| names the argument, or is -1 for the predicate.
static bool slip__check_existing(slip__workspace_t *workspace, const slip_submit_t *submit, const slip_otensor_t *tensor, int position) {
  const slip_ktensor_t *view = &tensor->view;
  if (slip_dtype_carrier_bytes(view->dtype) == 0 || view->rank > SLIP_MAX_RANK) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "tensor %d has dtype %u and rank %u, expected a known dtype and rank <= %d", position, view->dtype, view->rank,
                        SLIP_MAX_RANK);
  }
  if (slip__tensor_is_stale(workspace, tensor)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_STALE_TENSOR,
                        "tensor %d was made in a scope of depth %" PRIu32
                        " that has ended; create it in the scope that uses it, or in an outer one",
                        position, tensor->depth);
  }
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] < 0) {
      return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                          "tensor %d has dimension %" PRIu32 " of %" PRId64 ", expected >= 0", position, i, view->dims[i]);
    }
  }
  if (!slip__view_in_storage(tensor)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "tensor %d reaches outside its storage of %" PRIu64 " bytes (data %s); check the dims and strides of its view",
                        position, tensor->storage_bytes, view->data ? "set" : "NULL");
  }
  return true;
}

static bool slip__check_argument(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index) {
  const slip_oarg_t *argument = &submit->tensors[index];
  if (!argument->tensor) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK, "tensor %" PRIu32 " is NULL", index);
  }
  if (argument->access < SLIP_ACCESS_IN || argument->access > SLIP_ACCESS_NO_DEP) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "tensor %" PRIu32 " has access %" PRIu32 ", expected SLIP_ACCESS_IN .. SLIP_ACCESS_NO_DEP", index,
                        argument->access);
  }
  if (argument->access != SLIP_ACCESS_OUT) return slip__check_existing(workspace, submit, argument->tensor, (int)index);
  uint64_t bytes;
  if (slip__tensor_bytes(&argument->tensor->view, &bytes)) return true;
  return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                      "output tensor %" PRIu32
                      " has dtype %u and rank %u; expected a known dtype, rank <= %d, dims >= 0 and a size that fits 63 bits",
                      index, argument->tensor->view.dtype, argument->tensor->view.rank, SLIP_MAX_RANK);
}

#define SLIP__ACCESS_BIT(access) (1u << SLIP_ACCESS_##access)

// Accesses that serve a declared direction. A stronger one than the kernel needs only orders more.
static const uint8_t slip__access_fits[4] = {
    [SLIP_DIRECTION_IN] = SLIP__ACCESS_BIT(IN) | SLIP__ACCESS_BIT(INOUT) | SLIP__ACCESS_BIT(NO_DEP),
    [SLIP_DIRECTION_OUT] = SLIP__ACCESS_BIT(OUT) | SLIP__ACCESS_BIT(OUT_EXISTING) | SLIP__ACCESS_BIT(INOUT) | SLIP__ACCESS_BIT(NO_DEP),
    [SLIP_DIRECTION_INOUT] = SLIP__ACCESS_BIT(INOUT) | SLIP__ACCESS_BIT(NO_DEP),
};

__attribute__((noinline, cold)) static bool slip__refuse_direction(slip__workspace_t *workspace, const slip_submit_t *submit,
                                                                   uint32_t index, const slip_object_param_t *param) {
  static const char *const directions[4] = {"unknown", "in", "out", "inout"};
  static const char *const accesses[] = {"?", "IN", "OUT", "OUT_EXISTING", "INOUT", "NO_DEP"};
  static const char *const remedies[4] = {"correct the manifest", "use slip_task_in()",
                                          "use slip_task_out() for a new tensor, slip_task_out_existing() for one that exists",
                                          "use slip_task_inout()"};
  uint32_t direction = param->direction <= SLIP_DIRECTION_INOUT ? param->direction : 0;
  return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                      "tensor %" PRIu32 " was given with access %s, but the kernel declares '%s' as %s; %s", index,
                      accesses[submit->tensors[index].access], param->name, directions[direction], remedies[direction]);
}

// |bound| holds the values of the kernel's first |*known| symbols.
static bool slip__check_declared(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index,
                                 const slip_object_param_t *param, int64_t *bound, uint32_t *known) {
  const slip_oarg_t *argument = &submit->tensors[index];
  const slip_ktensor_t *view = &argument->tensor->view;
  if (param->direction > SLIP_DIRECTION_INOUT || !(slip__access_fits[param->direction] & (1u << argument->access)))
    return slip__refuse_direction(workspace, submit, index, param);
  if (view->dtype != param->dtype || view->rank != param->rank) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "tensor %" PRIu32 " has dtype %s and rank %u, but the kernel declares '%s' with dtype %s and rank %u", index,
                        slip_dtype_name(view->dtype), view->rank, param->name, slip_dtype_name(param->dtype), param->rank);
  }
  for (uint32_t d = 0; d < view->rank; ++d) {
    int64_t expected = param->dims[d];
    if (expected < -1) {
      uint64_t symbol = (uint64_t)(-2 - expected);
      if (symbol == *known) bound[(*known)++] = view->dims[d];
      expected = symbol < *known ? bound[symbol] : -1;
    }
    if (expected >= 0 && view->dims[d] != expected) {
      return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                          "dimension %" PRIu32 " of tensor %" PRIu32 " is %" PRId64 ", but '%s' must have %" PRId64 " there%s", d, index,
                          view->dims[d], param->name, expected, param->dims[d] < -1 ? ", as an earlier tensor with the same symbol" : "");
    }
  }
  return true;
}

// A boundary tensor that the entry declares as IN may be mapped read-only, or be somebody else's weights.
static bool slip__check_read_only(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index,
                                  const slip_object_param_t *param) {
  uint32_t access = submit->tensors[index].access;
  const slip_otensor_t *tensor = submit->tensors[index].tensor;
  bool writes = access == SLIP_ACCESS_OUT_EXISTING || access == SLIP_ACCESS_INOUT ||
                (access == SLIP_ACCESS_NO_DEP && param && param->direction != SLIP_DIRECTION_IN);
  if (!writes || tensor->generation != 0 || tensor->depth != SLIP_OTENSOR_READ_ONLY) return true;
  return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                      "tensor %" PRIu32
                      " would be written, but it is a parameter that the entry declares as in; declare it inout, or write "
                      "an intermediate",
                      index);
}

bool slip__check_tensor(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index) {
  const slip_object_t *object = workspace->run->object;
  const slip_object_param_t *params = object->kernel_params ? object->kernel_params[submit->kernel] : NULL;
  return slip__check_argument(workspace, submit, index) && slip__check_read_only(workspace, submit, index, params ? &params[index] : NULL);
}

static bool slip__check_tensors(slip__workspace_t *workspace, const slip_submit_t *submit, const slip_object_param_t *params) {
  int64_t bound[SLIP_KERNEL_MAX_TENSORS * SLIP_MAX_RANK];
  uint32_t known = 0;
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    if (!slip__check_tensor(workspace, submit, i)) return false;
    if (params && !slip__check_declared(workspace, submit, i, &params[i], bound, &known)) return false;
  }
  return true;
}

static void slip__form_describe(slip__workspace_t *workspace, const slip_oarg_t *argument, const slip_object_param_t *param,
                                slip_ktensor_t *view, slip__form_tensor_t *tensor) {
  *view = argument->tensor->view;
  view->data = NULL;
  bool out = argument->access == SLIP_ACCESS_OUT;
  int64_t stride = 1;
  for (int d = SLIP_MAX_RANK - 1; d >= 0; --d) {
    bool used = d < view->rank;
    if (!used) view->dims[d] = 1;
    if (!used || out) view->strides[d] = used ? stride : 0;
    if (used) stride *= view->dims[d];
  }
  tensor->access = argument->access;
  tensor->writes =
      argument->access == SLIP_ACCESS_NO_DEP ? param && param->direction != SLIP_DIRECTION_IN : argument->access != SLIP_ACCESS_IN;
  tensor->shape = slip__region_map_shape(&workspace->map, view, &tensor->low, &tensor->extent);
}

const slip__form_t *slip__forms_add(slip__workspace_t *workspace, const slip_submit_t *submit, slip__form_t *own, bool *out_own) {
  const slip_object_t *object = workspace->run->object;
  const slip_object_param_t *params = object->kernel_params ? object->kernel_params[submit->kernel] : NULL;
  slip__forms_t *forms = &workspace->forms;
  if (!slip__check_tensors(workspace, submit, params)) return NULL;
  uint64_t bytes = slip__form_bytes(submit->tensor_count);
  slip__form_t *form = own;
  *out_own = forms->used + bytes > SLIP__FORM_BYTES;
  if (!*out_own) {
    form = (slip__form_t *)(void *)(forms->memory + forms->used);
    forms->used += bytes;
    if (forms->used > forms->high) forms->high = forms->used;
  }
  form->object_serial = workspace->object_serial;
  form->id = ++forms->next_id;
  form->kernel = submit->kernel;
  form->tensor_count = submit->tensor_count;
  form->scalar_count = submit->scalar_count;
  form->plain = submit->tensor_count > 0 && submit->tensor_count <= SLIP__SLOT_TENSORS && submit->scalar_count <= SLIP__SLOT_SCALARS;
  form->tensors = (slip__form_tensor_t *)(void *)(form->views + submit->tensor_count);
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    slip__form_describe(workspace, &submit->tensors[i], params ? &params[i] : NULL, &form->views[i], &form->tensors[i]);
    uint32_t access = form->tensors[i].access;
    if (access == SLIP_ACCESS_OUT || access == SLIP_ACCESS_NO_DEP || form->tensors[i].shape == 0) form->plain = 0;
  }
  if (*out_own) return form;
  slip__form_t **bucket = &forms->buckets[(form->object_serial * 7 + submit->kernel) % SLIP__FORM_BUCKETS];
  form->next = *bucket;
  *bucket = form;
  return form;
}

static bool slip__dtype_is_integer(uint8_t dtype) {
  return dtype >= SLIP_DTYPE_I8 && dtype <= SLIP_DTYPE_BOOL;
}

static bool slip__check_predicate(slip__workspace_t *workspace, const slip_submit_t *submit) {
  const slip_predicate_t *predicate = submit->predicate;
  if (!predicate->tensor || predicate->op < SLIP_PREDICATE_EQ || predicate->op > SLIP_PREDICATE_GE) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "the predicate has %s and op %" PRIu32 ", expected a tensor and SLIP_PREDICATE_EQ .. GE",
                        predicate->tensor ? "a tensor" : "no tensor", predicate->op);
  }
  if (!slip__check_existing(workspace, submit, predicate->tensor, -1)) return false;
  const slip_ktensor_t *view = &predicate->tensor->view;
  uint64_t count = slip__view_count(view);
  if (!slip__dtype_is_integer(view->dtype) || predicate->index < 0 || (uint64_t)predicate->index >= count) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_PREDICATE_UNREADABLE,
                        "the predicate reads element %" PRId64 " of %" PRIu64
                        " of a tensor of dtype %u; expected an integer or bool dtype and an index inside",
                        predicate->index, count, view->dtype);
  }
  return true;
}

static bool slip__check_counts(slip__workspace_t *workspace, const slip_submit_t *submit) {
  const slip_object_t *object = workspace->run->object;
  if (submit->struct_size < sizeof(slip_submit_t)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "the submit has struct_size %" PRIu32 ", expected at least %zu; recompile the orchestration", submit->struct_size,
                        sizeof(slip_submit_t));
  }
  if (submit->kernel >= object->kernel_count) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK, "kernel %" PRIu32 " does not exist: the object has %" PRIu32,
                        submit->kernel, object->kernel_count);
  }
  const slip_object_kernel_t *kernel = &object->kernels[submit->kernel];
  if (submit->tensor_count != kernel->tensor_count || submit->tensor_count > SLIP_KERNEL_MAX_TENSORS ||
      submit->scalar_count != kernel->scalar_count || submit->scalar_count > SLIP_KERNEL_MAX_SCALARS) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "%" PRIu32 " tensors and %" PRIu32 " scalars were given, the kernel declares %" PRIu32 " and %" PRIu32,
                        submit->tensor_count, submit->scalar_count, kernel->tensor_count, kernel->scalar_count);
  }
  if ((submit->tensor_count && !submit->tensors) || (submit->scalar_count && !submit->scalars) || (submit->dep_count && !submit->deps)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK, "an argument array is NULL but its count is not 0");
  }
  if (submit->dep_count > SLIP_TASK_MAX_DEPS) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_TOO_MANY_DEPENDENCIES,
                        "%" PRIu32 " explicit dependencies, at most %d are possible; name sets of tasks by join()", submit->dep_count,
                        SLIP_TASK_MAX_DEPS);
  }
  if (submit->core > SLIP_CORE_MIXED || (submit->flags & ~(uint32_t)SLIP_SUBMIT_GANG)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK, "core %" PRIu32 " or flags 0x%" PRIx32 " are unknown",
                        submit->core, submit->flags);
  }
  if (kernel->scratch_bytes > slip__engine_scratch_bytes(workspace->engine)) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "the kernel needs %" PRIu32 " bytes of scratch, %" PRIu32 " are reserved; reserve them when the object is prepared",
                        kernel->scratch_bytes, slip__engine_scratch_bytes(workspace->engine));
  }
  if (submit->block_count > SLIP_TASK_MAX_BLOCKS) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_INVALID_TASK,
                        "%" PRIu32 " blocks, at most %u (SLIP_TASK_MAX_BLOCKS) are possible; give each block more of the work",
                        submit->block_count, SLIP_TASK_MAX_BLOCKS);
  }
  uint32_t threads = slip__engine_thread_count(workspace->engine);
  if ((submit->flags & SLIP_SUBMIT_GANG) && submit->block_count > threads) {
    return SLIP__REFUSE(workspace, submit, SLIP_CODE_GRAPH_GANG_TOO_LARGE,
                        "a gang of %" PRIu32 " blocks cannot start together on %" PRIu32
                        " threads; ask available_cores(), or raise scheduler_threads",
                        submit->block_count, threads);
  }
  return true;
}

bool slip__check_deps(slip__workspace_t *workspace, const slip_submit_t *submit, const slip_task_t *deps, uint32_t dep_count) {
  for (uint32_t i = 0; i < dep_count; ++i) {
    const slip__ring_t *ring = &workspace->rings[slip__task_ring(deps[i])];
    uint64_t sequence = slip__task_sequence(deps[i]);
    if (deps[i] == 0 || (sequence >= ring->base && sequence < ring->next)) continue;
    slip_status_t status = SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                       "dependency %" PRIu32 " names task 0x%" PRIx64
                                       ", which this run has not submitted; pass what submit() or join() returned",
                                       i, deps[i]);
    slip__workspace_fail(workspace, submit ? slip__fault_at_submit(workspace, submit, status) : slip__fault_here(workspace, status));
    return false;
  }
  return true;
}

// All rules but those of the tensors in one expression; the sentences are made by slip__check_counts.
const slip_object_kernel_t *slip__check_submit(slip__workspace_t *workspace, const slip_submit_t *submit) {
  const slip_object_t *object = workspace->run->object;
  if (__builtin_expect(submit->struct_size < sizeof(slip_submit_t) || submit->kernel >= object->kernel_count, 0)) {
    (void)slip__check_counts(workspace, submit);
    return NULL;
  }
  const slip_object_kernel_t *kernel = &object->kernels[submit->kernel];
  bool plain = (submit->tensor_count == kernel->tensor_count) & (submit->tensor_count <= SLIP_KERNEL_MAX_TENSORS) &
               (submit->scalar_count == kernel->scalar_count) & (submit->scalar_count <= SLIP_KERNEL_MAX_SCALARS) &
               (submit->tensors != NULL) & (submit->scalars != NULL) & (submit->dep_count == 0) & (submit->core <= SLIP_CORE_MIXED) &
               (submit->flags == 0) & (submit->block_count <= SLIP_TASK_MAX_BLOCKS) &
               (kernel->scratch_bytes <= slip__engine_scratch_bytes(workspace->engine)) & (submit->predicate == NULL);
  if (__builtin_expect(plain, 1)) return kernel;
  if (!slip__check_counts(workspace, submit) || !slip__check_deps(workspace, submit, submit->deps, submit->dep_count) ||
      (submit->predicate && !slip__check_predicate(workspace, submit))) {
    return NULL;
  }
  return kernel;
}

__attribute__((noinline, cold)) static bool slip__refuse_element(slip__workspace_t *workspace, slip_status_t status) {
  slip__workspace_fail(workspace, slip__fault_here(workspace, status));
  return false;
}

bool slip__check_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, int64_t index, const char *what) {
  if (!tensor || slip_dtype_carrier_bytes(tensor->view.dtype) == 0 || tensor->view.rank > SLIP_MAX_RANK) {
    return slip__refuse_element(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK, "%s was given %s, expected a tensor of rank <= %d",
                                                       what, tensor ? "an unknown dtype or rank" : "no tensor", SLIP_MAX_RANK));
  }
  if (slip__tensor_is_stale(workspace, tensor)) {
    return slip__refuse_element(
        workspace, SLIP_STATUS(SLIP_CODE_GRAPH_STALE_TENSOR,
                               "%s on a tensor of a scope of depth %" PRIu32 " that has ended; access its elements before that scope ends",
                               what, tensor->depth));
  }
  uint64_t count = slip__view_count(&tensor->view);
  if (index >= 0 && (uint64_t)index < count && slip__view_in_storage(tensor)) return true;
  return slip__refuse_element(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                                     "%s of element %" PRId64 " of a tensor of %" PRIu64
                                                     " elements; expected an index inside, and a view inside its storage",
                                                     what, index, count));
}
