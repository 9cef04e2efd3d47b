// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .safetensors file: refused, or tensors that cover the buffer and lie inside the bytes.
#include "../../cli/io/safetensors.h"
#include "slip_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cli_safetensors_t file;
  slip_status_t status = cli_safetensors_parse((slip_const_bytes_t){data, size}, &file);
  if (slip_status_is_ok(status)) {
    uint64_t covered = 0;
    for (size_t i = 0; i < file.count; ++i) {
      cli_array_t array;
      uint64_t bytes = 0;
      covered += file.items[i].end - file.items[i].begin;
      SLIP_FUZZ_CHECK(cli_safetensors_find(&file, file.items[i].name) == &file.items[i]);
      slip_status_t use = cli_safetensors_array(&file, &file.items[i], &array);
      if (slip_status_is_ok(use)) {
        SLIP_FUZZ_CHECK(cli_array_size(array.dtype, array.rank, array.dims, &bytes) && bytes == array.data.size);
        SLIP_FUZZ_CHECK(array.data.data >= data && array.data.size <= size - (size_t)(array.data.data - data));
      }
      slip_status_free(use);
    }
    SLIP_FUZZ_CHECK(covered == file.buffer.size);
    cli_safetensors_deinitialize(&file);
  } else {
    SLIP_FUZZ_CHECK(file.header == NULL && slip_status_code(status) == SLIP_CODE_CORRUPT);
  }
  slip_status_free(status);
  return 0;
}
