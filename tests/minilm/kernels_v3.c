// SPDX-License-Identifier: Apache-2.0
// x86-64-v3 by gcc's pragma; elsewhere the baseline again.
#define KERNELS_LEVEL kernels_v3
#define KERNELS_NAME  "x86-64-v3"
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("arch=x86-64-v3")
#define KERNELS_SUPPORTED __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
#else
#define KERNELS_SUPPORTED false
#endif
#include "kernels_level.h"
