// SPDX-License-Identifier: Apache-2.0
// The device side of a launch through a lane. Runs in the platform's threads, where only device_map and device_unmap may be called.
//
// The arguments are read from the device's copy of the block, which every replay of a graph brings anew, and are given to the engine with
// the addresses at which the host finds the tensors. Address and storage move by the same distance, and the platform gives all of one
// allocation the same distance, so that overlap is judged as on the device.
#include <string.h>

#include "kernel_mode/graph.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/launch.h"
#include "kernel_mode/ticket.h"
#include "platform/label.h"
#include "slipstream/signature.h"

// The bytes that any element access touches. The frame has checked that they do not overflow.
static uint64_t slip__lane_span(const slip_ktensor_t *view, void **out_begin) {
  slip_tensor_t tensor = {.dtype = view->dtype, .rank = view->rank, .data = view->data};
  uint64_t begin = 0, end = 0;
  memcpy(tensor.dims, view->dims, sizeof(tensor.dims));
  memcpy(tensor.strides, view->strides, sizeof(tensor.strides));
  (void)slip_tensor_byte_span(&tensor, &begin, &end);
  *out_begin = (void *)(uintptr_t)begin;
  return end - begin;
}

// The label is for the messages of a platform that finds a mistake there; where it says nothing of its own, the status names the place.
static slip_status_t slip__lane_reach(slip_context_t *context, const slip__registration_t *registration, const char *tensor, void *address,
                                      uint64_t size_bytes, uint32_t access, void **out_view) {
  const char *callable = registration->object->entries[0].name;
  slip__platform_label = (slip__platform_label_t){.callable = callable, .tensor = tensor};
  slip_status_t status = slip__platform_device_map(context->platform, context->device.ordinal, address, size_bytes, access, out_view);
  slip__platform_label = (slip__platform_label_t){0};
  if (slip_status_is_ok(status) || strstr(slip_status_message(status), callable)) return status;
  return tensor ? slip_status_annotate(status, "reaching tensor \"%s\" of callable \"%s\"", tensor, callable)
                : slip_status_annotate(status, "reaching the arguments of callable \"%s\"", callable);
}

// A broken device answers every call with the same fault: it is told once.
static slip_status_t slip__lane_join(slip_status_t first, slip_status_t second) {
  if (slip_status_is_ok(first) || slip_status_code(first) != slip_status_code(second) ||
      slip_status_platform_code(first) != slip_status_platform_code(second))
    return slip_status_join(first, second);
  slip_status_free(second);
  return first;
}

// What the call has mapped so far: tensor |i| lies at |address[i]| of the device.
typedef struct slip__lane_mapping_t {
  slip_context_t *context;
  slip__registration_t *registration;
  uint32_t mapped;  // tensors
  void *addresses[SLIP_ENTRY_MAX_TENSORS];
  uint64_t sizes[SLIP_ENTRY_MAX_TENSORS];
  uint8_t access[SLIP_ENTRY_MAX_TENSORS];
} slip__lane_mapping_t;

static uint8_t slip__lane_access(uint32_t direction) {
  return direction == SLIP_DIRECTION_IN ? SLIP_MAP_READ : direction == SLIP_DIRECTION_OUT ? SLIP_MAP_WRITE : SLIP_MAP_READ | SLIP_MAP_WRITE;
}

// The frame in the order of the signature: the |tensor|th parameter that is no scalar.
static slip_status_t slip__lane_map_tensor(slip__lane_mapping_t *mapping, const slip_param_t *param, slip_otensor_t *tensor) {
  uint32_t i = mapping->mapped;
  void *view = NULL;
  mapping->access[i] = slip__lane_access(param->direction);
  mapping->sizes[i] = slip__lane_span(&tensor->view, &mapping->addresses[i]);
  if (mapping->sizes[i] > 0) {
    SLIP_RETURN_IF_ERROR(slip__lane_reach(mapping->context, mapping->registration, param->name, mapping->addresses[i], mapping->sizes[i],
                                          mapping->access[i], &view));
    ptrdiff_t distance = (ptrdiff_t)((uintptr_t)view - (uintptr_t)mapping->addresses[i]);
    tensor->view.data = (void *)((uintptr_t)tensor->view.data + (uintptr_t)distance);
    tensor->storage = (void *)((uintptr_t)tensor->storage + (uintptr_t)distance);
  }
  ++mapping->mapped;
  return slip_ok_status();
}

