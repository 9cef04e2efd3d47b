// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "os/fault.h"

// Makes |result| the value of a system call behind the fault hook: -1 with errno when it fails; EINTR is tried again.
#define SLIP__FILE_CALL(kind, result, expression) \
  do {                                            \
    errno = slip__os_fault(SLIP__OS_CALL_##kind); \
    (result) = errno ? -1 : (expression);         \
  } while ((result) == -1 && errno == EINTR)

static slip_status_t slip__file_error(int error, const char *action, const char *path) {
  slip_code_t code = SLIP_CODE_IO;
  if (error == ENOENT) code = SLIP_CODE_NOT_FOUND;
  if (error == EEXIST) code = SLIP_CODE_CONFLICT;
  if (error == ENOMEM) code = SLIP_CODE_OUT_OF_MEMORY;
  return SLIP_STATUS_PLATFORM(code, error, "cannot %s \"%s\": %s", action, path, strerror(error));
}

// True for a regular file, whose facts are in |out|; else a failure.
static slip_status_t slip__file_examine(int fd, const char *path, struct stat *out) {
  int result;
  SLIP__FILE_CALL(STAT, result, fstat(fd, out));
  if (result != 0) return slip__file_error(errno, "look at", path);
  if (S_ISDIR(out->st_mode)) {
    return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, EISDIR, "\"%s\" is a directory; a file is needed", path);
  }
  if (!S_ISREG(out->st_mode)) return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, EINVAL, "\"%s\" is not a regular file", path);
  return slip_ok_status();
}

// Opens a regular file for reading. On failure |*out_fd| is -1. O_NONBLOCK: a FIFO must be refused and not waited for.
static slip_status_t slip__file_open(const char *path, int *out_fd, uint64_t *out_size) {
  struct stat info;
  SLIP__FILE_CALL(OPEN, *out_fd, open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (*out_fd < 0) return slip__file_error(errno, "open", path);
  slip_status_t status = slip__file_examine(*out_fd, path, &info);
  if (slip_status_is_ok(status)) {
    *out_size = (uint64_t)info.st_size;
    return status;
  }
  (void)close(*out_fd);
  *out_fd = -1;
  return status;
}

static slip_status_t slip__file_too_large(const char *path, uint64_t size, uint64_t limit_bytes) {
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" has %llu bytes; at most %llu are expected of it", path, (unsigned long long)size,
                     (unsigned long long)limit_bytes);
}

// Exactly |size| bytes from the file's start.
static slip_status_t slip__file_fill(int fd, const char *path, void *data, uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    ssize_t count;
    SLIP__FILE_CALL(READ, count, read(fd, (char *)data + done, size - done));
    if (count < 0) return slip__file_error(errno, "read", path);
    if (count == 0) {
      return SLIP_STATUS(SLIP_CODE_IO, "\"%s\" ended after %llu of %llu bytes; somebody is writing to it", path, (unsigned long long)done,
                         (unsigned long long)size);
    }
    done += (uint64_t)count;
  }
  return slip_ok_status();
}

// Anonymous memory and not the file itself: a mapped file changes under its reader when somebody writes to it in place, after it was
// checked, and gives SIGBUS when it is cut short.
static slip_status_t slip__file_map_descriptor(int fd, const char *path, uint64_t size, slip__mapping_t *out) {
  if (size == 0) return slip_ok_status();
  errno = slip__os_fault(SLIP__OS_CALL_MAP);
  void *data = errno ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return slip__file_error(errno, "get memory for", path);
  slip_status_t status = slip__file_fill(fd, path, data, size);
  if (slip_status_is_ok(status) && mprotect(data, size, PROT_READ) != 0) status = slip__file_error(errno, "protect the copy of", path);
  if (slip_status_is_ok(status)) {
    out->bytes = (slip_const_bytes_t){data, size};
  } else {
    (void)munmap(data, size);
  }
  return status;
}

