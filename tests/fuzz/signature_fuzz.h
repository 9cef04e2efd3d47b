// SPDX-License-Identifier: Apache-2.0
// What must hold for every signature that a parser accepted.
#ifndef SLIP_SIGNATURE_FUZZ_H_
#define SLIP_SIGNATURE_FUZZ_H_

#include "slip_fuzz.h"
#include "slipstream/signature.h"

// Through text and JSON and back: equal, and the same text.
static inline void slip_fuzz_signature(const slip_signature_t *signature) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_signature_t *from_text, *from_json;
  slip_bytes_t json;
  size_t length = slip_signature_format(signature, NULL, 0);
  char *text = malloc(length + 1), *again = malloc(length + 1);
  SLIP_FUZZ_CHECK(text && again && slip_signature_format(signature, text, length + 1) == length);
  SLIP_FUZZ_OK(slip_signature_parse(text, length, allocator, &from_text));
  SLIP_FUZZ_OK(slip_signature_to_json(signature, allocator, &json));
  SLIP_FUZZ_OK(slip_signature_from_json((char *)json.data, json.size, allocator, &from_json));
  SLIP_FUZZ_CHECK(slip_signature_equal(signature, from_text) && slip_signature_equal(signature, from_json));
  SLIP_FUZZ_CHECK(slip_signature_hash(signature) == slip_signature_hash(from_text));
  SLIP_FUZZ_CHECK(slip_signature_format(from_json, again, length + 1) == length && strcmp(text, again) == 0);
  slip_signature_release(from_json);
  slip_signature_release(from_text);
  allocator.control(allocator.self, json.data, json.size + 1, 0, 16);
  free(again);
  free(text);
}

#endif  // SLIP_SIGNATURE_FUZZ_H_
