// SPDX-License-Identifier: Apache-2.0
// Memory while device functions use it: what each has mapped, and whether it did there what it had said.
//
// A range mapped for reading only must hold the same bytes at its unmap, unless somebody else wrote them rightfully: a hash tells. Maps
// that overlap one for writing, and copies and fills into the range, excuse a change; the hash is not even asked for then.
#include <stdio.h>

#include "base/allocator.h"
#include "base/hash.h"
#include "platform/label.h"
#include "platform/sim/block.h"

// Guarded by the memory lock; |hash| and |next| are the function's thread's.
typedef struct slip__sim_map_t {
  slip__sim_block_t *block;  // in use, so it stays
  uint64_t offset;
  uint64_t size;
  uint32_t access;
  bool excused;  // a change is no proof
  uint64_t hash;
  slip__platform_label_t label;
  struct slip__sim_map_t *next;       // of the function
  struct slip__sim_map_t *neighbour;  // of the block
} slip__sim_map_t;

// What the function that the thread runs has mapped, youngest first.
static _Thread_local slip__sim_map_t *slip__sim_maps;

static const char *slip__sim_map_who(char *text, size_t capacity, const char *prefix, slip__platform_label_t label) {
  if (label.tensor) {
    (void)snprintf(text, capacity, "%sa device function (tensor \"%s\" of callable \"%s\")", prefix, label.tensor, label.callable);
  } else if (label.callable) {
    (void)snprintf(text, capacity, "%sa device function (arguments of callable \"%s\")", prefix, label.callable);
  } else {
    (void)snprintf(text, capacity, "%sa device function", prefix);
  }
  return text;
}

// --- writers

static bool slip__sim_map_overlaps(const slip__sim_map_t *map, uint64_t offset, uint64_t size) {
  return map->offset < offset + size && offset < map->offset + map->size;
}

static void slip__sim_map_excuse(const slip__sim_block_t *block, uint64_t offset, uint64_t size) {
  for (slip__sim_map_t *map = block->maps; map; map = map->neighbour) {
    if (slip__sim_map_overlaps(map, offset, size)) map->excused = true;
  }
}

void slip__sim_write_begin(const slip__sim_side_t *side, uint64_t size) {
  if (!side->block) return;
  side->block->copies += 1;
  slip__sim_map_excuse(side->block, side->offset, size);
}

void slip__sim_write_end(const slip__sim_side_t *side) {
  if (side->block) side->block->copies -= 1;
}

static bool slip__sim_map_written(const slip__sim_block_t *block, uint64_t offset, uint64_t size) {
  bool written = block->copies > 0;
  for (const slip__sim_map_t *map = block->maps; map && !written; map = map->neighbour)
    written = (map->access & SLIP_MAP_WRITE) && slip__sim_map_overlaps(map, offset, size);
  return written;
}

// --- one function's view of a range

static slip_const_bytes_t slip__sim_map_bytes(const slip__sim_map_t *map) {
  return (slip_const_bytes_t){.data = map->block->bytes + map->offset, .size = map->size};
}

// Locked.
static void slip__sim_map_link(slip__sim_map_t *map) {
  if (map->access & SLIP_MAP_WRITE) {
    map->excused = true;
    slip__sim_map_excuse(map->block, map->offset, map->size);
  } else {
    map->excused = slip__sim_map_written(map->block, map->offset, map->size);
  }
  map->neighbour = map->block->maps;
  map->block->maps = map;
}

// Locked.
static void slip__sim_map_unlink(const slip__sim_map_t *map) {
  slip__sim_map_t **link = &map->block->maps;
  while (*link != map) link = &(*link)->neighbour;
  *link = map->neighbour;
}

static void slip__sim_map_report_change(const slip__sim_map_t *map, const char *who) {
  slip__sim_violation(
      map->block->device, true, SLIP__SIM_ILLEGAL_ADDRESS,
      "%s wrote what it has for reading only: %llu bytes at %p (offset %llu of an allocation of %llu) changed while nobody had "
      "them for writing; declare the tensor inout or out, or correct the code that writes there",
      who, (unsigned long long)map->size, (void *)(map->block->address + map->offset), (unsigned long long)map->offset,
      (unsigned long long)map->block->size);
}

// Ends |map|, which is no longer in the thread's list, and frees it.
static void slip__sim_map_end(slip__sim_map_t *map) {
  char who[256];
  slip__sim_side_t side = {.name = "range", .block = map->block, .offset = map->offset};
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  bool excused = map->excused;
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  bool changed = !excused && slip__hash64(slip__sim_map_bytes(map)) != map->hash;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip__sim_map_unlink(map);
  if (changed && !map->excused) slip__sim_map_report_change(map, slip__sim_map_who(who, sizeof(who), "", map->label));
  if ((map->access & SLIP_MAP_WRITE) && !map->block->freed_by) slip__sim_define_changed(map->block, map->offset, map->size);
  slip__sim_side_end(&side, slip__sim_map_who(who, sizeof(who), "the end of ", map->label));
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  slip__free(slip_allocator_system(), map, sizeof(*map));
}

