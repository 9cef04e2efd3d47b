// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzer: every file of a corpus, then seeded mutations of each.
//   test_fuzz_NAME CORPUS-DIRECTORY [MUTATIONS-PER-FILE [SEED]]
#include <dirent.h>
#include <sys/stat.h>

#include "slip_fuzz.h"

#define MAX_BYTES ((size_t)1 << 20)
#define MAX_FILES 4096

typedef struct input_t {
  uint8_t *bytes;
  size_t size;
} input_t;

static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The target sees a block of exactly |size| bytes, so that a sanitizer notices one byte too many.
static void run(const uint8_t *bytes, size_t size) {
  uint8_t *exact = malloc(size ? size : 1);
  if (!exact) abort();
  if (size) memcpy(exact, bytes, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

static input_t read_file(const char *path) {
  input_t input = {NULL, 0};
  FILE *file = fopen(path, "rb");
  if (!file) return input;
  input.bytes = malloc(MAX_BYTES);
  if (input.bytes) input.size = fread(input.bytes, 1, MAX_BYTES, file);
  fclose(file);
  return input;
}

// One small change in place: flip, set, insert, delete, copy a piece over another, cut, an edge number.
static size_t mutate(uint8_t *bytes, size_t size, const input_t *other, uint64_t *state) {
  static const uint64_t edges[] = {0,      1,          0x7f,       0x80,      0xff,       0x7fff,
                                   0xffff, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, (uint64_t)INT64_MIN};
  size_t at = size ? next_random(state) % size : 0, room = MAX_BYTES - size;
  size_t length = 1 + next_random(state) % 8;
  switch (next_random(state) % 7) {
    case 0:
      if (size) bytes[at] ^= (uint8_t)(1u << next_random(state) % 8);
      break;
    case 1:
      if (size) bytes[at] = (uint8_t)next_random(state);
      break;
    case 2:
      if (length > room) break;
      memmove(bytes + at + length, bytes + at, size - at);
      for (size_t i = 0; i < length; ++i) bytes[at + i] = (uint8_t)next_random(state);
      return size + length;
    case 3:
      if (length > size - at) break;
      memmove(bytes + at, bytes + at + length, size - at - length);
      return size - length;
    case 4:
      if (!other->size) break;
      length = 1 + next_random(state) % other->size;
      if (length > size - at) length = size - at;
      memcpy(bytes + at, other->bytes + next_random(state) % (other->size - length + 1), length);
      break;
    case 5:
      return at;
    default: {
      uint64_t edge = edges[next_random(state) % (sizeof(edges) / sizeof(edges[0]))];
      length = (size_t)1 << next_random(state) % 4;
      if (length <= size - at) memcpy(bytes + at / length * length, &edge, length);
    }
  }
  return size;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// Paths of the regular files in |directory|, sorted so that a seed means the same everywhere.
static size_t list_files(const char *directory, char **paths) {
  size_t count = 0;
  DIR *stream = opendir(directory);
  if (!stream) return 0;
  for (struct dirent *entry; (entry = readdir(stream)) && count < MAX_FILES;) {
    char path[4096];
    struct stat info;
    snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) paths[count++] = strdup(path);
  }
  closedir(stream);
  qsort(paths, count, sizeof(paths[0]), compare);
  return count;
}

int main(int argc, char **argv) {
  static char *paths[MAX_FILES];
  static input_t inputs[MAX_FILES];
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s CORPUS-DIRECTORY [MUTATIONS-PER-FILE [SEED]]\n", argv[0]);
    return 2;
  }
  uint64_t mutations = argc > 2 ? strtoull(argv[2], NULL, 0) : 2000, seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1, total = 0;
  size_t count = list_files(argv[1], paths);
  if (count == 0) {
    fprintf(stderr, "%s holds no inputs\n", argv[1]);
    return 1;
  }
  run(NULL, 0);
  for (size_t i = 0; i < count; ++i) {
    inputs[i] = read_file(paths[i]);
    run(inputs[i].bytes, inputs[i].size);
    // Every truncation of a small file.
    for (size_t size = 0; size < inputs[i].size && size < 512; ++size, ++total) run(inputs[i].bytes, size);
  }
  uint8_t *bytes = malloc(MAX_BYTES);
  if (!bytes) return 1;
  for (size_t i = 0; i < count; ++i) {
    for (uint64_t m = 0; m < mutations; ++m) {
      // Each mutation has its own seed: to repeat one, only file, number and seed are needed.
      uint64_t state = seed * 1000003 + i * 7919 + m;
      size_t size = inputs[i].size;
      if (size) memcpy(bytes, inputs[i].bytes, size);
      for (uint64_t n = 1 + next_random(&state) % 4; n > 0; --n) size = mutate(bytes, size, &inputs[next_random(&state) % count], &state);
      if (slip_fuzz_mend) slip_fuzz_mend(bytes, size, next_random(&state));
      run(bytes, size);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    free(inputs[i].bytes);
    free(paths[i]);
  }
  free(bytes);
  printf("RESULT fuzz_files=%zu fuzz_inputs=%llu\n", count, (unsigned long long)(total + count * (mutations + 1)));
  return 0;
}
