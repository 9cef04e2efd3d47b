// SPDX-License-Identifier: Apache-2.0
// x86-64-v4 by gcc's pragma; elsewhere the baseline again.
#define KERNELS_LEVEL kernels_v4
#define KERNELS_NAME  "x86-64-v4"
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("arch=x86-64-v4")
#define KERNELS_SUPPORTED __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
#else
#define KERNELS_SUPPORTED false
#endif
#include "kernels_level.h"
