// SPDX-License-Identifier: Apache-2.0
#include "os/dylib.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/allocator.h"
#include "os/fault.h"

// Kernels from 6.3 on may refuse executable memfds unless asked for one; older ones do not know the flag and answer EINVAL.
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

struct slip__dylib_t {
  void *handle;
  slip_allocator_t allocator;
  char name[64];
};

static const char *slip__dylib_reason(void) {
  const char *reason = dlerror();
  return reason ? reason : "the loader gave no reason";
}

static slip_status_t slip__dylib_wrap(const char *path, const char *label, slip_code_t code, slip_allocator_t allocator,
                                      slip__dylib_t **out) {
  void *memory = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__dylib_t), &memory));
  slip__dylib_t *library = memory;
  library->allocator = allocator;
  (void)snprintf(library->name, sizeof(library->name), "%s", label);
  int error = slip__os_fault(SLIP__OS_CALL_LOAD);
  if (error == 0) library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) {
    slip_status_t status = SLIP_STATUS_PLATFORM(code, error, "shared object \"%s\" could not be loaded: %s", label,
                                                error ? strerror(error) : slip__dylib_reason());
    slip__free(allocator, library, sizeof(*library));
    return status;
  }
  *out = library;
  return slip_ok_status();
}

slip_status_t slip__dylib_open(const char *name, slip_allocator_t allocator, slip__dylib_t **out) {
  *out = NULL;
  return slip__dylib_wrap(name, name, SLIP_CODE_NOT_FOUND, allocator, out);
}

// All of |bytes| into |fd|. Returns 0 or errno.
static int slip__dylib_fill(int fd, slip_const_bytes_t bytes) {
  size_t done = 0;
  while (done < bytes.size) {
    int error = slip__os_fault(SLIP__OS_CALL_WRITE);
    ssize_t written = error ? -1 : write(fd, bytes.data + done, bytes.size - done);
    if (written < 0 && !error) error = errno;
    if (error == EINTR) continue;
    if (error) return error;
    done += (size_t)written;
  }
  return 0;
}

// A sealed anonymous file with |bytes| in it. Returns its descriptor, or -1 with |*out_error|.
static int slip__dylib_memfd(slip_const_bytes_t bytes, const char *label, int *out_error) {
  *out_error = slip__os_fault(SLIP__OS_CALL_MEMFD);
  if (*out_error) return -1;
  char name[200];  // the kernel takes at most 249 bytes
  (void)snprintf(name, sizeof(name), "%s", label);
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    *out_error = errno;
    return -1;
  }
  *out_error = slip__dylib_fill(fd, bytes);
  if (*out_error == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) *out_error = errno;
  if (*out_error == 0) return fd;
  (void)close(fd);
  return -1;
}

// The loader takes equal path strings for the same object, also when the descriptor number has been reused. A counter, spelled in bits as
// "/" and "/.", makes every path its own while it still resolves to the descriptor, which can then be closed at once.
static void slip__dylib_unique_path(int fd, char *path, size_t capacity) {
  static _Atomic uint64_t counter;
  uint64_t number = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
  char mark[160];
  size_t at = 0;
  for (; number != 0; number >>= 1) {
    mark[at++] = '/';
    if (number & 1u) mark[at++] = '.';
  }
  mark[at] = '\0';
  (void)snprintf(path, capacity, "/proc/self/fd%s/%d", mark, fd);
}

// True if all segments lie inside the file. The loader does not look: it would map a file that was cut short and the first touch beyond its
// end would be a SIGBUS.
static bool slip__dylib_is_whole(slip_const_bytes_t bytes) {
  Elf64_Ehdr header;
  if (bytes.size < sizeof(header)) return false;
  memcpy(&header, bytes.data, sizeof(header));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  if (header.e_phoff > bytes.size || (bytes.size - header.e_phoff) / sizeof(Elf64_Phdr) < header.e_phnum) return false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, bytes.data + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > bytes.size || segment.p_filesz > bytes.size - segment.p_offset) return false;
  }
  return true;
}

slip_status_t slip__dylib_open_memory(slip_const_bytes_t bytes, const char *label, slip_allocator_t allocator, slip__dylib_t **out) {
  *out = NULL;
  if (!slip__dylib_is_whole(bytes)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "shared object \"%s\" of %zu bytes is not a whole 64-bit ELF file; build it again", label,
                       bytes.size);
  }
  int error = 0;
  int fd = slip__dylib_memfd(bytes, label, &error);
  if (fd < 0) {
    slip_code_t code = error == ENOMEM || error == ENOSPC ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_IO;
    return SLIP_STATUS_PLATFORM(code, error, "no memory file for shared object \"%s\" of %zu bytes: %s", label, bytes.size,
                                strerror(error));
  }
  char path[256];
  slip__dylib_unique_path(fd, path, sizeof(path));
  slip_status_t status = slip__dylib_wrap(path, label, SLIP_CODE_CORRUPT, allocator, out);
  (void)close(fd);
  return status;
}

slip_status_t slip__dylib_symbol(slip__dylib_t *library, const char *name, void **out) {
  *out = dlsym(library->handle, name);
  if (*out) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_NOT_FOUND, "shared object \"%s\" has no symbol \"%s\"", library->name, name);
}

slip_status_t slip__dylib_directory_of(const void *address, slip_allocator_t allocator, char **out) {
  Dl_info info;
  *out = NULL;
  const char *slash = dladdr(address, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
  if (!slash) return SLIP_STATUS(SLIP_CODE_NOT_FOUND, "the loader does not know where the object at %p lies", address);
  return slip__strndup(allocator, info.dli_fname, (size_t)(slash - info.dli_fname), out);
}

slip_status_t slip__dylib_close(slip__dylib_t *library) {
  if (!library) return slip_ok_status();
  int error = slip__os_fault(SLIP__OS_CALL_UNLOAD);
  if (error != 0 || dlclose(library->handle) != 0) {
    return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, error, "shared object \"%s\" could not be closed: %s", library->name,
                                error ? strerror(error) : slip__dylib_reason());
  }
  slip__free(library->allocator, library, sizeof(*library));
  return slip_ok_status();
}
