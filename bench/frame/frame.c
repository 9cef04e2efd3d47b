// SPDX-License-Identifier: Apache-2.0
// What one call frame costs: built with full validation and dropped again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slipstream/frame.h"

#define BATCHES     41
#define MAX_TENSORS 32

// A call of |count| tensors and one scalar.
typedef struct call_t {
  slip_signature_t *signature;
  uint32_t count;
  slip_tensor_t tensors[MAX_TENSORS];
  slip_arg_t args[MAX_TENSORS + 1];
} call_t;

static void require(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  exit(1);
}

// Tensor i is [4,8] bf16 at place |order[i]| of |memory|; |shared|: all are views of one storage.
static void call_begin(call_t *call, uint32_t count, const uint32_t *order, uint8_t *memory, bool shared) {
  char text[2048];
  size_t at = 0;
  memset(call, 0, sizeof(*call));
  call->count = count;
  at += (size_t)snprintf(text, sizeof(text), "(in ");
  for (uint32_t i = 0; i < count; ++i)
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%st%u: bf16[M,8], ", i + 1 == count ? "out " : "", i);
  snprintf(text + at, sizeof(text) - at, "eps: f32) -> (t%u)", count - 1);
  require(slip_signature_parse(text, strlen(text), slip_allocator_system(), &call->signature));
  for (uint32_t i = 0; i < count; ++i) {
    slip_tensor_t *tensor = &call->tensors[i];
    require(slip_tensor_initialize(tensor, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, memory + 64 * order[i], slip_device_cpu()));
    if (shared) {
      tensor->data = tensor->storage_base = memory;
      tensor->byte_offset = 64 * order[i];
      tensor->storage_bytes = 64 * count;
    }
    call->args[i] = slip_arg_tensor(tensor, tensor);
  }
  call->args[count] = slip_arg_scalar(slip_scalar_f32(1e-5f));
}

static void call_rounds(call_t *call, uint32_t rounds) {
  slip_frame_t frame;
  for (uint32_t i = 0; i < rounds; ++i) {
    require(slip_frame_initialize(&frame, call->signature, "bench", slip_device_cpu(), call->args, call->count + 1, 0));
    slip_frame_deinitialize(&frame);
  }
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Median over batches, ns per frame.
static double measure(uint32_t count, const uint32_t *order, bool shared, uint32_t rounds) {
  static _Alignas(64) uint8_t memory[64 * MAX_TENSORS];
  static call_t call;
  double batches[BATCHES];
  call_begin(&call, count, order, memory, shared);
  call_rounds(&call, rounds);
  for (int b = 0; b < BATCHES; ++b) {
    double begin = now_ns();
    call_rounds(&call, rounds);
    batches[b] = (now_ns() - begin) / rounds;
  }
  slip_signature_release(call.signature);
  qsort(batches, BATCHES, sizeof(double), compare);
  printf("%2u tensors, %-9s %-8s: median %7.1f ns, lowest %7.1f ns\n", count, order[0] ? "shuffled" : "ascending",
         shared ? "shared" : "own", batches[BATCHES / 2], batches[0]);
  return batches[BATCHES / 2];
}

int main(int argc, char **argv) {
  static const uint32_t ascending[] = {0, 1, 2}, shuffled[] = {2, 0, 1};
  uint32_t mixed[MAX_TENSORS];
  for (uint32_t i = 0; i < MAX_TENSORS; ++i) mixed[i] = (7 * i + 5) % MAX_TENSORS;
  if (argc > 1) {
    static _Alignas(64) uint8_t memory[64 * 3];
    static call_t call;
    call_begin(&call, 3, ascending, memory, false);
    call_rounds(&call, (uint32_t)strtoul(argv[1], NULL, 10));
    slip_signature_release(call.signature);
    return 0;
  }
  double a = measure(3, ascending, false, 20000), b = measure(3, shuffled, false, 20000), c = measure(3, shuffled, true, 20000);
  double d = measure(32, mixed, false, 4000), e = measure(32, mixed, true, 4000);
  printf("RESULT ascending_ns=%.1f shuffled_ns=%.1f shared_ns=%.1f shuffled32_ns=%.1f shared32_ns=%.1f\n", a, b, c, d, e);
  return 0;
}
