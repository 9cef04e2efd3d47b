// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fault.h"
#include "slip_test.h"

// A path in the test's directory; valid until four more calls.
static const char *file_path(const char *name) {
  static char paths[4][512];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", slip_test_temporary_directory(), name);
  return path;
}

static slip_const_bytes_t file_text(const char *text) {
  return (slip_const_bytes_t){(const uint8_t *)text, strlen(text)};
}

SLIP_TEST(file_round_trip) {
  slip_bytes_t read;
  slip__mapping_t map;
  SLIP_CHECK_OK(slip__file_write(file_path("a"), file_text("hello"), 0640, true));
  SLIP_CHECK_CODE(slip__file_write(file_path("a"), file_text("again"), 0640, true), SLIP_CODE_CONFLICT);
  SLIP_CHECK_OK(slip__file_read(file_path("a"), 5, slip_allocator_system(), &read));
  SLIP_CHECK_STR((char *)read.data, "hello");
  SLIP_CHECK_EQ(read.size, 5);
  free(read.data);
  SLIP_CHECK_OK(slip__file_map(file_path("a"), &map));
  SLIP_CHECK_EQ(map.bytes.size, 5);
  SLIP_CHECK(memcmp(map.bytes.data, "hello", 5) == 0);
  slip__file_unmap(&map);
  slip__file_unmap(&map);
  struct stat info;
  SLIP_CHECK_EQ(stat(file_path("a"), &info), 0);
  SLIP_CHECK_EQ(info.st_mode & 0137u, 0);
}

SLIP_TEST(file_empty) {
  slip_bytes_t read;
  slip__mapping_t map;
  SLIP_CHECK_OK(slip__file_write(file_path("e"), (slip_const_bytes_t){NULL, 0}, 0600, false));
  SLIP_CHECK_OK(slip__file_map(file_path("e"), &map));
  SLIP_CHECK(map.bytes.data == NULL && map.bytes.size == 0);
  slip__file_unmap(&map);
  SLIP_CHECK_OK(slip__file_read(file_path("e"), 0, slip_allocator_system(), &read));
  SLIP_CHECK_STR((char *)read.data, "");
  free(read.data);
}

SLIP_TEST(file_refuses_what_is_not_a_readable_file) {
  slip_bytes_t read = {(uint8_t *)1, 1};
  slip__mapping_t map;
  slip_allocator_t system = slip_allocator_system();
  SLIP_CHECK_ERROR(slip__file_read(file_path("none"), 10, system, &read), SLIP_CODE_NOT_FOUND, "/none\"");
  SLIP_CHECK(read.data == NULL && read.size == 0);
  SLIP_CHECK_CODE(slip__file_map(file_path("none"), &map), SLIP_CODE_NOT_FOUND);
  slip_status_t status = slip__file_map(slip_test_temporary_directory(), &map);
  SLIP_CHECK_EQ(slip_status_platform_code(status), EISDIR);
  SLIP_CHECK_ERROR(status, SLIP_CODE_IO, "is a directory");
  SLIP_CHECK_EQ(mkfifo(file_path("fifo"), 0600), 0);
  SLIP_CHECK_ERROR(slip__file_read(file_path("fifo"), 10, system, &read), SLIP_CODE_IO, "not a regular file");
  SLIP_CHECK_OK(slip__file_write(file_path("big"), file_text("0123456789"), 0600, false));
  SLIP_CHECK_ERROR(slip__file_read(file_path("big"), 9, system, &read), SLIP_CODE_CORRUPT, "at most 9");
  SLIP_CHECK_CODE(slip__file_write(file_path("none/x"), file_text(""), 0600, false), SLIP_CODE_NOT_FOUND);
  if (geteuid() != 0) {
    SLIP_CHECK_EQ(chmod(file_path("big"), 0), 0);
    SLIP_CHECK_CODE(slip__file_read(file_path("big"), 100, system, &read), SLIP_CODE_IO);
  }
}

