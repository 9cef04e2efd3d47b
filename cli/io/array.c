// SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_array_size(slip_dtype_t dtype, uint8_t rank, const int64_t *dims, uint64_t *out_bytes) {
  int64_t bytes = (int64_t)slip_dtype_size_bytes(dtype);
  bool empty = false, fits = bytes > 0;
  for (uint8_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) empty = true;
  }
  for (uint8_t i = 0; i < rank && fits && !empty; ++i) fits = !__builtin_mul_overflow(bytes, dims[i], &bytes);
  *out_bytes = empty || !fits ? 0 : (uint64_t)bytes;
  return fits;
}

static slip_status_t cli_file_error(int error, const char *action, const char *path) {
  slip_code_t code = error == ENOENT ? SLIP_CODE_NOT_FOUND : error == ENOMEM ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_IO;
  return SLIP_STATUS_PLATFORM(code, error, "cannot %s \"%s\": %s", action, path, strerror(error));
}

slip_status_t cli_file_map(const char *path, slip_const_bytes_t *out) {
  struct stat info;
  slip_status_t status = slip_ok_status();
  *out = (slip_const_bytes_t){NULL, 0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return cli_file_error(errno, "open", path);
  if (fstat(fd, &info) != 0) {
    status = cli_file_error(errno, "look at", path);
  } else if (S_ISDIR(info.st_mode)) {
    status = SLIP_STATUS_PLATFORM(SLIP_CODE_IO, EISDIR, "\"%s\" is a directory; a file is needed", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = SLIP_STATUS_PLATFORM(SLIP_CODE_IO, EINVAL, "\"%s\" is not a regular file", path);
  } else if (info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      status = cli_file_error(errno, "map", path);
    } else {
      *out = (slip_const_bytes_t){data, (size_t)info.st_size};
    }
  }
  close(fd);
  return status;
}

void cli_file_unmap(slip_const_bytes_t bytes) {
  if (bytes.data) munmap((void *)(uintptr_t)bytes.data, bytes.size);
}

// 0 or errno.
static int cli_file_write_all(int fd, slip_const_bytes_t bytes) {
  while (bytes.size > 0) {
    ssize_t written = write(fd, bytes.data, bytes.size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.data += written;
    bytes.size -= (size_t)written;
  }
  return 0;
}

static int cli_file_write_pieces(int fd, const slip_const_bytes_t *pieces, size_t count) {
  int error = 0;
  for (size_t i = 0; i < count && error == 0; ++i) error = cli_file_write_all(fd, pieces[i]);
  return error;
}

static slip_status_t cli_file_write_device(const char *path, const slip_const_bytes_t *pieces, size_t count) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return cli_file_error(errno, "open", path);
  int error = cli_file_write_pieces(fd, pieces, count);
  if (close(fd) != 0 && error == 0) error = errno;
  return error ? cli_file_error(error, "write", path) : slip_ok_status();
}

slip_status_t cli_file_write(const char *path, const slip_const_bytes_t *pieces, size_t count) {
  struct stat info;
  char temporary[4096];
  if (stat(path, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, EISDIR, "\"%s\" is a directory; a file name is needed", path);
    if (!S_ISREG(info.st_mode)) return cli_file_write_device(path, pieces, count);
  }
  int length = snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
  if (length < 0 || (size_t)length >= sizeof(temporary))
    return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, ENAMETOOLONG, "the path \"%s\" is too long", path);
  int fd = mkostemp(temporary, O_CLOEXEC);
  if (fd < 0) return cli_file_error(errno, "create a file beside", path);
  int error = cli_file_write_pieces(fd, pieces, count);
  mode_t mask = umask(0);
  umask(mask);
  if (error == 0 && fchmod(fd, 0666 & ~mask) != 0) error = errno;  // as if it had been opened; mkostemp makes 0600
  if (error == 0 && fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary, path) != 0) error = errno;
  if (error == 0) return slip_ok_status();
  unlink(temporary);
  return cli_file_error(error, "write", path);
}
