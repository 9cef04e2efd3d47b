// SPDX-License-Identifier: Apache-2.0
#include "shim.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "slipstream/dtype.h"

slip__torch_shim_t slip__torch_shim;

// The library that is already loaded; never one of our choosing.
static void *slip__torch_find(const char *path) {
  return path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

const char *slip__torch_shim_load(const char *cpu, const char *c10, const char *cuda) {
  slip__torch_shim_t shim = {0};
  if (slip__torch_shim.aoti_torch_abi_version) return NULL;
  void *libraries[3] = {slip__torch_find(cpu), slip__torch_find(cuda), slip__torch_find(c10)};
  if (!libraries[0]) return "libtorch_cpu";

  // A function pointer is read through memory: ISO C has no cast from void *.
  void *found = NULL;
#define SLIP_TORCH_BIND(result, name, parameters)                                                 \
  found = NULL;                                                                                   \
  for (int i = 0; i < 3 && !found; ++i) found = libraries[i] ? dlsym(libraries[i], #name) : NULL; \
  memcpy(&shim.name, &found, sizeof(found));
#define SLIP_TORCH_REQUIRE(result, name, parameters) \
  SLIP_TORCH_BIND(result, name, parameters)          \
  if (!found) return #name;
  SLIP_TORCH_REQUIRED(SLIP_TORCH_REQUIRE)
  SLIP_TORCH_OPTIONAL(SLIP_TORCH_BIND)
#undef SLIP_TORCH_REQUIRE
#undef SLIP_TORCH_BIND

  // A dtype that this PyTorch has no name for simply never matches.
  int32_t (*number)(void) = NULL;
#define SLIP_TORCH_DTYPE(slip, torch)                                                         \
  found = dlsym(libraries[0], "aoti_torch_dtype_" #torch);                                    \
  memcpy(&number, &found, sizeof(found));                                                     \
  if (found) {                                                                                \
    const int32_t value = number();                                                           \
    if (value >= 0 && value < SLIP_TORCH_DTYPE_COUNT) shim.dtypes[value] = SLIP_DTYPE_##slip; \
  }
  SLIP_TORCH_DTYPES(SLIP_TORCH_DTYPE)
#undef SLIP_TORCH_DTYPE

  shim.blank = (slip_tensor_t){.struct_size = (uint32_t)sizeof(slip_tensor_t), .format = SLIP_FORMAT_ND};
  shim.strided = shim.aoti_torch_layout_strided();
  shim.cpu = shim.aoti_torch_device_type_cpu();
  shim.cuda = shim.aoti_torch_device_type_cuda();
  shim.meta = shim.aoti_torch_device_type_meta();
  shim.privateuse1 = shim.aoti_torch_device_type_privateuse1();
  slip__torch_shim = shim;
  return NULL;
}

bool slip__torch_shim_fits(void) {
  const uint64_t version = slip__torch_shim.aoti_torch_abi_version ? slip__torch_shim.aoti_torch_abi_version() : 0;
  const uint64_t major = version >> 56, minor = version >> 48 & 255;
  return major == 2 && minor >= 9;
}
