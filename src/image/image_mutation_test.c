// SPDX-License-Identifier: Apache-2.0
// Damaged images: as they come (the hash finds all), and sealed again after the damage (each rule has to hold for itself).
#include "image/image_hash.h"
#include "slip_test.h"
#include "slip_test_image.h"

// A copy in a block of its exact size, so that a sanitizer sees one byte read too many.
static slip_bytes_t slip_copy(slip_bytes_t image, size_t size) {
  slip_bytes_t copy = {malloc(size ? size : 1), size};
  for (size_t i = 0; i < size; ++i) copy.data[i] = i < image.size ? image.data[i] : 0;
  return copy;
}

static slip_code_t slip_open_code(slip_bytes_t image) {
  slip_image_view_t view, empty;
  memset(&empty, 0, sizeof(empty));
  slip_status_t status = slip_image_open((slip_const_bytes_t){image.data, image.size}, &view);
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  if (code != SLIP_CODE_OK) SLIP_CHECK(memcmp(&view, &empty, sizeof(view)) == 0);
  return code;
}

// Refused, or fully usable: everything can be read, and packs to the same bytes. Returns true if it was accepted.
static bool slip_refused_or_harmless(slip_bytes_t image) {
  slip_image_view_t view;
  slip_bytes_t again;
  slip_status_t status = slip_image_open((slip_const_bytes_t){image.data, image.size}, &view);
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  if (code == SLIP_CODE_CORRUPT || code == SLIP_CODE_INCOMPATIBLE) return false;
  SLIP_CHECK_EQ(code, SLIP_CODE_OK);
  SLIP_CHECK_OK(slip_test_image_repack(&view, slip_allocator_system(), &again));
  SLIP_CHECK_EQ(again.size, image.size);
  SLIP_CHECK(memcmp(again.data, image.data, image.size) == 0);
  slip_test_image_free(slip_allocator_system(), again);
  return true;
}

SLIP_TEST(image_every_flipped_bit_is_refused) {
  for (unsigned sample = 0; sample < SLIP_TEST_IMAGE_SAMPLES; ++sample) {
    slip_bytes_t image;
    SLIP_CHECK_OK(slip_test_image_sample(sample, slip_allocator_system(), &image));
    slip_bytes_t copy = slip_copy(image, image.size);
    for (size_t bit = 0; bit < 8 * image.size; ++bit) {
      copy.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
      bool version = bit / 8 >= SLIP__HEADER_VERSION && bit / 8 < SLIP__HEADER_BYTES;
      SLIP_CHECK_EQ(slip_open_code(copy), version ? SLIP_CODE_INCOMPATIBLE : SLIP_CODE_CORRUPT);
      copy.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    SLIP_CHECK_EQ(slip_open_code(copy), SLIP_CODE_OK);
    free(copy.data);
    slip_test_image_free(slip_allocator_system(), image);
  }
}

SLIP_TEST(image_every_truncation_and_extension_is_refused) {
  slip_bytes_t image;
  SLIP_CHECK_OK(slip_test_image_sample(2, slip_allocator_system(), &image));
  SLIP_CHECK_EQ(slip_open_code((slip_bytes_t){NULL, 0}), SLIP_CODE_CORRUPT);
  SLIP_CHECK_EQ(slip_open_code((slip_bytes_t){NULL, 4096}), SLIP_CODE_CORRUPT);
  for (size_t size = 0; size <= image.size + 130; ++size) {
    slip_bytes_t copy = slip_copy(image, size);
    SLIP_CHECK_EQ(slip_open_code(copy), size == image.size ? SLIP_CODE_OK : SLIP_CODE_CORRUPT);
    // The same with a size and a hash that agree: the layout itself must refuse.
    if (size >= SLIP__IMAGE_HEADER_BYTES && size != image.size) {
      slip__store_u64(copy.data + SLIP__HEADER_TOTAL, size);
      slip__image_seal(copy);
      SLIP_CHECK_EQ(slip_open_code(copy), SLIP_CODE_CORRUPT);
    }
    free(copy.data);
  }
  slip_test_image_free(slip_allocator_system(), image);
}

// Each byte takes 10 values, sealed again each time. Only content that no rule binds may be accepted: characters of names, code, sizes
// of scratch, values of enumerations and dims, the order of aliases.
SLIP_TEST_TIMEOUT(image_every_byte_mutated_and_sealed_is_refused_or_harmless, 120) {
  static const uint8_t patterns[] = {0x00, 0x01, 0x02, 0x03, 0x7f, 0x80, 0xff, '_', 'A', '5'};
  for (unsigned sample = 0; sample < SLIP_TEST_IMAGE_SAMPLES; ++sample) {
    slip_bytes_t image;
    SLIP_CHECK_OK(slip_test_image_sample(sample, slip_allocator_system(), &image));
    slip_bytes_t copy = slip_copy(image, image.size);
    size_t accepted = 0, refused = 0;
    const size_t code_size_at = SLIP__HEADER_SECTIONS + SLIP__IMAGE_ORCHESTRATION * SLIP__SECTION_BYTES + SLIP__SECTION_SIZE;
    for (size_t at = 0; at < image.size; ++at) {
      for (size_t p = 0; p < sizeof(patterns); ++p) {
        if (image.data[at] == patterns[p]) continue;
        copy.data[at] = patterns[p];
        slip__image_seal(copy);
        bool ok = slip_refused_or_harmless(copy);
        // Of the header, sealing mends the hash field; and the code may claim some of the zeros behind it.
        bool in_hash = at >= SLIP__HEADER_HASH && at < SLIP__HEADER_HASH + 16;
        if (at < SLIP__IMAGE_HEADER_BYTES && at != code_size_at && ok != in_hash) {
          slip_test_fail(__FILE__, __LINE__, "sample %u, header byte %zu set to %u: accepted %d", sample, at, patterns[p], ok);
        }
        accepted += ok;
        refused += !ok;
      }
      copy.data[at] = image.data[at];
    }
    SLIP_CHECK(accepted > 0 && refused > accepted / 8);
    free(copy.data);
    slip_test_image_free(slip_allocator_system(), image);
  }
}

// Each aligned 32-bit and 64-bit word takes the values that break arithmetic.
SLIP_TEST_TIMEOUT(image_every_word_mutated_and_sealed_is_refused_or_harmless, 120) {
  static const uint64_t values[] = {0,          1,          0x3f,       0x40,      0x41,       0xffff,     0x7fffffff,     0x80000000,
                                    0xffffffff, 0xfffffffe, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 62};
  slip_bytes_t image;
  for (unsigned sample = 0; sample < 3; ++sample) {
    SLIP_CHECK_OK(slip_test_image_sample(sample, slip_allocator_system(), &image));
    slip_bytes_t copy = slip_copy(image, image.size);
    for (size_t at = 0; at + 8 <= image.size; at += 4) {
      for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); ++v) {
        for (unsigned add = 0; add < 2; ++add) {
          uint32_t old = slip__load_u32(image.data + at);
          slip__store_u32(copy.data + at, (uint32_t)values[v] + (add ? old : 0));
          slip__image_seal(copy);
          (void)slip_refused_or_harmless(copy);
          slip__store_u64(copy.data + at, values[v] + (add ? slip__load_u64(image.data + at) : 0));
          slip__image_seal(copy);
          (void)slip_refused_or_harmless(copy);
          memcpy(copy.data + at, image.data + at, 8);
        }
      }
    }
    free(copy.data);
    slip_test_image_free(slip_allocator_system(), image);
  }
}

