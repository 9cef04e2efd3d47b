// SPDX-License-Identifier: Apache-2.0
// manifest.json: refused, or a list of plain ascending paths that is written back to a list of the same content.
#include "artifact/file_list.h"
#include "slip_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  slip_allocator_t allocator = slip_allocator_system();
  slip__file_list_t list, again;
  slip_bytes_t text;
  slip_code_t code = slip_fuzz_code(slip__file_list_parse((slip_const_bytes_t){data, size}, allocator, &list));
  if (code != SLIP_CODE_OK) {
    SLIP_FUZZ_CHECK(code == SLIP_CODE_CORRUPT || code == SLIP_CODE_INCOMPATIBLE);
    SLIP_FUZZ_CHECK(list.records == NULL && list.count == 0);
    return 0;
  }
  SLIP_FUZZ_CHECK(slip_fuzz_code(slip__file_list_write(list.records, list.count, allocator, &text)) == SLIP_CODE_OK);
  SLIP_FUZZ_CHECK(slip_fuzz_code(slip__file_list_parse((slip_const_bytes_t){text.data, text.size}, allocator, &again)) == SLIP_CODE_OK);
  SLIP_FUZZ_CHECK(again.count == list.count);
  for (size_t i = 0; i < list.count; ++i) {
    const slip__file_record_t *a = &list.records[i], *b = &again.records[i];
    SLIP_FUZZ_CHECK(slip__file_path_valid(a->path) && a->path[0] != '/');
    SLIP_FUZZ_CHECK(strncmp(a->path, "../", 3) != 0 && strstr(a->path, "/../") == NULL);
    SLIP_FUZZ_CHECK(i == 0 || strcmp(list.records[i - 1].path, a->path) < 0);
    SLIP_FUZZ_CHECK(slip__file_list_find(&list, a->path) == a);
    SLIP_FUZZ_CHECK(strcmp(a->path, b->path) == 0 && a->size == b->size && a->mode == b->mode && slip__hash128_equal(a->hash, b->hash));
  }
  (void)allocator.control(allocator.self, text.data, text.size + 1, 0, 16);
  slip__file_list_deinitialize(&list);
  slip__file_list_deinitialize(&again);
  return 0;
}