slip_status_t slip__file_map(const char *path, slip__mapping_t *out) {
  int fd = -1;
  uint64_t size = 0;
  *out = (slip__mapping_t){{NULL, 0}};
  SLIP_RETURN_IF_ERROR(slip__file_open(path, &fd, &size));
  slip_status_t status = slip__file_map_descriptor(fd, path, size, out);
  (void)close(fd);
  return status;
}

// The file or directory |component| in |directory|, links not followed; |path| is for messages.
static slip_status_t slip__file_step(int directory, const char *component, bool last, const char *path, int *out_fd) {
  if (!strcmp(component, "") || !strcmp(component, ".") || !strcmp(component, "..")) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is not a plain relative path", path);
  }
  struct stat info;
  int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | (last ? O_NONBLOCK : O_DIRECTORY);
  SLIP__FILE_CALL(OPEN, *out_fd, openat(directory, component, flags));
  if (*out_fd >= 0) return slip_ok_status();
  int error = errno;
  bool is_link =
      (error == ELOOP || error == ENOTDIR) && fstatat(directory, component, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  if (is_link) return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, ELOOP, "\"%s\": %s is a symbolic link, which is not followed", path, component);
  return slip__file_error(error, "open", path);
}

slip_status_t slip__file_map_beneath(const char *directory, const char *path, uint64_t limit_bytes, slip__mapping_t *out,
                                     uint32_t *out_mode) {
  int fd;
  struct stat info;
  *out = (slip__mapping_t){{NULL, 0}};
  *out_mode = 0;
  SLIP__FILE_CALL(OPEN, fd, open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return slip__file_error(errno, "open the directory", directory);
  slip_status_t status = slip_ok_status();
  bool last = false;
  for (const char *at = path; slip_status_is_ok(status) && !last;) {
    char component[NAME_MAX + 1];
    size_t length = strcspn(at, "/");
    int next = -1;
    last = at[length] == '\0';
    if (length > NAME_MAX) {
      status = slip__file_error(ENAMETOOLONG, "open", path);
      break;
    }
    memcpy(component, at, length);
    component[length] = '\0';
    status = slip__file_step(fd, component, last, path, &next);
    (void)close(fd);
    fd = next;
    at += length + 1;
  }
  if (slip_status_is_ok(status)) status = slip__file_examine(fd, path, &info);
  if (slip_status_is_ok(status) && (uint64_t)info.st_size > limit_bytes) {
    status = slip__file_too_large(path, (uint64_t)info.st_size, limit_bytes);
  }
  if (slip_status_is_ok(status)) status = slip__file_map_descriptor(fd, path, (uint64_t)info.st_size, out);
  if (slip_status_is_ok(status)) *out_mode = (uint32_t)info.st_mode & 07777u;
  if (fd >= 0) (void)close(fd);
  return slip_status_annotate(status, "in \"%s\"", directory);
}

void slip__file_unmap(slip__mapping_t *mapping) {
  if (mapping->bytes.data) (void)munmap((void *)(uintptr_t)mapping->bytes.data, mapping->bytes.size);
  *mapping = (slip__mapping_t){{NULL, 0}};
}

slip_status_t slip__file_read(const char *path, uint64_t limit_bytes, slip_allocator_t allocator, slip_bytes_t *out) {
  int fd = -1;
  uint64_t size = 0;
  void *data = NULL;
  *out = (slip_bytes_t){NULL, 0};
  SLIP_RETURN_IF_ERROR(slip__file_open(path, &fd, &size));
  slip_status_t status = size > limit_bytes ? slip__file_too_large(path, size, limit_bytes) : slip_ok_status();
  if (slip_status_is_ok(status)) {
    status = slip_status_annotate(slip__alloc(allocator, size + 1, &data), "reading \"%s\"", path);
  }
  if (slip_status_is_ok(status)) status = slip__file_fill(fd, path, data, size);
  if (slip_status_is_ok(status)) {
    *out = (slip_bytes_t){data, size};
  } else {
    slip__free(allocator, data, size + 1);
  }
  (void)close(fd);
  return status;
}

slip_status_t slip__file_write(const char *path, slip_const_bytes_t bytes, uint32_t mode, bool sync) {
  int fd, result;
  size_t done = 0;
  slip_status_t status = slip_ok_status();
  SLIP__FILE_CALL(OPEN, fd, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, (mode_t)mode));
  if (fd < 0) return slip__file_error(errno, "create", path);
  while (done < bytes.size && slip_status_is_ok(status)) {
    ssize_t count;
    SLIP__FILE_CALL(WRITE, count, write(fd, bytes.data + done, bytes.size - done));
    if (count < 0) {
      status = slip__file_error(errno, "write to", path);
    } else {
      done += (size_t)count;
    }
  }
  if (slip_status_is_ok(status) && sync) {
    SLIP__FILE_CALL(SYNC, result, fsync(fd));
    if (result != 0) status = slip__file_error(errno, "sync", path);
  }
  // Not repeated on EINTR: the descriptor is gone by then. The fault stands for a late report of a failed write (NFS, quota).
  int close_error = slip__os_fault(SLIP__OS_CALL_CLOSE);
  if (close(fd) != 0 && close_error == 0 && errno != EINTR) close_error = errno;
  if (close_error != 0 && slip_status_is_ok(status)) status = slip__file_error(close_error, "close", path);
  if (!slip_status_is_ok(status)) (void)unlink(path);
  return status;
}

