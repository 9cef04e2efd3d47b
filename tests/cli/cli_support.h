// SPDX-License-Identifier: Apache-2.0
// Starting `slip` from a test.
#ifndef SLIPSTREAM_TESTS_CLI_CLI_SUPPORT_H_
#define SLIPSTREAM_TESTS_CLI_CLI_SUPPORT_H_

#include <jansson.h>
#include <sys/types.h>

#include "slip_test.h"

// A path in the test's own directory; in the source tree. Static storage, eight at a time.
const char *in_test(const char *name);
const char *in_source(const char *name);

// Runs slip with |arguments| (NULL-terminated) in the test's directory. Fails the test unless it exits with |code| and its output contains
// |part| (NULL: anything). Returns the output, in static storage.
const char *slip_run(int code, const char *part, const char *const *arguments);
#define SLIP(code, part, ...) slip_run((code), (part), (const char *const[]){__VA_ARGS__, NULL})
// Starts slip in the test's directory, with |variable| of its environment set to |value|, and returns its process id. Its output is lost.
pid_t slip_start(const char *variable, const char *value, const char *const *arguments);
// The same as SLIP with --json behind; returns the document.
json_t *slip_run_json(int code, const char *const *arguments);
#define SLIP_JSON(code, ...) slip_run_json((code), (const char *const[]){__VA_ARGS__, "--json", NULL})

void write_file(const char *name, const void *data, size_t size);
// |out| holds |capacity| bytes. Returns the size.
size_t read_file(const char *name, void *out, size_t capacity);
// A .npy of version 1.0 with the dictionary's |descr| and |shape| as given and |size| bytes of data.
void write_npy(const char *name, const char *descr, const char *shape, const void *data, size_t size);
void write_floats(const char *name, const float *values, size_t count);
// A .safetensors file with |header| and |size| bytes of data.
void write_safetensors(const char *name, const char *header, const void *data, size_t size);
// The number of entries of the test's directory whose name contains |part|.
size_t count_files(const char *part);
// A tmpfs of |size| bytes at |name| in the test's directory, seen by this test only. Skips the test where that is not allowed.
void mount_small(const char *name, size_t size);
// From here on the test and what it starts are an ordinary user that owns nothing. Skips the test where that is not possible.
void become_nobody(void);

#endif  // SLIPSTREAM_TESTS_CLI_CLI_SUPPORT_H_
