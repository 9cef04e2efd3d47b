// SPDX-License-Identifier: Apache-2.0
// The whole application API except the compiler's.
#ifndef SLIPSTREAM_SLIPSTREAM_H_
#define SLIPSTREAM_SLIPSTREAM_H_

#include "slipstream/artifact.h"
#include "slipstream/base.h"
#include "slipstream/context.h"
#include "slipstream/device.h"
#include "slipstream/dlpack.h"
#include "slipstream/dtype.h"
#include "slipstream/frame.h"
#include "slipstream/graph.h"
#include "slipstream/image.h"
#include "slipstream/scalar.h"
#include "slipstream/signature.h"
#include "slipstream/status.h"
#include "slipstream/tensor.h"
#include "slipstream/worker.h"

#endif  // SLIPSTREAM_SLIPSTREAM_H_