// What the message says: section and offset of each kind of damage.
SLIP_TEST(image_refusals_name_section_and_offset) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_bytes_t image;
  SLIP_CHECK_OK(slip_test_image_sample(0, allocator, &image));
  const uint8_t *sections = image.data + SLIP__HEADER_SECTIONS;
#define SLIP_OFFSET(section) ((size_t)slip__load_u64(sections + SLIP__IMAGE_##section * SLIP__SECTION_BYTES + SLIP__SECTION_OFFSET))
  struct {
    size_t offset;
    uint8_t value;
    const char *part;
  } cases[] = {
      {0, 'x', "header, offset 0: magic"},
      {SLIP__HEADER_VERSION, 2, "header, offset 8: format version is 2"},
      {SLIP__HEADER_BYTES, 1, "header, offset 12"},
      {SLIP__HEADER_TOTAL, 1, "header, offset 16"},
      {SLIP__HEADER_SECTION_COUNT, 9, "header, offset 40"},
      {SLIP__HEADER_RESERVED, 1, "header, offset 44"},
      {SLIP__HEADER_SECTIONS, 2, "entry table, offset 48: section kind is 2"},
      {SLIP__HEADER_SECTIONS + SLIP__SECTION_OFFSET, 1, "entry table, offset 56"},
      {255, 1, "header, offset 255: reserved"},
      {SLIP_OFFSET(ENTRIES) + SLIP__ENTRY_NAME, 1, "entry table"},
      {SLIP_OFFSET(ENTRIES) + SLIP__ENTRY_FIRST_PARAM, 1, "entry table"},
      {SLIP_OFFSET(ENTRIES) + SLIP__ENTRY_TENSOR_COUNT, 9, "entry table"},
      {SLIP_OFFSET(ENTRIES) + SLIP__ENTRY_ALIAS_COUNT, 9, "signatures"},
      {SLIP_OFFSET(ENTRIES) + SLIP__IMAGE_ENTRIES_RECORD, 9, "reserved byte is 9"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DIRECTION, 5, "direction is 5"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_LAYOUT, 3, "layout of a tensor is 3"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DTYPE, 18, "dtype of a tensor is 18"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_RANK, 6, "rank of a tensor is 6"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DIMS + 7, 0, "dim 0 has a name but is not dynamic"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DIMS + 8 + 7, 0x80, "dim 1 of a parameter of rank 2"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DIMS + 2 * 8, 1, "dim 2 of a parameter of rank 2"},
      {SLIP_OFFSET(SIGNATURES) + SLIP__PARAM_DIM_NAMES + SLIP__STRING_REF_BYTES + 4, 1, "dim 1 has a name but is not dynamic"},
      {SLIP_OFFSET(SIGNATURES) + 6 * SLIP__IMAGE_SIGNATURES_RECORD, 0, "return alias 0 is 0"},
      {SLIP_OFFSET(SIGNATURES) + 6 * SLIP__IMAGE_SIGNATURES_RECORD + 4, 5, "return alias 1 is 5"},
      {SLIP_OFFSET(SIGNATURES) + 6 * SLIP__IMAGE_SIGNATURES_RECORD + 8, 6, "return alias 2 is 6"},
      {SLIP_OFFSET(ORCHESTRATION), 0, "orchestration binary"},
      {SLIP_OFFSET(KERNELS) + SLIP__KERNEL_CORE, 4, "kernel table"},
      {SLIP_OFFSET(KERNELS) + SLIP__KERNEL_FUNCTION_ID, 2, "function id is 2, expected 0"},
      {SLIP_OFFSET(KERNELS) + SLIP__KERNEL_TENSOR_COUNT, 33, "33 tensors"},
      {SLIP_OFFSET(KERNELS) + SLIP__KERNEL_BINARY_SIZE, 1, "kernel table"},
      {SLIP_OFFSET(KERNELS) + SLIP__KERNEL_BINARY_OFFSET, 64, "kernel table"},
      {SLIP_OFFSET(STRINGS) + 4, '-', "string table"},
      {SLIP_OFFSET(STRINGS) + 10, 'x', "name has no terminator"},
      {SLIP_OFFSET(TARGET) + SLIP__TARGET_PLATFORM, 9, "platform is 9"},
      {SLIP_OFFSET(TARGET) + SLIP__TARGET_CONTRACT, 0, "contract is 0"},
      {SLIP_OFFSET(TARGET) + SLIP__TARGET_RUNTIME_KIND, 2, "runtime kind is 2"},
      {SLIP_OFFSET(TARGET) + SLIP__TARGET_RESERVED1, 1, "target record"},
      {SLIP_OFFSET(BUILD_ID), 1, "build id"},
      {SLIP_OFFSET(ORCHESTRATION) + 100, 0, "header, offset 24: content hash"},
  };
