// SPDX-License-Identifier: Apache-2.0
#define KERNELS_LEVEL     kernels_baseline
#define KERNELS_NAME      "baseline"
#define KERNELS_SUPPORTED true
#include "kernels_level.h"