SLIP_TEST(file_write_leaves_nothing_when_the_disk_is_full) {
  // RLIMIT_FSIZE stands for the full disk: the first write is cut short, the next one fails.
  struct rlimit limit = {4096, 4096};
  static uint8_t bytes[10000];
  signal(SIGXFSZ, SIG_IGN);
  SLIP_CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  slip_status_t status = slip__file_write(file_path("full"), (slip_const_bytes_t){bytes, sizeof(bytes)}, 0600, true);
  SLIP_CHECK_EQ(slip_status_platform_code(status), EFBIG);
  SLIP_CHECK_CODE(status, SLIP_CODE_IO);
  SLIP_CHECK(!slip__path_exists(file_path("full")));
}

SLIP_TEST(file_write_survives_every_failing_call) {
  slip__os_fault_plan_t count = {.kinds = SLIP__OS_CALL_ALL};
  slip__os_fault_set(&count);
  SLIP_CHECK_OK(slip__file_write(file_path("counted"), file_text("text"), 0600, true));
  SLIP_CHECK_EQ(count.seen, 4);  // open write sync close
  for (uint32_t nth = 1; nth <= count.seen; ++nth) {
    slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_ALL, .nth = nth, .error = ENOSPC, .persistent = nth % 2 == 0};
    slip__os_fault_set(&plan);
    slip_status_t status = slip__file_write(file_path("failed"), file_text("text"), 0600, true);
    SLIP_CHECK_EQ(slip_status_platform_code(status), ENOSPC);
    SLIP_CHECK_CODE(status, SLIP_CODE_IO);
    SLIP_CHECK(!slip__path_exists(file_path("failed")));
    SLIP_CHECK(plan.failed >= 1);
    plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(WRITE) | SLIP__OS_CALL_BIT(OPEN), .nth = 1, .error = EINTR};
    SLIP_CHECK_OK(slip__file_write(file_path("failed"), file_text("text"), 0600, true));
    SLIP_CHECK_EQ(unlink(file_path("failed")), 0);
    slip__os_fault_set(NULL);
  }
}

SLIP_TEST(file_read_survives_every_failing_call) {
  slip_bytes_t read;
  slip__mapping_t map;
  SLIP_CHECK_OK(slip__file_write(file_path("r"), file_text("text"), 0600, false));
  for (uint32_t nth = 1; nth <= 3; ++nth) {  // read: open stat read; map: open stat mmap, and read below
    slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_ALL, .nth = nth, .error = EIO};
    slip__os_fault_set(&plan);
    SLIP_CHECK_CODE(slip__file_read(file_path("r"), 10, slip_allocator_system(), &read), SLIP_CODE_IO);
    plan.seen = 0;
    SLIP_CHECK_CODE(slip__file_map(file_path("r"), &map), SLIP_CODE_IO);
    SLIP_CHECK_EQ(plan.failed, 2);
  }
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(READ), .nth = 1, .error = EIO};
  slip__os_fault_set(&plan);
  SLIP_CHECK_CODE(slip__file_map(file_path("r"), &map), SLIP_CODE_IO);
  SLIP_CHECK(map.bytes.data == NULL && map.bytes.size == 0);
  plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(READ), .nth = 1, .error = EINTR};
  SLIP_CHECK_OK(slip__file_map(file_path("r"), &map));
  slip__file_unmap(&map);
  plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(MAP), .nth = 1, .error = ENOMEM};
  SLIP_CHECK_CODE(slip__file_map(file_path("r"), &map), SLIP_CODE_OUT_OF_MEMORY);
  slip__os_fault_set(NULL);
}

static slip_status_t file_collect(void *user, const char *name, bool is_directory) {
  char *list = user;
  size_t used = strlen(list);
  snprintf(list + used, 256 - used, "%s%s ", name, is_directory ? "/" : "");
  return strcmp(name, "stop") == 0 ? SLIP_STATUS(SLIP_CODE_CANCELLED, "stopped") : slip_ok_status();
}