#undef SLIP_OFFSET
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip_image_view_t view;
    uint8_t *at = image.data + cases[i].offset, old = *at;
    if (old == cases[i].value) slip_test_fail(__FILE__, __LINE__, "case %zu changes nothing", i);
    *at = cases[i].value;
    slip_status_t status = slip_image_open((slip_const_bytes_t){image.data, image.size}, &view);
    if (!strstr(slip_status_message(status), cases[i].part)) {
      slip_test_fail(__FILE__, __LINE__, "offset %zu gives \"%s\", expected \"%s\"", cases[i].offset, slip_status_message(status),
                     cases[i].part);
    }
    slip_status_free(status);
    *at = old;
  }
  slip_test_image_free(allocator, image);
}

// Sections of one size exchanged, and records of one table exchanged: nothing is accepted out of order.
SLIP_TEST(image_shuffled_records_are_refused) {
  slip_bytes_t image;
  SLIP_CHECK_OK(slip_test_image_sample(0, slip_allocator_system(), &image));
  static const size_t swaps[][2] = {{SLIP__IMAGE_KERNELS, SLIP__IMAGE_KERNELS_RECORD},
                                    {SLIP__IMAGE_SIGNATURES, SLIP__IMAGE_SIGNATURES_RECORD}};
  for (size_t s = 0; s < 2; ++s) {
    const uint8_t *section = image.data + SLIP__HEADER_SECTIONS + swaps[s][0] * SLIP__SECTION_BYTES;
    size_t record = swaps[s][1], start = (size_t)slip__load_u64(section + SLIP__SECTION_OFFSET);
    for (size_t i = 0; i + 1 < slip__load_u32(section + SLIP__SECTION_COUNT); ++i) {
      slip_bytes_t copy = slip_copy(image, image.size);
      memcpy(copy.data + start + i * record, image.data + start + (i + 1) * record, record);
      memcpy(copy.data + start + (i + 1) * record, image.data + start + i * record, record);
      slip__image_seal(copy);
      SLIP_CHECK_EQ(slip_open_code(copy), SLIP_CODE_CORRUPT);
      free(copy.data);
    }
  }
  for (size_t i = 0; i + 1 < SLIP__IMAGE_SECTION_COUNT; ++i) {
    slip_bytes_t copy = slip_copy(image, image.size);
    uint8_t *a = copy.data + SLIP__HEADER_SECTIONS + i * SLIP__SECTION_BYTES, *b = a + SLIP__SECTION_BYTES;
    memcpy(a, image.data + (b - copy.data), SLIP__SECTION_BYTES);
    memcpy(b, image.data + (a - copy.data), SLIP__SECTION_BYTES);
    slip__image_seal(copy);
    SLIP_CHECK_EQ(slip_open_code(copy), SLIP_CODE_CORRUPT);
    free(copy.data);
  }
  slip_test_image_free(slip_allocator_system(), image);
}
