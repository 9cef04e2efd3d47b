// SPDX-License-Identifier: Apache-2.0
// From a definition to an instance: everything in one allocation, laid out in the order in which the planned lanes walk it.
#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "graph/execute.h"
#include "graph/recorded/replay.h"
#include "graph/schedule.h"

#define SLIP__SINKS_PER_GROUP 64u
#define SLIP__INSTANCE_FORMS  32u  // as many are told apart; nodes that look otherwise carry whole views
#define SLIP__HEAP_ALIGN      64u

// Byte offsets into the allocation.
typedef struct slip__instance_layout_t {
  uint64_t forms, views, nodes, waits, successors, order, slots, lanes, groups, roots, patches, first_patch, boundaries, arguments, heap;
  uint64_t total;
  uint32_t slot_count, sink_count, root_count, patch_count, group_count;
  uint64_t argument_bytes;
  uint32_t form_count, view_count;
  uint32_t form_nodes[SLIP__INSTANCE_FORMS];  // of each form the node with the most tensors
} slip__instance_layout_t;

static bool slip__node_needs_slot(const slip__definition_node_t *node) {
  return node->predicate != SLIP__NONE || node->block_count > 1;
}

// --- Forms --------------------------------------------------------------------------------------------------------------------------

// The first tensors of |a| and |b|, as many as both have, look alike.
static bool slip__forms_agree(const slip__definition_block_t *block, const slip__definition_node_t *a, const slip__definition_node_t *b) {
  const slip__definition_tensor_t *of_a = slip__definition_tensors(block) + a->first_tensor;
  const slip__definition_tensor_t *of_b = slip__definition_tensors(block) + b->first_tensor;
  uint32_t count = a->tensor_count < b->tensor_count ? a->tensor_count : b->tensor_count;
  for (uint32_t i = 0; i < count; ++i) {
    if (of_a[i].dtype != of_b[i].dtype || of_a[i].rank != of_b[i].rank || memcmp(of_a[i].dims, of_b[i].dims, sizeof(of_a[i].dims)) != 0 ||
        memcmp(of_a[i].strides, of_b[i].strides, sizeof(of_a[i].strides)) != 0)
      return false;
  }
  return true;
}

// The form of |node|, or SLIP__NONE: one that is there, made wider if need be, or a new one while there is room.
static uint32_t slip__instance_form(const slip__definition_block_t *block, const slip__definition_node_t *node,
                                    slip__instance_layout_t *layout) {
  if (node->block_count > 1) return SLIP__NONE;  // the board takes whole views
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  for (uint32_t f = 0; f < layout->form_count; ++f) {
    const slip__definition_node_t *known = &nodes[layout->form_nodes[f]];
    if (!slip__forms_agree(block, node, known)) continue;
    if (node->tensor_count > known->tensor_count) layout->form_nodes[f] = (uint32_t)(node - nodes);
    return f;
  }
  if (layout->form_count == SLIP__INSTANCE_FORMS) return SLIP__NONE;
  layout->form_nodes[layout->form_count] = (uint32_t)(node - nodes);
  return layout->form_count++;
}

static void slip__instance_view(const slip__definition_tensor_t *tensor, slip_ktensor_t *out) {
  memcpy(out->dims, tensor->dims, sizeof(out->dims));
  memcpy(out->strides, tensor->strides, sizeof(out->strides));
  out->dtype = tensor->dtype;
  out->rank = tensor->rank;
}

static void slip__instance_forms(slip__replay_t *replay, const slip__instance_layout_t *layout, slip_ktensor_t *views) {
  uint64_t id = slip__engine_next_form_id(replay->engine);
  for (uint32_t f = 0; f < layout->form_count; ++f) {
    const slip__definition_node_t *node = &slip__definition_nodes(replay->block)[layout->form_nodes[f]];
    replay->forms[f] = (slip__replay_form_t){.id = id + f, .tensor_count = node->tensor_count, .views = views};
    for (uint32_t i = 0; i < node->tensor_count; ++i) {
      slip__instance_view(&slip__definition_tensors(replay->block)[node->first_tensor + i], views++);
    }
  }
}

// --- Layout -------------------------------------------------------------------------------------------------------------------------

