// SPDX-License-Identifier: Apache-2.0
#include "signature_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  slip_signature_t *signature;
  slip_status_t status = slip_signature_parse((const char *)data, size, slip_allocator_system(), &signature);
  if (slip_status_is_ok(status)) {
    slip_fuzz_signature(signature);
    slip_signature_release(signature);
  } else {
    SLIP_FUZZ_CHECK(signature == NULL && slip_status_code(status) == SLIP_CODE_INVALID_ARGUMENT);
  }
  slip_status_free(status);
  return 0;
}
