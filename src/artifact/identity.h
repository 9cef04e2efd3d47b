// SPDX-License-Identifier: Apache-2.0
// Content key of a build: a hash over a typed canonical encoding of all that decides its bytes.
//
// Into it go: the toolchain's identity, the sources with their include closure, specialisation, options, target, contract. Never:
// addresses, paths, time, run-time values. Each item is encoded as {type tag, length of the label, label, length of the value, value},
// numbers little-endian, floats as their bits, groups as begin and end items: two different descriptions never give the same bytes,
// whatever their texts contain. The order of the calls counts.
//
// A failed append (memory) is remembered and reported by finish. Thread-compatible.
#ifndef SLIPSTREAM_SRC_ARTIFACT_IDENTITY_H_
#define SLIPSTREAM_SRC_ARTIFACT_IDENTITY_H_

#include "base/string_builder.h"
#include "slipstream/signature.h"

// Part of the encoding; raise it when the encoding or the meaning of an item changes.
#define SLIP__IDENTITY_VERSION 1

// X(NAME, tag)
#define SLIP__IDENTITY_TAG_TABLE(X) \
  X(BEGIN, 1)                       \
  X(END, 2)                         \
  X(BOOL, 3)                        \
  X(U64, 4)                         \
  X(I64, 5)                         \
  X(F64, 6)                         \
  X(TEXT, 7)                        \
  X(BYTES, 8)                       \
  X(NONE, 9)

typedef struct slip__identity_t {
  slip__string_builder_t encoding;
  uint32_t depth;
} slip__identity_t;

void slip__identity_initialize(slip__identity_t *identity, slip_allocator_t allocator);
void slip__identity_deinitialize(slip__identity_t *identity);

// A group of items; groups nest. A list is a group whose items have the label "".
void slip__identity_begin(slip__identity_t *identity, const char *label);
void slip__identity_end(slip__identity_t *identity);
void slip__identity_bool(slip__identity_t *identity, const char *label, bool value);
void slip__identity_u64(slip__identity_t *identity, const char *label, uint64_t value);
void slip__identity_i64(slip__identity_t *identity, const char *label, int64_t value);
// By bits: 0.0 and -0.0 differ, a NaN equals itself.
void slip__identity_f64(slip__identity_t *identity, const char *label, double value);
// NULL is a value of its own, different from "".
void slip__identity_text(slip__identity_t *identity, const char *label, const char *text);
void slip__identity_bytes(slip__identity_t *identity, const char *label, slip_const_bytes_t bytes);
void slip__identity_signature(slip__identity_t *identity, const char *label, const slip_signature_t *signature);

// The key: 32 hexadecimal digits (XXH3-128 of the encoding) and a terminator. All groups must be closed. OUT_OF_MEMORY.
slip_status_t slip__identity_finish(const slip__identity_t *identity, char out_key[33]) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_ARTIFACT_IDENTITY_H_