static uint64_t slip__node_argument_bytes(const slip__definition_node_t *node, uint32_t form) {
  return node->tensor_count * (form == SLIP__NONE ? sizeof(slip_ktensor_t) : sizeof(void *)) + node->scalar_count * sizeof(uint64_t);
}

static void slip__instance_count(const slip__definition_block_t *block, slip__instance_layout_t *layout) {
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  const slip__definition_tensor_t *tensors = slip__definition_tensors(block);
  const slip__definition_scalar_t *scalars = slip__definition_scalars(block);
  for (uint32_t i = 0; i < block->node_count; ++i) {
    layout->slot_count += slip__node_needs_slot(&nodes[i]);
    layout->sink_count += nodes[i].successor_count == 0;
    layout->root_count += nodes[i].indegree == 0;
    layout->argument_bytes += slip__node_argument_bytes(&nodes[i], slip__instance_form(block, &nodes[i], layout));
  }
  for (uint32_t f = 0; f < layout->form_count; ++f) layout->view_count += nodes[layout->form_nodes[f]].tensor_count;
  for (uint32_t i = 0; i < block->tensor_count; ++i) layout->patch_count += tensors[i].base != SLIP__BASE_HEAP;
  for (uint32_t i = 0; i < block->scalar_count; ++i) layout->patch_count += scalars[i].source != SLIP__NONE;
  layout->patch_count += block->predicate_count;
  layout->group_count = (layout->sink_count + SLIP__SINKS_PER_GROUP - 1) / SLIP__SINKS_PER_GROUP;
}

static bool slip__instance_add(uint64_t *inout_total, uint64_t count, uint64_t item_bytes, uint64_t *out_at) {
  uint64_t bytes;
  if (!slip__checked_align(*inout_total, 128, inout_total) || !slip__checked_mul(count, item_bytes, &bytes)) return false;
  *out_at = *inout_total;
  return slip__checked_add(*inout_total, bytes, inout_total);
}

static bool slip__instance_layout(const slip__definition_block_t *block, slip__instance_layout_t *layout) {
  uint64_t *total = &layout->total;
  slip__instance_count(block, layout);
  uint64_t boundaries = (uint64_t)block->boundary_count + block->boundary_scalar_count;
  *total = sizeof(slip__replay_t);
  return slip__instance_add(total, layout->form_count, sizeof(slip__replay_form_t), &layout->forms) &&
         slip__instance_add(total, layout->view_count, sizeof(slip_ktensor_t), &layout->views) &&
         slip__instance_add(total, block->node_count, sizeof(slip__replay_node_t), &layout->nodes) &&
         slip__instance_add(total, block->wait_count, sizeof(slip__definition_wait_t), &layout->waits) &&
         slip__instance_add(total, block->successor_count, sizeof(uint32_t), &layout->successors) &&
         slip__instance_add(total, block->node_count, sizeof(uint32_t), &layout->order) &&
         slip__instance_add(total, layout->slot_count, sizeof(slip__slot_t), &layout->slots) &&
         slip__instance_add(total, block->lane_count, sizeof(slip__replay_lane_t), &layout->lanes) &&
         slip__instance_add(total, layout->group_count, sizeof(slip__replay_group_t), &layout->groups) &&
         slip__instance_add(total, layout->root_count, sizeof(uint32_t), &layout->roots) &&
         slip__instance_add(total, layout->patch_count, sizeof(slip__replay_patch_t), &layout->patches) &&
         slip__instance_add(total, boundaries + 1, sizeof(uint32_t), &layout->first_patch) &&
         slip__instance_add(total, boundaries, sizeof(uint64_t), &layout->boundaries) &&
         slip__instance_add(total, layout->argument_bytes, 1, &layout->arguments) &&
         slip__instance_add(total, block->heap_bytes, 1, &layout->heap) && *total <= INT64_MAX;
}