bool slip__path_exists(const char *path) {
  return access(path, F_OK) == 0;
}

bool slip__path_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

slip_status_t slip__path_join(const char *directory, const char *name, slip_allocator_t allocator, char **out) {
  size_t first = strlen(directory), second = strlen(name);
  void *memory = NULL;
  *out = NULL;
  bool slash = first > 0 && directory[first - 1] != '/';
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, first + slash + second + 1, &memory));
  char *path = memory;
  memcpy(path, directory, first);
  if (slash) path[first] = '/';
  memcpy(path + first + slash, name, second);
  *out = path;
  return slip_ok_status();
}

slip_status_t slip__path_real(const char *path, slip_allocator_t allocator, char **out) {
  *out = NULL;
  errno = slip__os_fault(SLIP__OS_CALL_STAT);
  char *real = errno ? NULL : realpath(path, NULL);
  if (!real) return slip__file_error(errno, "resolve", path);
  slip_status_t status = slip__strndup(allocator, real, strlen(real), out);
  free(real);  // libc's own allocation
  return status;
}

slip_status_t slip__directory_make(const char *path, uint32_t mode) {
  int result;
  SLIP__FILE_CALL(MAKE, result, mkdir(path, (mode_t)mode));
  return result == 0 ? slip_ok_status() : slip__file_error(errno, "make the directory", path);
}

slip_status_t slip__directory_make_all(const char *path, uint32_t mode) {
  char *copy = NULL;
  size_t length = strlen(path);
  slip_allocator_t allocator = slip_allocator_system();
  slip_status_t status = slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__strndup(allocator, path, length, &copy));
  for (size_t at = 1; at <= length && slip_status_is_ok(status); ++at) {
    if (copy[at] != '/' && copy[at] != '\0') continue;
    char end = copy[at];
    copy[at] = '\0';
    int result;
    SLIP__FILE_CALL(MAKE, result, mkdir(copy, (mode_t)mode));
    // A directory that is there already may also answer EROFS or EACCES.
    int error = result == 0 ? 0 : errno;
    if (error != 0 && !slip__path_is_directory(copy))
      status = slip__file_error(error == EEXIST ? ENOTDIR : error, "make the directory", copy);
    copy[at] = end;
  }
  slip__free(allocator, copy, length + 1);
  return status;
}

