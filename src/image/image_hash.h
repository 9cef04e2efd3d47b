// SPDX-License-Identifier: Apache-2.0
// What the parser and the writer of images share.
#ifndef SLIPSTREAM_SRC_IMAGE_IMAGE_HASH_H_
#define SLIPSTREAM_SRC_IMAGE_IMAGE_HASH_H_

#include "base/hash.h"
#include "image/image_format.h"

// XXH3-128 of |image| (at least a header long) with the hash field taken as zero.
slip__hash128_t slip__image_hash(slip_const_bytes_t image);
// Stores the hash in the image's header.
void slip__image_seal(slip_bytes_t image);

// How the parser's refusals end; the writer's leave it out.
#define SLIP__IMAGE_REMEDY "; the image is damaged, build it again"

// [A-Za-z0-9_+-.]{1,63}, no '.' in front: a target is also a file name.
bool slip__image_is_target(const uint8_t *text, size_t length);

#endif  // SLIPSTREAM_SRC_IMAGE_IMAGE_HASH_H_
