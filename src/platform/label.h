// SPDX-License-Identifier: Apache-2.0
// What the calling thread is about to reach, for the messages of a platform that finds a mistake there: device_map has only an address.
#ifndef SLIPSTREAM_SRC_PLATFORM_LABEL_H_
#define SLIPSTREAM_SRC_PLATFORM_LABEL_H_

typedef struct slip__platform_label_t {
  const char *callable;  // NULL: the label is empty. Both must outlive the function that the thread runs
  const char *tensor;    // NULL: the callable's arguments
} slip__platform_label_t;

extern _Thread_local slip__platform_label_t slip__platform_label;

#endif  // SLIPSTREAM_SRC_PLATFORM_LABEL_H_
