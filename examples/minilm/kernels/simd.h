// SPDX-License-Identifier: Apache-2.0
// Vectors as wide as the compile target, and the few functions over them. Freestanding: no libc, no libm, no intrinsics.
//
// The compiler's vector extensions give one source for SSE, AVX2, AVX-512 and NEON; `slip compile` builds it once per level of the target
// list.
#ifndef MINILM_KERNELS_SIMD_H_
#define MINILM_KERNELS_SIMD_H_

#include <stddef.h>
#include <stdint.h>

#define MINILM_INLINE static inline __attribute__((always_inline))

// Floats per vector, and rows of weights that one register tile covers: tile accumulators = ROWS * (16 / LANES), as many as the register
// file carries beside the operands.
#if defined(__AVX512F__)
#define MINILM_LANES 16
#define MINILM_ROWS  12  // 12 of 32 registers; operands broadcast from memory
#elif defined(__AVX__)
#define MINILM_LANES 8
#define MINILM_ROWS  6  // 12 of 16 registers
#elif defined(__aarch64__)
#define MINILM_LANES 4
#define MINILM_ROWS  6  // 24 of 32 registers
#else
#define MINILM_LANES 4
#define MINILM_ROWS  3  // 12 of 16 registers
#endif

typedef float minilm_vec_t __attribute__((vector_size(MINILM_LANES * 4)));
typedef int32_t minilm_ivec_t __attribute__((vector_size(MINILM_LANES * 4)));
typedef float minilm_uvec_t __attribute__((vector_size(MINILM_LANES * 4), aligned(4), may_alias));  // in memory, any alignment

MINILM_INLINE minilm_vec_t minilm_load(const float *p) {
  return *(const minilm_uvec_t *)p;
}
MINILM_INLINE void minilm_store(float *p, minilm_vec_t v) {
  *(minilm_uvec_t *)p = v;
}
MINILM_INLINE minilm_vec_t minilm_splat(float x) {
  return x - (minilm_vec_t){0};  // not 0 + x: that is an addition, since it makes -0 a 0
}
// sum + a * b. The instruction by name where gcc would choose among its three forms: over unrolled steps gcc 12 lets the sum end in the
// register of a factor, and then moves accumulators about or spills them. As written here the sum stays where it is.
MINILM_INLINE minilm_vec_t minilm_fma(minilm_vec_t a, minilm_vec_t b, minilm_vec_t sum) {
#if defined(__FMA__) && MINILM_LANES == 8
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  return sum;
#else
  return sum + a * b;
#endif
}
// Lane by lane: gcc and clang make one instruction of it (a constant must come first, or gcc 12 makes two). A NaN in either gives |b|.
MINILM_INLINE minilm_vec_t minilm_max(minilm_vec_t a, minilm_vec_t b) {
  for (int l = 0; l < MINILM_LANES; ++l) a[l] = a[l] > b[l] ? a[l] : b[l];
  return a;
}
MINILM_INLINE minilm_vec_t minilm_min(minilm_vec_t a, minilm_vec_t b) {
  for (int l = 0; l < MINILM_LANES; ++l) a[l] = a[l] < b[l] ? a[l] : b[l];
  return a;
}

// 2^x for -126 <= x <= 126. Splits x into an integer, added to the exponent, and a rest in [-1/2, 1/2] for a polynomial.
// Coefficients: minimax fit of 2^f in relative error, 2e-9 in exact arithmetic; with rounding the result is within 2 ulp.
MINILM_INLINE minilm_vec_t minilm_exp2(minilm_vec_t x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer and leaves that integer in the low mantissa bits
  minilm_vec_t shifted = x + magic;
  minilm_vec_t f = x - (shifted - magic);
  minilm_vec_t p = f * 1.5353362e-4f + 1.3398875e-3f;
  p = p * f + 9.6184369e-3f;
  p = p * f + 5.5503324e-2f;
  p = p * f + 2.4022648e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  minilm_ivec_t exponent = (minilm_ivec_t)shifted << 23;  // the magic's own bits leave at the top
  return (minilm_vec_t)((minilm_ivec_t)p + exponent);
}

#define MINILM_LOG2E 1.44269504088896341f

// x * Phi(x), the exact GELU. With t = |x| / sqrt(2): erf(t) = 1 - 2^(-t R(t)), R a polynomial on [0, 4] fitted to -log2(erfc(t)) / t with
// the weight that makes the error of erf minimax: 1.6e-8 in exact arithmetic, below 6.2e-8 as evaluated (half an ulp of 1 is 6e-8). gelu =
// max(x, 0) - |x| / 2 * erfc(t): no cancellation on either side.
MINILM_INLINE minilm_vec_t minilm_gelu(minilm_vec_t x) {
  minilm_vec_t magnitude = (minilm_vec_t)((minilm_ivec_t)x & 0x7fffffff);
  minilm_vec_t half = magnitude * 0.5f;
  minilm_vec_t t = minilm_min(minilm_splat(4.0f), magnitude * 0.70710678118654752f);
  minilm_vec_t r = t * 4.5358604e-5f + -4.4550770e-4f;
  r = r * t + 1.4894420e-3f;
  r = r * t + 7.7462912e-4f;
  r = r * t + -2.8253680e-2f;
  r = r * t + 1.4848161e-1f;
  r = r * t + 9.1841638e-1f;
  r = r * t + 1.6279086f;
  minilm_vec_t tail = minilm_exp2(-(t * r));  // erfc(t)
  return (0.5f * x + half) - half * tail;
}

// 1 / sqrt(x) for x > 0: a bit estimate and four Newton steps (3e-2, 2e-3, 5e-6, 4e-11, then rounding only).
MINILM_INLINE minilm_vec_t minilm_rsqrt(minilm_vec_t x) {
  minilm_vec_t y = (minilm_vec_t)(0x5f3759df - ((minilm_ivec_t)x >> 1));
  for (int i = 0; i < 4; ++i) y = y * (1.5f - 0.5f * x * y * y);
  return y;
}

#endif  // MINILM_KERNELS_SIMD_H_