void slip__sim_maps_end(void) {
  while (slip__sim_maps) {
    slip__sim_map_t *map = slip__sim_maps;
    slip__sim_maps = map->next;
    slip__sim_map_end(map);
  }
}

// --- the entries

static slip_status_t slip__sim_map_permitted(int32_t device, const char *call) {
  if (slip__sim_role == SLIP__SIM_ROLE_DEVICE_FUNCTION && slip__sim_running_device == device) return slip_ok_status();
  bool function = slip__sim_role == SLIP__SIM_ROLE_DEVICE_FUNCTION;
  slip__sim_violation(device, false, SLIP__SIM_NOT_PERMITTED, "%s for device %d was called from %s", call, device,
                      function ? "a function of another device" : "outside device functions");
  return slip__sim_error(SLIP__SIM_NOT_PERMITTED, "%s for device %d was called from %s", call, device,
                         function ? "a function of another device" : "outside device functions");
}

// Makes a wrong address of device code the device's fault. Consumes |status|.
static slip_status_t slip__sim_map_fault(int32_t device, slip_status_t status) {
  slip__sim_violation(device, true, SLIP__SIM_ILLEGAL_ADDRESS, "%s", slip_status_message(status));
  slip_status_t fault = slip__sim_error(SLIP__SIM_ILLEGAL_ADDRESS, "%s", slip_status_message(status));
  slip_status_free(status);
  return fault;
}

// Fills in |map|, which counts from now on if the answer is OK and |*out_defined|. Locked.
static slip_status_t slip__sim_map_begin(slip__sim_map_t *map, int32_t device, void *address, bool *out_defined) {
  char who[256];
  slip__sim_side_t side = {.name = "range", .pointer = address};
  uint64_t first = 0;
  (void)slip__sim_map_who(who, sizeof(who), "", map->label);
  *out_defined = false;
  SLIP_RETURN_IF_ERROR(slip__sim_side_resolve(&side, who, device, map->size));
  if ((map->access & SLIP_MAP_READ) && !slip__sim_defined(side.block, side.offset, map->size, &first)) {
    slip__sim_report_undefined(&side, who, map->size, first, true);
    return slip_ok_status();
  }
  *out_defined = true;
  slip__sim_side_begin(&side);
  map->block = side.block;
  map->offset = side.offset;
  slip__sim_map_link(map);
  return slip_ok_status();
}

slip_status_t slip__sim_device_map(int32_t device, void *address, uint64_t size_bytes, uint32_t access, void **out_view) {
  void *memory = NULL;
  bool defined = false;
  *out_view = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_map_permitted(device, "device_map"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), sizeof(slip__sim_map_t), &memory));
  slip__sim_map_t *map = memory;
  *map = (slip__sim_map_t){.size = size_bytes, .access = access, .label = slip__platform_label};
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_map_begin(map, device, address, &defined);
  bool excused = map->excused;
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  if (!defined) {
    slip__free(slip_allocator_system(), map, sizeof(*map));
    return slip_status_is_ok(status) ? slip__sim_check_device(device) : slip__sim_map_fault(device, status);
  }
  // Who begins to write meanwhile excuses it.
  if (!excused) map->hash = slip__hash64(slip__sim_map_bytes(map));
  map->next = slip__sim_maps;
  slip__sim_maps = map;
  *out_view = (void *)(uintptr_t)slip__sim_map_bytes(map).data;
  return status;
}

// Takes the map from the thread's list; NULL.
static slip__sim_map_t *slip__sim_map_take(const void *address, uint64_t size_bytes, uint32_t access) {
  slip__sim_map_t **link = &slip__sim_maps;
  for (; *link; link = &(*link)->next) {
    slip__sim_map_t *map = *link;
    if (map->block->address + map->offset != (uintptr_t)address || map->size != size_bytes || map->access != access) continue;
    *link = map->next;
    return map;
  }
  return NULL;
}

slip_status_t slip__sim_device_unmap(int32_t device, void *address, uint64_t size_bytes, uint32_t access) {
  SLIP_RETURN_IF_ERROR(slip__sim_map_permitted(device, "device_unmap"));
  slip__sim_map_t *map = slip__sim_map_take(address, size_bytes, access);
  if (!map) {
    return slip__sim_map_fault(device,
                               slip__sim_error(SLIP__SIM_INVALID_VALUE, "device_unmap: %llu bytes at %p are not mapped for this access",
                                               (unsigned long long)size_bytes, address));
  }
  slip__sim_map_end(map);
  return slip__sim_check_device(device);
}
