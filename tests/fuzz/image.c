// SPDX-License-Identifier: Apache-2.0
// Callable images: refused as CORRUPT or INCOMPATIBLE, or readable in full and packed again to the same bytes.
#include "slip_fuzz.h"
#include "image/image_hash.h"
#include "slip_test_image.h"

static void slip_fuzz_open(const uint8_t *data, size_t size) {
  slip_image_view_t view, empty;
  slip_bytes_t again;
  memset(&view, 0xa5, sizeof(view));
  memset(&empty, 0, sizeof(empty));
  slip_code_t code = slip_fuzz_code(slip_image_open((slip_const_bytes_t){data, size}, &view));
  if (code != SLIP_CODE_OK) {
    SLIP_FUZZ_CHECK(code == SLIP_CODE_CORRUPT || code == SLIP_CODE_INCOMPATIBLE);
    SLIP_FUZZ_CHECK(memcmp(&view, &empty, sizeof(view)) == 0);
    return;
  }
  SLIP_FUZZ_CHECK(slip_fuzz_code(slip_test_image_repack(&view, slip_allocator_system(), &again)) == SLIP_CODE_OK);
  SLIP_FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
  slip_test_image_free(slip_allocator_system(), again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  slip_fuzz_open(data, size);
  return 0;
}

// Seven times of eight the hash is made right, and often the total size too.
void slip_fuzz_mend(uint8_t *data, size_t size, uint64_t seed) {
  if (size < SLIP__IMAGE_HEADER_BYTES || seed % 8 == 0) return;
  if (seed / 8 % 2 == 0) slip__store_u64(data + SLIP__HEADER_TOTAL, size);
  slip__image_seal((slip_bytes_t){data, size});
}

#ifdef SLIP_FUZZ_GUIDED
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

// A 32-bit or 64-bit field of the image becomes a number that breaks arithmetic, or a block is copied over another one.
static void slip_fuzz_change_field(uint8_t *data, size_t size, unsigned seed) {
  static const uint64_t numbers[] = {0,          1,          2,          63,         64,        65,         256,
                                     0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX};
  size_t words = size / 8, at = seed / 64 % words * 8 + (seed / 2 % 2) * 4;
  uint64_t value = numbers[seed / 4 % (sizeof(numbers) / sizeof(numbers[0]))];
  size_t width = seed % 2 ? 8 : 4, from = seed / 256 % words * 8;
  if (at + width > size) return;
  if (seed / 8 % 4 == 0) {
    memmove(data + at, data + from, size - (at > from ? at : from) < 96 ? width : seed / 16 % 96 + 1);
  } else {
    memcpy(data + at, &value, width);
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 3 != 0 && size >= SLIP__IMAGE_HEADER_BYTES) {
    slip_fuzz_change_field(data, size, seed / 3);
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
  }
  slip_fuzz_mend(data, size, seed / 5);
  return size;
}
#endif