static void slip__instance_place(slip__replay_t *replay, const slip__instance_layout_t *layout) {
  char *base = (char *)replay;
  replay->forms = (slip__replay_form_t *)(void *)(base + layout->forms);
  replay->nodes = (slip__replay_node_t *)(void *)(base + layout->nodes);
  replay->waits = (slip__definition_wait_t *)(void *)(base + layout->waits);
  replay->successors = (uint32_t *)(void *)(base + layout->successors);
  replay->order = (uint32_t *)(void *)(base + layout->order);
  replay->slots = (slip__slot_t *)(void *)(base + layout->slots);
  replay->lanes = (slip__replay_lane_t *)(void *)(base + layout->lanes);
  replay->groups = (slip__replay_group_t *)(void *)(base + layout->groups);
  replay->roots = (uint32_t *)(void *)(base + layout->roots);
  replay->patches = (slip__replay_patch_t *)(void *)(base + layout->patches);
  replay->first_patch = (uint32_t *)(void *)(base + layout->first_patch);
  replay->boundaries = (uint64_t *)(void *)(base + layout->boundaries);
  replay->heap = base + layout->heap;
  replay->bytes = layout->total;
  replay->group_count = layout->group_count;
  replay->root_count = layout->root_count;
  replay->slot_count = layout->slot_count;
}

// --- Patches ------------------------------------------------------------------------------------------------------------------------

// Words are given in any order, but patches lie sorted by boundary: once they are counted, once they are placed.
typedef struct slip__instance_patcher_t {
  slip__replay_t *replay;
  bool placing;
} slip__instance_patcher_t;

static void slip__instance_patch(slip__instance_patcher_t *patcher, uint32_t boundary, uint64_t *place, uint64_t mul, uint64_t add) {
  slip__replay_t *replay = patcher->replay;
  uint32_t *at = &replay->first_patch[boundary + 1];
  if (patcher->placing) replay->patches[*at] = (slip__replay_patch_t){.place = place, .mul = mul, .add = add};
  ++*at;
}

static void slip__instance_word(slip__instance_patcher_t *patcher, uint32_t base, uint64_t offset, void *place) {
  uint64_t *word = place;
  if (base == SLIP__BASE_HEAP) {
    *word = (uint64_t)(uintptr_t)(patcher->replay->heap + offset);
  } else {
    slip__instance_patch(patcher, base, word, 1, offset);
  }
}

static void slip__instance_arguments(slip__instance_patcher_t *patcher, const slip__definition_node_t *node,
                                     const slip__replay_node_t *made) {
  const slip__definition_block_t *block = patcher->replay->block;
  const slip__definition_tensor_t *tensors = slip__definition_tensors(block) + node->first_tensor;
  const slip__definition_scalar_t *scalars = slip__definition_scalars(block) + node->first_scalar;
  slip_ktensor_t *views = made->form == SLIP__NONE ? made->arguments : NULL;
  void **data = made->arguments;
  uint64_t *words = views ? (uint64_t *)(void *)(views + node->tensor_count) : (uint64_t *)(void *)(data + node->tensor_count);
  for (uint32_t i = 0; i < node->tensor_count; ++i) {
    if (views) slip__instance_view(&tensors[i], &views[i]);
    slip__instance_word(patcher, tensors[i].base, tensors[i].offset, views ? (void *)&views[i].data : &data[i]);
  }
  for (uint32_t i = 0; i < node->scalar_count; ++i) {
    if (scalars[i].source == SLIP__NONE) {
      words[i] = scalars[i].add;
    } else {
      slip__instance_patch(patcher, block->boundary_count + scalars[i].source, &words[i], scalars[i].mul, scalars[i].add);
    }
  }
  if (node->predicate != SLIP__NONE) {
    const slip__definition_predicate_t *predicate = &slip__definition_predicates(block)[node->predicate];
    slip__instance_word(patcher, predicate->base, predicate->offset, (void *)&patcher->replay->slots[made->slot].predicate_address);
  }
}

static void slip__instance_patches(slip__replay_t *replay) {
  const slip__definition_block_t *block = replay->block;
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  uint32_t boundaries = block->boundary_count + block->boundary_scalar_count;
  for (int placing = 0; placing < 2; ++placing) {
    slip__instance_patcher_t patcher = {.replay = replay, .placing = placing};
    for (uint32_t i = 0; i < block->node_count; ++i) slip__instance_arguments(&patcher, &nodes[i], &replay->nodes[replay->order[i]]);
    uint32_t sum = 0;
    // Counts become starts: word b + 1 counts boundary b's patches, holds their start while they are placed, and thereby ends as their end.
    for (uint32_t b = 0; b < boundaries && !placing; ++b) {
      uint32_t count = replay->first_patch[b + 1];
      replay->first_patch[b + 1] = sum;
      sum += count;
    }
  }
}

