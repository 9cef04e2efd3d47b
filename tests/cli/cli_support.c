// SPDX-License-Identifier: Apache-2.0
#include "cli_support.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "os/process.h"

static char *next_path(void) {
  static char paths[8][1024];
  static unsigned next;
  return paths[next++ % 8];
}

const char *in_test(const char *name) {
  char *path = next_path();
  snprintf(path, 1024, "%s/%s", slip_test_temporary_directory(), name);
  return path;
}

const char *in_source(const char *name) {
  char *path = next_path();
  snprintf(path, 1024, "%s/%s", SLIP_TEST_SOURCE_DIRECTORY, name);
  return path;
}

static const char *program(void) {
  static char path[1024];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
  SLIP_CHECK(length > 0);
  path[length] = '\0';
  char *slash = strrchr(path, '/');
  snprintf(slash, 16, "/cli/slip");
  return path;
}

const char *slip_run(int code, const char *part, const char *const *arguments) {
  static char output[1 << 16];
  const char *line[64] = {program()};
  size_t count = 1;
  for (; *arguments; ++arguments) line[count++] = *arguments;
  slip__process_result_t result;
  SLIP_CHECK_OK(slip__process_run(line, slip_test_temporary_directory(), 120000000000ull, slip_allocator_system(), &result));
  snprintf(output, sizeof(output), "%s", (const char *)result.output.data);
  slip__free(slip_allocator_system(), result.output.data, result.output.size + 1);
  if (result.exit_code != code)
    slip_test_fail(__FILE__, __LINE__, "slip %s exited with %d, expected %d: %s", line[1], result.exit_code, code, output);
  if (part && !strstr(output, part)) slip_test_fail(__FILE__, __LINE__, "slip %s does not say \"%s\" but: %s", line[1], part, output);
  return output;
}

pid_t slip_start(const char *variable, const char *value, const char *const *arguments) {
  const char *line[64] = {program()};
  for (size_t count = 1; *arguments; ++arguments) line[count++] = *arguments;
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child > 0) return child;
  if (chdir(slip_test_temporary_directory()) != 0 || setenv(variable, value, 1) != 0) _exit(125);
  if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(125);
  (void)execv(line[0], (char *const *)(uintptr_t)line);
  _exit(126);
}

json_t *slip_run_json(int code, const char *const *arguments) {
  json_error_t error;
  const char *output = slip_run(code, NULL, arguments);
  json_t *document = json_loads(output, JSON_REJECT_DUPLICATES, &error);
  if (!document) slip_test_fail(__FILE__, __LINE__, "slip %s --json is no JSON (%s): %s", arguments[0], error.text, output);
  return document;
}

void write_file(const char *name, const void *data, size_t size) {
  FILE *file = fopen(in_test(name), "wb");
  SLIP_CHECK(file != NULL);
  SLIP_CHECK_EQ(fwrite(data, 1, size, file), size);
  SLIP_CHECK_EQ(fclose(file), 0);
}

size_t read_file(const char *name, void *out, size_t capacity) {
  FILE *file = fopen(in_test(name), "rb");
  SLIP_CHECK(file != NULL);
  size_t size = fread(out, 1, capacity, file);
  fclose(file);
  return size;
}

void write_npy(const char *name, const char *descr, const char *shape, const void *data, size_t size) {
  static char bytes[1 << 20];
  int length = snprintf(bytes + 10, 500, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  memcpy(bytes, "\x93NUMPY\x01", 8);
  bytes[8] = (char)(length & 0xff);
  bytes[9] = (char)(length >> 8);
  SLIP_CHECK((size_t)length + 10 + size <= sizeof(bytes));
  memcpy(bytes + 10 + length, data, size);
  write_file(name, bytes, 10 + (size_t)length + size);
}

void write_floats(const char *name, const float *values, size_t count) {
  char shape[32];
  snprintf(shape, sizeof(shape), "(%zu,)", count);
  write_npy(name, "<f4", shape, values, count * sizeof(*values));
}

void write_safetensors(const char *name, const char *header, const void *data, size_t size) {
  static char bytes[1 << 16];
  uint64_t length = strlen(header);
  SLIP_CHECK(8 + length + size <= sizeof(bytes));
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, length);
  memcpy(bytes + 8 + length, data, size);
  write_file(name, bytes, 8 + length + size);
}

size_t count_files(const char *part) {
  size_t count = 0;
  DIR *directory = opendir(slip_test_temporary_directory());
  SLIP_CHECK(directory != NULL);
  for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) count += strstr(entry->d_name, part) != NULL;
  closedir(directory);
  return count;
}

void mount_small(const char *name, size_t size) {
  char options[64];
  snprintf(options, sizeof(options), "size=%zu", size);
  SLIP_CHECK_EQ(mkdir(in_test(name), 0700), 0);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", in_test(name), "tmpfs", 0, options) != 0) {
    slip_test_skip("a file system of its own needs root (CAP_SYS_ADMIN)");
  }
}

void become_nobody(void) {
  if (geteuid() != 0) return;  // an ordinary user already
  SLIP_CHECK_EQ(chmod(slip_test_temporary_directory(), 0777), 0);
  if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) slip_test_skip("another user cannot be taken on");
  if (access(program(), X_OK) != 0 || access(slip_test_temporary_directory(), W_OK) != 0) {
    slip_test_skip("an ordinary user cannot reach %s", program());
  }
}