static slip_status_t slip__lane_map(slip__lane_mapping_t *mapping, slip_otensor_t *tensors) {
  const slip_signature_t *signature = mapping->registration->signature;
  for (size_t i = 0; mapping->mapped < mapping->registration->tensor_count; ++i) {
    const slip_param_t *param = slip_signature_param(signature, i);
    if (param->direction == SLIP_DIRECTION_SCALAR) continue;
    SLIP_RETURN_IF_ERROR(slip__lane_map_tensor(mapping, param, &tensors[mapping->mapped]));
  }
  return slip_ok_status();
}

static slip_status_t slip__lane_unmap(const slip__lane_mapping_t *mapping) {
  slip_status_t status = slip_ok_status();
  for (uint32_t i = 0; i < mapping->mapped; ++i) {
    if (mapping->sizes[i] == 0) continue;
    status = slip__lane_join(status, slip__platform_device_unmap(mapping->context->platform, mapping->context->device.ordinal,
                                                                 mapping->addresses[i], mapping->sizes[i], mapping->access[i]));
  }
  return status;
}

// From the device's copy of the block to the slot.
static slip_status_t slip__lane_fetch(slip_context_t *context, const slip__registration_t *registration, void *block, slip__slot_t *slot) {
  size_t tensors = registration->tensor_count * sizeof(slip_otensor_t), scalars = registration->scalar_count * sizeof(uint64_t);
  void *view = NULL;
  if (tensors + scalars == 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__lane_reach(context, registration, NULL, block, tensors + scalars, SLIP_MAP_READ, &view));
  memcpy(slot->tensors, view, tensors);
  memcpy(slot->scalars, (const unsigned char *)view + tensors, scalars);
  return slip__platform_device_unmap(context->platform, context->device.ordinal, block, tensors + scalars, SLIP_MAP_READ);
}

static slip_status_t slip__lane_execute(slip_ticket_t *ticket, slip__slot_t *slot) {
  slip_context_t *context = ticket->context;
  slip__registration_t *registration = ticket->registration;
  slip__lane_mapping_t mapping = {.context = context, .registration = registration, .mapped = 0};
  SLIP_RETURN_IF_ERROR(slip__lane_fetch(context, registration, ticket->device_arguments, slot));
  slip_status_t status = slip__lane_map(&mapping, slot->tensors);
  if (slip_status_is_ok(status)) status = slip__launch_run(context, slot, registration, slot->tensors, slot->scalars);
  slip_status_t unmapped = slip__lane_unmap(&mapping);
  slip__launch_poison_if_undefined(context, unmapped);
  return slip__lane_join(status, unmapped);
}

void slip__lane_run(void *user) {
  slip_ticket_t *ticket = user;
  slip_context_t *context = ticket->context;
  const slip__chain_link_t *link = ticket->link.chain ? &ticket->link : NULL;
  slip_status_t status = slip_ok_status();
  if (atomic_load_explicit(&ticket->armed, memory_order_acquire) == 0) return;
  if (!link || slip__chain_begin(link)) {
    int32_t index = slip__slot_acquire(context, true);
    status = slip__lane_execute(ticket, &context->slots[index]);
    slip__slot_release(context, index);
    slip__launch_poison_if_undefined(context, status);
  }
  if (link) status = slip__chain_end(link, status);
  slip__ticket_set_result(ticket, status);
  ticket->ran = true;
}

void slip__lane_finish(void *user) {
  slip_ticket_t *ticket = user;
  if (!ticket->ran) {
    slip_status_t status = SLIP_STATUS(SLIP_CODE_DEVICE, "the device did not run the launch: an earlier error has broken it");
    slip__launch_poison_if_undefined(ticket->context, status);
    slip__ticket_set_result(ticket, status);
  }
  atomic_fetch_sub_explicit(&ticket->lane->outstanding, 1, memory_order_relaxed);
  slip__ticket_finish(ticket);
}

void slip__lane_end_captured(void *user) {
  slip__ticket_finish_captured(user);
}
