// SPDX-License-Identifier: Apache-2.0
// Which bytes were ever written, and the pattern of those that were not.
#include <string.h>

#include "platform/sim/block.h"

// Fewer undefined bytes than this in a group prove nothing: see block.h.
#define SLIP__SIM_PROOF_BYTES 4

// A word of memory that other threads may be writing: what they have not finished counts as written or not, both are right.
typedef uint64_t __attribute__((may_alias, aligned(1))) slip__sim_word_t;

// Neighbouring groups differ in every byte sooner or later; one addition a group keeps large allocations cheap.
static inline uint64_t slip__sim_pattern(const slip__sim_block_t *block, uint64_t group) {
  return block->key + group * 0x9e3779b97f4a7c15u;
}

// Bits of the bytes of |group| that lie in [begin, end).
static inline uint8_t slip__sim_group_mask(uint64_t group, uint64_t begin, uint64_t end) {
  uint64_t first = group * 8;
  uint32_t mask = 0xff;
  if (begin > first) mask &= 0xffu << (uint32_t)(begin - first);
  if (end < first + 8) mask &= 0xffu >> (uint32_t)(first + 8 - end);
  return (uint8_t)mask;
}

// One bit a byte made to one byte a byte: 0b101 gives 0xff00ff.
static inline uint64_t slip__sim_spread(uint32_t mask) {
  uint64_t spread = 0;
  for (uint32_t i = 0; i < 8; ++i) spread |= (mask >> i & 1u) ? (uint64_t)0xff << (8 * i) : 0;
  return spread;
}

static void slip__sim_pattern_group(slip__sim_block_t *block, uint64_t group, uint32_t mask) {
  uint64_t pattern = slip__sim_pattern(block, group);
  for (uint32_t i = 0; i < 8; ++i) {
    if (mask >> i & 1u) block->bytes[group * 8 + i] = (uint8_t)(pattern >> (8 * i));
  }
}

void slip__sim_pattern_write(slip__sim_block_t *block, uint64_t offset, uint64_t size) {
  uint64_t end = offset + size, group = offset / 8, last = (end - 1) / 8;
  for (; group <= last; ++group) {
    uint8_t mask = slip__sim_group_mask(group, offset, end);
    if (mask == 0xff) {
      *(slip__sim_word_t *)(void *)(block->bytes + group * 8) = slip__sim_pattern(block, group);
    } else {
      slip__sim_pattern_group(block, group, mask);
    }
  }
}

void slip__sim_define(slip__sim_block_t *block, uint64_t offset, uint64_t size) {
  uint64_t end = offset + size, first = offset / 8, last = (end - 1) / 8;
  block->defined[first] |= slip__sim_group_mask(first, offset, end);
  if (last == first) return;
  block->defined[last] |= slip__sim_group_mask(last, offset, end);
  memset(block->defined + first + 1, 0xff, last - first - 1);
}

// The first group in [group, last] that is not wholly written; last + 1.
static uint64_t slip__sim_next_gap(const slip__sim_block_t *block, uint64_t group, uint64_t last) {
  while (group + 8 <= last && *(const slip__sim_word_t *)(const void *)(block->defined + group) == UINT64_MAX) group += 8;
  while (group <= last && block->defined[group] == 0xff) ++group;
  return group;
}

bool slip__sim_defined(const slip__sim_block_t *block, uint64_t offset, uint64_t size, uint64_t *out_first) {
  uint64_t end = offset + size, last = (end - 1) / 8;
  for (uint64_t group = offset / 8; (group = slip__sim_next_gap(block, group, last)) <= last; ++group) {
    uint8_t missing = (uint8_t)(slip__sim_group_mask(group, offset, end) & ~block->defined[group]);
    if (missing == 0) continue;
    *out_first = group * 8 + (uint64_t)__builtin_ctz(missing);
    return false;
  }
  return true;
}

// Other functions may be writing their own part of the range meanwhile: not a race of the simulator's, so not one to report.
__attribute__((no_sanitize("thread"))) static uint64_t slip__sim_peek(const slip__sim_block_t *block, uint64_t group) {
  return *(const slip__sim_word_t *)(const void *)(block->bytes + group * 8);  // may reach into the guard behind the last bytes
}

// Settles those bytes of |group| that |missing| names.
static void slip__sim_define_changed_group(slip__sim_block_t *block, uint64_t group, uint8_t missing) {
  uint64_t changed = slip__sim_peek(block, group) ^ slip__sim_pattern(block, group);
  if (missing == 0xff) {
    if (changed) block->defined[group] = 0xff;
    return;
  }
  bool proof = __builtin_popcount(missing) >= SLIP__SIM_PROOF_BYTES;
  if ((changed & slip__sim_spread(missing)) || !proof) block->defined[group] |= missing;
}

void slip__sim_define_changed(slip__sim_block_t *block, uint64_t offset, uint64_t size) {
  uint64_t end = offset + size, last = (end - 1) / 8;
  for (uint64_t group = offset / 8; group <= last; ++group) {
    if (block->defined[group] == 0xff) group = slip__sim_next_gap(block, group, last);
    if (group > last) return;
    uint8_t missing = (uint8_t)(slip__sim_group_mask(group, offset, end) & ~block->defined[group]);
    if (missing != 0) slip__sim_define_changed_group(block, group, missing);
  }
}

static inline bool slip__sim_byte_defined(const slip__sim_block_t *block, uint64_t at) {
  return block->defined[at / 8] >> (at % 8) & 1;
}

void slip__sim_define_copied(slip__sim_block_t *target, uint64_t target_offset, const slip__sim_block_t *source, uint64_t source_offset,
                             uint64_t size) {
  uint64_t first = 0;
  if (slip__sim_defined(source, source_offset, size, &first)) {
    slip__sim_define(target, target_offset, size);
    return;
  }
  // Byte by byte, in the direction that an overlap within one allocation needs.
  bool backwards = target == source && target_offset > source_offset;
  for (uint64_t step = 0; step < size; ++step) {
    uint64_t i = backwards ? size - 1 - step : step, at = target_offset + i;
    if (slip__sim_byte_defined(source, source_offset + i)) {
      slip__sim_define(target, at, 1);
    } else {
      target->defined[at / 8] &= (uint8_t) ~(1u << (at % 8));
      slip__sim_pattern_group(target, at / 8, 1u << (at % 8));
    }
  }
}
