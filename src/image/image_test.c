// SPDX-License-Identifier: Apache-2.0
// Packing, viewing, limits.
#include "image/image_hash.h"
#include "slip_test.h"
#include "slip_test_allocator.h"
#include "slip_test_image.h"

static slip_image_view_t slip_open_ok(slip_bytes_t image) {
  slip_image_view_t view;
  SLIP_CHECK_OK(slip_image_open((slip_const_bytes_t){image.data, image.size}, &view));
  return view;
}

SLIP_TEST(image_round_trip_of_all_samples) {
  slip_allocator_t allocator = slip_allocator_system();
  for (unsigned sample = 0; sample < SLIP_TEST_IMAGE_SAMPLES; ++sample) {
    slip_bytes_t image, again;
    SLIP_CHECK_OK(slip_test_image_sample(sample, allocator, &image));
    SLIP_CHECK_EQ((uintptr_t)image.data % SLIP_IMAGE_ALIGNMENT, 0);
    SLIP_CHECK_EQ(image.size % SLIP_IMAGE_ALIGNMENT, 0);
    slip_image_view_t view = slip_open_ok(image);
    SLIP_CHECK_OK(slip_test_image_repack(&view, allocator, &again));
    SLIP_CHECK_EQ(again.size, image.size);
    SLIP_CHECK(memcmp(again.data, image.data, image.size) == 0);
    slip_test_image_free(allocator, image);
    slip_test_image_free(allocator, again);
  }
}

SLIP_TEST(image_view_says_what_was_packed) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_bytes_t image;
  slip_image_kernel_t kernel;
  slip_signature_t *signature = NULL;
  char text[256];
  SLIP_CHECK_OK(slip_test_image_sample(0, allocator, &image));
  slip_image_view_t view = slip_open_ok(image);
  SLIP_CHECK_EQ(view.platform, SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(view.contract, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_EQ(view.runtime_kind, SLIP_RUNTIME_HOST_NATIVE);
  SLIP_CHECK_EQ(view.entry_count, 1);
  SLIP_CHECK_EQ(view.kernel_count, 3);
  SLIP_CHECK_STR(view.target, "x86-64-v3");
  SLIP_CHECK_STR(view.build_id, "slipstream 0.1.0 (test)");
  SLIP_CHECK_EQ(view.orchestration.size, 200);
  SLIP_CHECK_EQ((uintptr_t)view.orchestration.data % SLIP_IMAGE_ALIGNMENT, 0);
  SLIP_CHECK_STR(slip_image_entry_name(&view, 0), "main_entry");
  SLIP_CHECK(slip_image_entry_name(&view, 1) == NULL);
  SLIP_CHECK(slip_image_kernel(&view, 1, &kernel));
  SLIP_CHECK_STR(kernel.name, "norm");
  SLIP_CHECK_EQ(kernel.function_id, 1);
  SLIP_CHECK_EQ(kernel.core, SLIP_CORE_VECTOR);
  SLIP_CHECK_EQ(kernel.tensor_count, 32);
  SLIP_CHECK_EQ(kernel.scalar_count, 16);
  SLIP_CHECK_EQ(kernel.binary.size, 0);
  SLIP_CHECK(!slip_image_kernel(&view, 3, &kernel));
  SLIP_CHECK_OK(slip_image_entry_signature(&view, 0, allocator, &signature));
  slip_signature_format(signature, text, sizeof(text));
  SLIP_CHECK_STR(text, "(in x: bf16[M,2048], w: bf16[2048], out y: bf16[M,2048], inout s: f32[?] nz, eps: f32, n: i64) -> (y, s, y)");
  slip_signature_release(signature);
  SLIP_CHECK_CODE(slip_image_entry_signature(&view, 1, allocator, &signature), SLIP_CODE_INVALID_ARGUMENT);
  slip_test_image_free(allocator, image);
}

SLIP_TEST(image_kernel_binaries_are_aligned_and_whole) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_bytes_t image;
  slip_image_kernel_t kernel;
  SLIP_CHECK_OK(slip_test_image_sample(2, allocator, &image));
  slip_image_view_t view = slip_open_ok(image);
  for (uint32_t i = 0; i < 3; ++i) {
    SLIP_CHECK(slip_image_kernel(&view, i, &kernel));
    SLIP_CHECK_EQ(kernel.binary.size, 62 + i);
    SLIP_CHECK_EQ((uintptr_t)kernel.binary.data % SLIP_IMAGE_ALIGNMENT, 0);
    SLIP_CHECK_STR((const char *)kernel.binary.data, i == 0 ? "first" : i == 1 ? "second" : "third");
  }
  slip_test_image_free(allocator, image);
}