slip_status_t slip__directory_make_temporary(const char *parent, const char *prefix, slip_allocator_t allocator, char **out_path) {
  char *path = NULL;
  void *name = NULL;
  size_t size = strlen(prefix) + sizeof("XXXXXX");
  *out_path = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, size, &name));
  (void)snprintf(name, size, "%sXXXXXX", prefix);
  slip_status_t status = slip__path_join(parent, name, allocator, &path);
  slip__free(allocator, name, size);
  SLIP_RETURN_IF_ERROR(status);
  errno = slip__os_fault(SLIP__OS_CALL_MAKE);
  if (errno || !mkdtemp(path)) {
    status = slip__file_error(errno, "make the temporary directory", path);
    slip__free(allocator, path, strlen(path) + 1);
    return status;
  }
  *out_path = path;
  return slip_ok_status();
}

// Removes |name| in |parent| and all below it. Returns 0 or errno; goes on after a failure and returns the first one.
static int slip__directory_remove_at(int parent, const char *name) {
  int result;
  SLIP__FILE_CALL(REMOVE, result, unlinkat(parent, name, 0));
  if (result == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return errno;
  int first = errno;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOTDIR ? first : errno;
  DIR *directory = fdopendir(fd);
  if (!directory) {
    first = errno;
    (void)close(fd);
    return first;
  }
  first = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    int error = slip__directory_remove_at(dirfd(directory), entry->d_name);
    if (error != 0 && first == 0) first = error;
  }
  (void)closedir(directory);
  if (first != 0) return first;
  SLIP__FILE_CALL(REMOVE, result, unlinkat(parent, name, AT_REMOVEDIR));
  return result == 0 || errno == ENOENT ? 0 : errno;
}

slip_status_t slip__directory_remove_all(const char *path) {
  int error = slip__directory_remove_at(AT_FDCWD, path);
  return error == 0 ? slip_ok_status() : slip__file_error(error, "remove", path);
}

slip_status_t slip__directory_sync(const char *path) {
  int fd, result;
  SLIP__FILE_CALL(OPEN, fd, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return slip__file_error(errno, "open the directory", path);
  SLIP__FILE_CALL(SYNC, result, fsync(fd));
  int error = errno;
  (void)close(fd);
  return result == 0 ? slip_ok_status() : slip__file_error(error, "sync the directory", path);
}

static int slip__directory_compare(const void *a, const void *b) {
  return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

static int slip__directory_select(const struct dirent *entry) {
  return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static bool slip__directory_entry_is_directory(const char *path, const struct dirent *entry) {
  if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
  struct stat info;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool is = fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
  (void)close(fd);
  return is;
}

slip_status_t slip__directory_list(const char *path, slip_status_t (*visit)(void *user, const char *name, bool is_directory), void *user) {
  struct dirent **entries = NULL;
  int count = -1;
  errno = slip__os_fault(SLIP__OS_CALL_LIST);
  if (!errno) count = scandir(path, &entries, slip__directory_select, NULL);
  if (count < 0) return slip__file_error(errno, "list the directory", path);
  if (count > 1) qsort(entries, (size_t)count, sizeof(*entries), slip__directory_compare);
  slip_status_t status = slip_ok_status();
  for (int i = 0; i < count; ++i) {
    if (slip_status_is_ok(status)) status = visit(user, entries[i]->d_name, slip__directory_entry_is_directory(path, entries[i]));
    free(entries[i]);
  }
  free(entries);
  return status;
}

static slip_status_t slip__path_rename(const char *from, const char *to, unsigned flags, const char *action) {
  int result;
  SLIP__FILE_CALL(RENAME, result, renameat2(AT_FDCWD, from, AT_FDCWD, to, flags));
  if (result == 0) return slip_ok_status();
  int error = errno;
  return slip_status_annotate(slip__file_error(error, action, to), "from \"%s\"", from);
}

slip_status_t slip__path_publish(const char *from, const char *to) {
  return slip__path_rename(from, to, RENAME_NOREPLACE, "publish");
}

slip_status_t slip__path_exchange(const char *a, const char *b) {
  return slip__path_rename(a, b, RENAME_EXCHANGE, "exchange");
}
