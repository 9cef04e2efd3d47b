// SPDX-License-Identifier: Apache-2.0
// Files and directories. All failures name the path; IO carries errno as platform code, a missing path is NOT_FOUND, one that must not
// exist but does is CONFLICT, short memory is OUT_OF_MEMORY. Every call is interruptible-safe (EINTR, short reads and writes) and passes
// through the fault hook of os/fault.h.
#ifndef SLIPSTREAM_SRC_OS_FILE_H_
#define SLIPSTREAM_SRC_OS_FILE_H_

#include "slipstream/base.h"
#include "slipstream/status.h"

// The bytes of a whole regular file as they were when it was read, in read-only pages of their own: what happens to the file later does not
// change them. An empty file maps to {NULL, 0}.
typedef struct slip__mapping_t {
  slip_const_bytes_t bytes;
} slip__mapping_t;

slip_status_t slip__file_map(const char *path, slip__mapping_t *out) SLIP_MUST_USE;
// Maps the regular file |path| ("a/b/c") beneath |directory|. No component may be a symbolic link (IO, ELOOP), empty, "." or ".."
// (INVALID_ARGUMENT); |directory| itself may be one. A file above |limit_bytes| is CORRUPT. |*out_mode| is the file's permission bits.
slip_status_t slip__file_map_beneath(const char *directory, const char *path, uint64_t limit_bytes, slip__mapping_t *out,
                                     uint32_t *out_mode) SLIP_MUST_USE;
void slip__file_unmap(slip__mapping_t *mapping);
// Whole file into memory, plus a terminator that |out->size| does not count. Refuses files above |limit_bytes| (CORRUPT) and everything but
// regular files (IO).
slip_status_t slip__file_read(const char *path, uint64_t limit_bytes, slip_allocator_t allocator, slip_bytes_t *out) SLIP_MUST_USE;
// Writes a new file (CONFLICT if it exists) with |mode|, fsyncs it when |sync|; on failure nothing is left.
slip_status_t slip__file_write(const char *path, slip_const_bytes_t bytes, uint32_t mode, bool sync) SLIP_MUST_USE;
bool slip__path_exists(const char *path);
bool slip__path_is_directory(const char *path);
// "a" + "b/c" -> "a/b/c".
slip_status_t slip__path_join(const char *directory, const char *name, slip_allocator_t allocator, char **out) SLIP_MUST_USE;
// The absolute path without symbolic links, "." and "..". NOT_FOUND, IO.
slip_status_t slip__path_real(const char *path, slip_allocator_t allocator, char **out) SLIP_MUST_USE;
slip_status_t slip__directory_make(const char *path, uint32_t mode) SLIP_MUST_USE;      // parents must exist
slip_status_t slip__directory_make_all(const char *path, uint32_t mode) SLIP_MUST_USE;  // existing is fine
// A fresh directory "<parent>/<prefix>XXXXXX", mode 0700.
slip_status_t slip__directory_make_temporary(const char *parent, const char *prefix, slip_allocator_t allocator,
                                             char **out_path) SLIP_MUST_USE;
// Removes a tree without following symbolic links; a missing one is fine.
slip_status_t slip__directory_remove_all(const char *path) SLIP_MUST_USE;
slip_status_t slip__directory_sync(const char *path) SLIP_MUST_USE;
// Calls |visit| for each entry in byte order of the names ("." and ".." left out).
slip_status_t slip__directory_list(const char *path, slip_status_t (*visit)(void *user, const char *name, bool is_directory),
                                   void *user) SLIP_MUST_USE;
// Moves |from| to |to| atomically; CONFLICT if |to| exists (renameat2 RENAME_NOREPLACE).
slip_status_t slip__path_publish(const char *from, const char *to) SLIP_MUST_USE;
// Exchanges two existing paths atomically.
slip_status_t slip__path_exchange(const char *a, const char *b) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_OS_FILE_H_