SLIP_TEST(image_opens_at_any_alignment) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_bytes_t image, again;
  SLIP_CHECK_OK(slip_test_image_sample(1, allocator, &image));
  uint8_t *copy = malloc(image.size + 64);
  for (size_t shift = 1; shift < 64; shift += 2) {
    memcpy(copy + shift, image.data, image.size);
    slip_image_view_t view = slip_open_ok((slip_bytes_t){copy + shift, image.size});
    SLIP_CHECK_OK(slip_test_image_repack(&view, allocator, &again));
    SLIP_CHECK(again.size == image.size && memcmp(again.data, image.data, image.size) == 0);
    slip_test_image_free(allocator, again);
  }
  free(copy);
  slip_test_image_free(allocator, image);
}

// A stored hash and layout must never change within a format version.
SLIP_TEST(image_bytes_are_stable) {
  slip_bytes_t image;
  char text[33];
  SLIP_CHECK_OK(slip_test_image_sample(0, slip_allocator_system(), &image));
  SLIP_CHECK_EQ(image.size, 1600);
  slip__hash128_format(slip__hash128((slip_const_bytes_t){image.data, image.size}), text);
  SLIP_CHECK_STR(text, "9b681402b776906ea386d926bb3d6034");
  slip_test_image_free(slip_allocator_system(), image);
}

static slip_status_t slip_pack_body(slip_allocator_t allocator, void *user) {
  slip_bytes_t image;
  (void)user;
  slip_status_t status = slip_test_image_sample(1, allocator, &image);
  slip_test_image_free(allocator, image);
  return status;
}

static slip_status_t slip_repack_body(slip_allocator_t allocator, void *user) {
  slip_bytes_t image;
  slip_status_t status = slip_test_image_repack(user, allocator, &image);
  slip_test_image_free(allocator, image);
  return status;
}

SLIP_TEST(image_survives_every_failing_allocation) {
  slip_bytes_t image;
  SLIP_CHECK(slip_test_allocator_loop(slip_pack_body, NULL) > 1);
  SLIP_CHECK_OK(slip_test_image_sample(1, slip_allocator_system(), &image));
  slip_image_view_t view = slip_open_ok(image);
  SLIP_CHECK(slip_test_allocator_loop(slip_repack_body, &view) > 4);
  slip_test_image_free(slip_allocator_system(), image);
}

SLIP_TEST(image_largest_counts_and_one_more) {
  slip_allocator_t allocator = slip_allocator_system();
  static char names[SLIP_IMAGE_MAX_KERNELS + 1][16], long_name[SLIP_IMAGE_MAX_NAME + 2];
  static slip_image_kernel_t kernels[SLIP_IMAGE_MAX_KERNELS + 1];
  static slip_image_entry_t entries[SLIP_IMAGE_MAX_ENTRIES + 1];
  slip_signature_t *signature = slip_test_image_signature("(out y: f32[8]) -> (y)");
  uint8_t elf[64];
  slip_bytes_t image;
  slip_test_image_fill_elf(elf, sizeof(elf));
  for (uint32_t i = 0; i <= SLIP_IMAGE_MAX_KERNELS; ++i) {
    (void)snprintf(names[i], sizeof(names[i]), "k%u", i);
    kernels[i] = (slip_image_kernel_t){.name = names[i], .function_id = i, .core = i % 4, .scratch_bytes = UINT32_MAX};
  }
  for (uint32_t i = 0; i <= SLIP_IMAGE_MAX_ENTRIES; ++i) entries[i] = (slip_image_entry_t){names[i], signature};
  memset(long_name, 'n', sizeof(long_name) - 1);
  slip_image_desc_t desc = {.platform = SLIP_PLATFORM_CPU,
                            .contract = SLIP_CONTRACT_PROGRAM,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = SLIP_IMAGE_MAX_ENTRIES,
                            .target = "aarch64",
                            .build_id = "id",
                            .entries = entries,
                            .kernels = kernels,
                            .kernel_count = SLIP_IMAGE_MAX_KERNELS,
                            .orchestration = {elf, sizeof(elf)}};
  const slip_image_desc_t good = desc;
#define SLIP_REFUSED(part)                                                                         \
  do {                                                                                             \
    SLIP_CHECK_ERROR(slip_image_pack(&desc, allocator, &image), SLIP_CODE_INVALID_ARGUMENT, part); \
    SLIP_CHECK(image.data == NULL && image.size == 0);                                             \
    desc = good;                                                                                   \
  } while (0)
  SLIP_CHECK_OK(slip_image_pack(&desc, allocator, &image));
  SLIP_CHECK_EQ(slip_open_ok(image).kernel_count, SLIP_IMAGE_MAX_KERNELS);
  slip_test_image_free(allocator, image);
  desc.kernel_count++;
  SLIP_REFUSED("1025 kernels");
  desc.entry_count++;
  SLIP_REFUSED("65 entries");
  desc.entry_count = 0;
  SLIP_REFUSED("record count is 0");
  desc.contract = SLIP_CONTRACT_KERNEL;
  SLIP_REFUSED("has one entry");
  desc.contract = 3;
  SLIP_REFUSED("contract is 3");
  desc.platform = 99;
  SLIP_REFUSED("platform is 99");
  desc.platform = SLIP_PLATFORM_CUDA;
  SLIP_REFUSED("runtime kind is 1");
  desc.runtime_kind = SLIP_RUNTIME_DEVICE_KERNELS;
  SLIP_REFUSED("runtime kind is 2");
  desc.orchestration.size = 63;
  SLIP_REFUSED("ELF header");
  desc.orchestration.data = NULL;
  SLIP_REFUSED("NULL");
  desc.target = "../up";
  SLIP_REFUSED("no target");
  desc.target = "";
  SLIP_REFUSED("no target");
  desc.target = NULL;
  SLIP_REFUSED("no name");
  desc.build_id = "";
  SLIP_REFUSED("build id");
  desc.build_id = "new\nline";
  SLIP_REFUSED("build id");
  desc.build_id = long_name;
  SLIP_REFUSED("build id");
  entries[3].name = names[7];
  SLIP_REFUSED("same name 'k7'");
  entries[3].name = "not-an-identifier";
  SLIP_REFUSED("no identifier");
  entries[3].name = NULL;
  SLIP_REFUSED("entry 3 has no name");
  entries[3].name = long_name;
  SLIP_REFUSED("longer than");
  entries[3].name = names[3];
  entries[3].signature = NULL;
  SLIP_REFUSED("no signature");
  entries[3].signature = signature;
  kernels[1023].name = names[0];
  SLIP_REFUSED("same name 'k0'");
  kernels[1023].name = names[1023];
  kernels[5].core = 4;
  SLIP_REFUSED("core type is 4");
  kernels[5].core = 0;
  kernels[5].function_id = 6;
  SLIP_REFUSED("function id is 6");
  kernels[5].function_id = 5;
  kernels[5].tensor_count = SLIP_KERNEL_MAX_TENSORS + 1;
  SLIP_REFUSED("33 tensors");
  kernels[5].tensor_count = 0;
  kernels[5].scalar_count = SLIP_KERNEL_MAX_SCALARS + 1;
  SLIP_REFUSED("17 scalars");
  kernels[5].scalar_count = 0;
  kernels[5].binary = (slip_const_bytes_t){elf, sizeof(elf)};
  SLIP_REFUSED("code of its own");
  kernels[5].binary = (slip_const_bytes_t){elf, SIZE_MAX};
  SLIP_REFUSED("larger than any memory");
#undef SLIP_REFUSED
  slip_signature_release(signature);
}