// The boundary's words hold values that none has: the first bind writes all.
static void slip__instance_first_bind(slip__replay_t *replay) {
  uint32_t boundaries = replay->block->boundary_count + replay->block->boundary_scalar_count;
  for (uint32_t b = 0; b < boundaries; ++b) {
    for (uint32_t i = replay->first_patch[b]; i < replay->first_patch[b + 1]; ++i) *replay->patches[i].place = replay->patches[i].add;
  }
}

void slip__replay_bind(slip__replay_t *replay, const slip_otensor_t *tensors, const uint64_t *scalars) {
  uint32_t tensor_count = replay->block->boundary_count, count = tensor_count + replay->block->boundary_scalar_count;
  for (uint32_t b = 0; b < count; ++b) {
    uint64_t value = b < tensor_count ? (uint64_t)(uintptr_t)tensors[b].storage : scalars[b - tensor_count];
    if (__builtin_expect(value == replay->boundaries[b], 1)) continue;
    replay->boundaries[b] = value;
    for (uint32_t i = replay->first_patch[b]; i < replay->first_patch[b + 1]; ++i) {
      const slip__replay_patch_t *patch = &replay->patches[i];
      *patch->place = value * patch->mul + patch->add;
    }
  }
}

// --- Nodes and lanes ----------------------------------------------------------------------------------------------------------------

static void slip__instance_slot(slip__replay_t *replay, const slip_object_t *object, const slip__definition_node_t *node,
                                const slip__replay_node_t *made) {
  slip__slot_t *slot = &replay->slots[made->slot];
  slot->kernel = node->kernel == SLIP__NONE ? NULL : &object->kernels[node->kernel];
  slot->form = NULL;
  slot->arguments = made->arguments;
  slot->block_count = node->block_count;
  slot->flags = (uint8_t)(node->flags | SLIP__SLOT_OF_NODE);
  slot->node_kernel = node->kernel;
  slot->node_index = (uint32_t)(node - slip__definition_nodes(replay->block));
  slot->node = (slip__slot_t *)((uintptr_t)made | SLIP__ITEM_NODE);
  if (node->predicate == SLIP__NONE) return;
  const slip__definition_predicate_t *predicate = &slip__definition_predicates(replay->block)[node->predicate];
  slot->predicate_op = predicate->op;
  slot->predicate_dtype = predicate->dtype;
  slot->predicate_literal = predicate->literal;
}

static void slip__instance_nodes(slip__replay_t *replay, slip__instance_layout_t *layout, char *arguments) {
  const slip__definition_block_t *block = replay->block;
  const slip_object_t *object = replay->object;
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  const slip__definition_entry_t *entries = slip__definition_entries(block);
  uint32_t slot = 0, successor = 0, sink = 0, root = 0;
  for (uint32_t i = 0; i < block->node_count; ++i) replay->order[entries[i].node] = i;
  for (uint32_t i = 0; i < block->node_count; ++i) {
    const slip__definition_node_t *node = &nodes[entries[i].node];
    const slip_object_kernel_t *kernel = node->kernel == SLIP__NONE ? NULL : &object->kernels[node->kernel];
    slip__replay_node_t *made = &replay->nodes[i];
    *made = (slip__replay_node_t){
        .indegree = node->indegree,
        .run = kernel ? kernel->run : NULL,
        .arguments = arguments,
        .replay = replay,
        .first_successor = node->successor_count ? successor : sink++ / SLIP__SINKS_PER_GROUP,
        .successor_count = node->successor_count,
        .first_wait = entries[i].first_wait,
        .form = slip__instance_form(block, node, layout),
        .tensor_count = (uint8_t)node->tensor_count,
        .scalar_count = (uint8_t)node->scalar_count,
        .flags = (uint8_t)((kernel ? 0 : SLIP__NODE_NO_KERNEL) | (node->predicate == SLIP__NONE ? 0 : SLIP__NODE_PREDICATE) |
                           (node->block_count > 1 ? SLIP__NODE_BLOCKS : 0) | (entries[i].signals ? SLIP__NODE_SIGNALS : 0) |
                           (kernel && kernel->scratch_bytes ? SLIP__NODE_SCRATCH : 0)),
        .wait_count = (uint8_t)entries[i].wait_count,
    };
    atomic_store_explicit(&made->pending, node->indegree, memory_order_relaxed);
    arguments += slip__node_argument_bytes(node, made->form);
    for (uint32_t s = 0; s < node->successor_count; ++s) {
      replay->successors[successor++] = replay->order[slip__definition_successors(block)[node->first_successor + s]];
    }
    if (slip__node_needs_slot(node)) {
      made->slot = slot++;
      slip__instance_slot(replay, object, node, made);
    }
  }
  for (uint32_t i = 0; i < block->node_count; ++i) {  // in the recorded order: what was submitted first is started first
    if (nodes[i].indegree == 0) replay->roots[root++] = replay->order[i];
  }
  for (uint32_t g = 0; g < replay->group_count; ++g) {
    uint32_t left = sink - g * SLIP__SINKS_PER_GROUP;
    replay->groups[g].size = left < SLIP__SINKS_PER_GROUP ? left : SLIP__SINKS_PER_GROUP;
    atomic_store_explicit(&replay->groups[g].left, replay->groups[g].size, memory_order_relaxed);
  }
  atomic_store_explicit(&replay->groups_left, replay->group_count, memory_order_relaxed);
}

