// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .npy file: refused, or an array that lies inside the bytes.
#include "../../cli/io/npy.h"
#include "slip_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const slip_dtype_t declared[] = {SLIP_DTYPE_NONE, SLIP_DTYPE_F32, SLIP_DTYPE_BF16, SLIP_DTYPE_F8E5M2};
  for (size_t i = 0; i < sizeof(declared) / sizeof(declared[0]); ++i) {
    cli_array_t array;
    uint64_t bytes = 0;
    slip_status_t status = cli_npy_parse((slip_const_bytes_t){data, size}, declared[i], &array);
    if (slip_status_is_ok(status)) {
      SLIP_FUZZ_CHECK(cli_array_size(array.dtype, array.rank, array.dims, &bytes) && bytes == array.data.size);
      SLIP_FUZZ_CHECK(array.data.data >= data && array.data.size <= size - (size_t)(array.data.data - data));
    } else {
      SLIP_FUZZ_CHECK(array.data.data == NULL);
      SLIP_FUZZ_CHECK(slip_status_code(status) == SLIP_CODE_CORRUPT || slip_status_code(status) == SLIP_CODE_UNSUPPORTED);
    }
    slip_status_free(status);
  }
  return 0;
}