SLIP_TEST(image_signature_above_an_entry_is_refused) {
  static slip_param_t params[SLIP_ENTRY_MAX_TENSORS + 1];
  static char names[SLIP_ENTRY_MAX_TENSORS + 1][16];
  static int32_t aliases[SLIP_IMAGE_MAX_RETURNS + 1];
  slip_allocator_t allocator = slip_allocator_system();
  slip_image_entry_t entry = {"main_entry", NULL};
  uint8_t elf[64];
  slip_bytes_t image;
  slip_test_image_fill_elf(elf, sizeof(elf));
  for (uint32_t i = 0; i <= SLIP_ENTRY_MAX_TENSORS; ++i) {
    (void)snprintf(names[i], sizeof(names[i]), "t%u", i);
    params[i] =
        (slip_param_t){.name = names[i], .direction = SLIP_DIRECTION_OUT, .layout = SLIP_LAYOUT_ND, .dtype = SLIP_DTYPE_F32, .rank = 1};
    params[i].dims[0] = INT64_MAX;
  }
  slip_image_desc_t desc = {.platform = SLIP_PLATFORM_CPU,
                            .contract = SLIP_CONTRACT_KERNEL,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = 1,
                            .target = "t",
                            .build_id = "b",
                            .entries = &entry,
                            .orchestration = {elf, sizeof(elf)}};
  SLIP_CHECK_OK(slip_signature_create(params, SLIP_ENTRY_MAX_TENSORS, aliases, SLIP_IMAGE_MAX_RETURNS, allocator, &entry.signature));
  SLIP_CHECK_OK(slip_image_pack(&desc, allocator, &image));
  slip_test_image_free(allocator, image);
  slip_signature_release(entry.signature);
  SLIP_CHECK_OK(slip_signature_create(params, SLIP_ENTRY_MAX_TENSORS + 1, aliases, 0, allocator, &entry.signature));
  SLIP_CHECK_ERROR(slip_image_pack(&desc, allocator, &image), SLIP_CODE_INVALID_ARGUMENT, "257 tensors");
  slip_signature_release(entry.signature);
  SLIP_CHECK_OK(slip_signature_create(params, 1, aliases, SLIP_IMAGE_MAX_RETURNS + 1, allocator, &entry.signature));
  SLIP_CHECK_ERROR(slip_image_pack(&desc, allocator, &image), SLIP_CODE_INVALID_ARGUMENT, "1025 return aliases");
  slip_signature_release(entry.signature);
}