static slip_status_t slip__instance_check_object(const slip__definition_block_t *block, const slip_object_t *object) {
  SLIP_RETURN_IF_ERROR(slip__definition_verify(block));
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  bool fits = block->kernel_count <= object->kernel_count;
  for (uint32_t i = 0; i < block->node_count && fits; ++i) {
    const slip_object_kernel_t *kernel = nodes[i].kernel == SLIP__NONE ? NULL : &object->kernels[nodes[i].kernel];
    fits = !kernel || (kernel->tensor_count == nodes[i].tensor_count && kernel->scalar_count == nodes[i].scalar_count);
  }
  if (fits) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                     "a recorded graph names kernels that the object (%" PRIu32 " kernels) does not declare so; record anew",
                     object->kernel_count);
}

slip_status_t slip__replay_create(slip__engine_t *engine, slip__definition_t *definition, const slip_object_t *object,
                                  slip__replay_t **out) {
  *out = NULL;
  const slip__definition_block_t *block = definition->block;
  SLIP_RETURN_IF_ERROR(slip__instance_check_object(block, object));
  slip__instance_layout_t layout = {0};
  if (!slip__instance_layout(block, &layout))
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "a recorded graph is larger than the address space");
  void *memory;
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(engine->allocator, (size_t)layout.total, 128, &memory));
  slip__replay_t *replay = memory;
  replay->engine = engine;
  replay->definition = slip__definition_retain(definition);
  replay->block = block;
  replay->object = object;
  slip__instance_place(replay, &layout);
  if (block->wait_count) memcpy(replay->waits, slip__definition_waits(block), block->wait_count * sizeof(slip__definition_wait_t));
  slip__instance_forms(replay, &layout, (slip_ktensor_t *)(void *)((char *)memory + layout.views));
  slip__instance_nodes(replay, &layout, (char *)memory + layout.arguments);
  for (uint32_t i = 0; i < block->lane_count; ++i) {
    replay->lanes[i].replay = replay;
    replay->lanes[i].first_entry = slip__definition_lanes(block)[i].first_entry;
    replay->lanes[i].count = slip__definition_lanes(block)[i].count;
    atomic_store_explicit(&replay->lanes[i].state, SLIP__LANE_DONE, memory_order_relaxed);
    atomic_store_explicit(&replay->lanes[i].progress, replay->lanes[i].count, memory_order_relaxed);  // done in epoch 0
  }
  slip__instance_patches(replay);
  slip__instance_first_bind(replay);
  *out = replay;
  return slip_ok_status();
}

void slip__replay_destroy(slip__replay_t *replay, slip__seat_t *seat) {
  if (!replay) return;
  slip__engine_t *engine = replay->engine;
  for (uint32_t i = 0; i < replay->block->lane_count; ++i) {
    while (atomic_load_explicit(&replay->lanes[i].queued, memory_order_acquire)) {
      if (!slip__help(engine, seat)) slip__cpu_relax();
    }
  }
  while (atomic_load_explicit(&replay->users, memory_order_acquire)) slip__cpu_relax();
  slip__definition_release(replay->definition);
  slip__free_aligned(engine->allocator, replay, (size_t)replay->bytes, 128);
}