SLIP_TEST(directory_make_list_remove) {
  char list[256] = "";
  SLIP_CHECK_OK(slip__directory_make_all(file_path("t/u/v"), 0755));
  SLIP_CHECK_OK(slip__directory_make_all(file_path("t/u/v/"), 0755));
  SLIP_CHECK_OK(slip__directory_make_all("/", 0755));
  SLIP_CHECK_CODE(slip__directory_make(file_path("t/u"), 0755), SLIP_CODE_CONFLICT);
  SLIP_CHECK_CODE(slip__directory_make(file_path("x/y"), 0755), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_OK(slip__file_write(file_path("t/B"), file_text("1"), 0600, false));
  SLIP_CHECK_OK(slip__file_write(file_path("t/a"), file_text("1"), 0600, false));
  SLIP_CHECK_OK(slip__file_write(file_path("outside"), file_text("1"), 0600, false));
  SLIP_CHECK_EQ(symlink(slip_test_temporary_directory(), file_path("t/link")), 0);
  SLIP_CHECK_OK(slip__directory_list(file_path("t"), file_collect, list));
  SLIP_CHECK_STR(list, "B a link u/ ");
  SLIP_CHECK_OK(slip__file_write(file_path("t/stop"), file_text("1"), 0600, false));
  list[0] = '\0';
  SLIP_CHECK_CODE(slip__directory_list(file_path("t"), file_collect, list), SLIP_CODE_CANCELLED);
  SLIP_CHECK_STR(list, "B a link stop ");
  SLIP_CHECK_CODE(slip__directory_list(file_path("none"), file_collect, list), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_CODE(slip__directory_make_all(file_path("t/a/b"), 0755), SLIP_CODE_IO);
  SLIP_CHECK_OK(slip__directory_sync(file_path("t")));
  SLIP_CHECK_OK(slip__directory_remove_all(file_path("t")));
  SLIP_CHECK(!slip__path_exists(file_path("t")));
  SLIP_CHECK(slip__path_exists(file_path("outside")));
  SLIP_CHECK_OK(slip__directory_remove_all(file_path("t")));
}

SLIP_TEST(directory_temporary_is_fresh_and_private) {
  slip_allocator_t system = slip_allocator_system();
  char *one = NULL, *two = NULL;
  SLIP_CHECK_OK(slip__directory_make_temporary(slip_test_temporary_directory(), "p-", system, &one));
  SLIP_CHECK_OK(slip__directory_make_temporary(slip_test_temporary_directory(), "p-", system, &two));
  SLIP_CHECK(strcmp(one, two) != 0);
  struct stat info;
  SLIP_CHECK_EQ(stat(one, &info), 0);
  SLIP_CHECK_EQ(info.st_mode & 0777, 0700);
  free(one);
  free(two);
  SLIP_CHECK_CODE(slip__directory_make_temporary(file_path("none"), "p-", system, &one), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK(one == NULL);
}

SLIP_TEST(path_publish_never_replaces) {
  SLIP_CHECK_OK(slip__directory_make(file_path("from"), 0755));
  SLIP_CHECK_OK(slip__path_publish(file_path("from"), file_path("to")));
  SLIP_CHECK(slip__path_is_directory(file_path("to")));
  SLIP_CHECK_OK(slip__directory_make(file_path("from"), 0755));
  SLIP_CHECK_CODE(slip__path_publish(file_path("from"), file_path("to")), SLIP_CODE_CONFLICT);
  SLIP_CHECK_CODE(slip__path_publish(file_path("none"), file_path("to2")), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_OK(slip__file_write(file_path("to/mark"), file_text(""), 0600, false));
  SLIP_CHECK_OK(slip__path_exchange(file_path("from"), file_path("to")));
  SLIP_CHECK(slip__path_exists(file_path("from/mark")) && !slip__path_exists(file_path("to/mark")));
}

SLIP_TEST(path_join) {
  char *path = NULL;
  SLIP_CHECK_OK(slip__path_join("a", "b/c", slip_allocator_system(), &path));
  SLIP_CHECK_STR(path, "a/b/c");
  free(path);
  SLIP_CHECK_OK(slip__path_join("/", "b", slip_allocator_system(), &path));
  SLIP_CHECK_STR(path, "/b");
  free(path);
  SLIP_CHECK_OK(slip__path_join("", "b", slip_allocator_system(), &path));
  SLIP_CHECK_STR(path, "b");
  free(path);
}

SLIP_TEST(file_map_beneath_follows_no_links) {
  slip__mapping_t map;
  uint32_t mode = 0;
  const char *root = slip_test_temporary_directory();
  SLIP_CHECK_OK(slip__directory_make_all(file_path("tree/a/b"), 0755));
  SLIP_CHECK_OK(slip__file_write(file_path("tree/a/b/file"), file_text("deep"), 0640, false));
  SLIP_CHECK_OK(slip__file_map_beneath(root, "tree/a/b/file", 100, &map, &mode));
  SLIP_CHECK(map.bytes.size == 4 && memcmp(map.bytes.data, "deep", 4) == 0);
  SLIP_CHECK_EQ(mode & 0137u, 0);
  slip__file_unmap(&map);
  SLIP_CHECK_EQ(symlink("file", file_path("tree/a/b/link")), 0);
  SLIP_CHECK_EQ(symlink("a", file_path("tree/folder")), 0);
  SLIP_CHECK_EQ(symlink("tree", file_path("root")), 0);
  slip_status_t status = slip__file_map_beneath(root, "tree/a/b/link", 100, &map, &mode);
  SLIP_CHECK_EQ(slip_status_platform_code(status), ELOOP);
  SLIP_CHECK_ERROR(status, SLIP_CODE_IO, "symbolic link");
  SLIP_CHECK_ERROR(slip__file_map_beneath(root, "tree/folder/b/file", 100, &map, &mode), SLIP_CODE_IO, "folder is a symbolic link");
  SLIP_CHECK_OK(slip__file_map_beneath(file_path("root"), "a/b/file", 100, &map, &mode));
  slip__file_unmap(&map);
  SLIP_CHECK_ERROR(slip__file_map_beneath(root, "tree/a/b", 100, &map, &mode), SLIP_CODE_IO, "is a directory");
  SLIP_CHECK_CODE(slip__file_map_beneath(root, "tree/a/none", 100, &map, &mode), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_CODE(slip__file_map_beneath(file_path("none"), "x", 100, &map, &mode), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_CODE(slip__file_map_beneath(file_path("tree/a/b/file"), "x", 100, &map, &mode), SLIP_CODE_IO);
  static const char *const wrong[] = {"", "/etc/passwd", "tree/../tree/a/b/file", "tree//a", "./tree", "tree/"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    SLIP_CHECK_CODE(slip__file_map_beneath(root, wrong[i], 100, &map, &mode), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK(map.bytes.data == NULL);
  }
}

// The file is changed in place and then cut short: neither reaches who has read it.
SLIP_TEST(file_map_is_a_snapshot) {
  slip__mapping_t map;
  static uint8_t bytes[3 * 4096 + 5];
  memset(bytes, 'a', sizeof(bytes));
  SLIP_CHECK_OK(slip__file_write(file_path("snap"), (slip_const_bytes_t){bytes, sizeof(bytes)}, 0600, false));
  SLIP_CHECK_OK(slip__file_map(file_path("snap"), &map));
  int fd = open(file_path("snap"), O_WRONLY);
  SLIP_CHECK_EQ(pwrite(fd, "bbbb", 4, 4096), 4);
  SLIP_CHECK(map.bytes.size == sizeof(bytes) && memcmp(map.bytes.data, bytes, sizeof(bytes)) == 0);
  SLIP_CHECK_EQ(ftruncate(fd, 0), 0);
  SLIP_CHECK(memcmp(map.bytes.data, bytes, sizeof(bytes)) == 0);
  SLIP_CHECK_EQ(close(fd), 0);
  slip__file_unmap(&map);
}

// A sparse file of terabytes costs its owner nothing and must cost us nothing.
SLIP_TEST(file_refuses_what_is_too_large) {
  slip__mapping_t map;
  slip_bytes_t read;
  uint32_t mode;
  int fd = open(file_path("sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (ftruncate(fd, (off_t)1 << 42) != 0) slip_test_skip("the file system has no sparse files of 4 TiB");
  SLIP_CHECK_EQ(close(fd), 0);
  SLIP_CHECK_ERROR(slip__file_map_beneath(slip_test_temporary_directory(), "sparse", 1u << 20, &map, &mode), SLIP_CODE_CORRUPT,
                   "has 4398046511104 bytes; at most 1048576");
  SLIP_CHECK(map.bytes.data == NULL);
  SLIP_CHECK_CODE(slip__file_read(file_path("sparse"), 1u << 20, slip_allocator_system(), &read), SLIP_CODE_CORRUPT);
}
