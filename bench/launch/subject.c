// SPDX-License-Identifier: Apache-2.0
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_fail(slip_status_t status, const char *what) {
  char text[1024];
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int bench_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
  qsort(values, count, sizeof(*values), bench_compare);
  return values[count / 2];
}

static slip_bytes_t bench_read(const char *path) {
  slip_bytes_t bytes = {NULL, 0};
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  bytes.size = (size_t)ftell(file);
  bytes.data = malloc(bytes.size);
  rewind(file);
  if (!bytes.data || fread(bytes.data, 1, bytes.size, file) != bytes.size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return bytes;
}

static slip_bytes_t bench_image(slip_platform_t *platform) {
  const char *signature = "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)";
  slip_device_properties_t properties;
  slip_image_entry_t entry = {.name = "add"};
  slip_image_kernel_t kernel = {.name = "add_f32", .tensor_count = 3};
  slip_bytes_t object = bench_read(BENCH_CALLABLE), image = {NULL, 0};
  bench_check(slip_platform_device_properties(platform, 0, &properties), "device properties");
  bench_check(slip_signature_parse(signature, strlen(signature), slip_allocator_system(), &entry.signature), "signature");
  slip_image_desc_t desc = {.platform = SLIP_PLATFORM_CPU,
                            .contract = SLIP_CONTRACT_KERNEL,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = 1,
                            .target = properties.target,
                            .build_id = "bench",
                            .entries = &entry,
                            .kernels = &kernel,
                            .kernel_count = 1,
                            .orchestration = {object.data, object.size}};
  bench_check(slip_image_pack(&desc, slip_allocator_system(), &image), "packing the image");
  slip_signature_release(entry.signature);
  free(object.data);
  return image;
}

static void bench_record(bench_t *b) {
  slip_frame_t frame;
  bench_frame(b, &frame);
  bench_check(slip_graph_create(b->context, &b->graph), "graph");
  for (int i = 0; i < BENCH_NODES; ++i) bench_check(slip_graph_add(b->graph, b->id, &frame, NULL), "graph add");
  slip_frame_deinitialize(&frame);
}

// Device memory is the host's on some platforms only: everything travels by copies.
static void bench_tensor(bench_t *b, int index) {
  const int64_t dims[1] = {BENCH_ELEMENTS};
  float data[BENCH_ELEMENTS];
  for (int k = 0; k < BENCH_ELEMENTS; ++k) data[k] = (float)(index + k);
  bench_check(slip_memory_allocate(b->platform, b->device.ordinal, sizeof(data), &b->memory[index]), "memory");
  bench_check(slip_memory_copy(b->platform, b->device.ordinal, b->memory[index], data, sizeof(data), SLIP_COPY_HOST_TO_DEVICE), "copy");
  bench_check(slip_tensor_initialize(&b->tensors[index], SLIP_DTYPE_F32, 1, dims, b->memory[index], b->device), "tensor");
}

void bench_open(bench_t *b, const char *platform, uint32_t flags) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  memset(b, 0, sizeof(*b));
  options.platform = platform;
  options.flags = flags;
  b->device.platform = slip_platform_from_name(platform);
  bench_check(slip_platform_find(platform, &b->platform), "finding the platform");
  slip_bytes_t image = bench_image(b->platform);
  bench_check(slip_context_open(&options, &b->context), "open");
  bench_check(slip_context_prepare(b->context, (slip_const_bytes_t){image.data, image.size}, &b->id), "prepare");
  free(image.data);
  bench_check(slip_context_signature(b->context, b->id, &b->signature), "signature");
  for (int i = 0; i < 3; ++i) bench_tensor(b, i);
  bench_record(b);
}

void bench_close(bench_t *b) {
  slip_signature_release(b->signature);
  bench_check(slip_graph_destroy(b->graph), "graph destroy");
  bench_check(slip_context_close(b->context), "close");
  bench_check(slip_context_destroy(b->context), "destroy");
  for (int i = 0; i < 3; ++i) bench_check(slip_memory_free(b->platform, b->device.ordinal, b->memory[i]), "free");
}

void bench_verify(bench_t *b) {
  float data[BENCH_ELEMENTS];
  bench_check(slip_memory_copy(b->platform, b->device.ordinal, data, b->memory[2], sizeof(data), SLIP_COPY_DEVICE_TO_HOST), "copy");
  for (int k = 0; k < BENCH_ELEMENTS; ++k) {
    if (data[k] == (float)(2 * k + 1)) continue;
    fprintf(stderr, "the callable computed %f, expected %d\n", (double)data[k], 2 * k + 1);
    exit(1);
  }
}
