// SPDX-License-Identifier: Apache-2.0
// How many cores this process may use, and which instruction set they have.
#ifndef SLIPSTREAM_SRC_OS_TOPOLOGY_H_
#define SLIPSTREAM_SRC_OS_TOPOLOGY_H_

#include "slipstream/status.h"

// Cores that the affinity mask of the calling thread and the cgroup's cpu limit (v2 and v1, rounded up) allow; at least 1. Reads files:
// call at open, not at launch.
uint32_t slip__topology_usable_cores(void);
// The numbers of the cores in the affinity mask, ascending, at most |capacity|; returns how many were written. A cgroup limit does not say
// which cores: it is not applied here.
uint32_t slip__topology_core_list(uint32_t *out_cores, uint32_t capacity);
// Sorts |cores| into the order in which threads should be given one each, when the caller's own thread runs on |caller|: physical cores
// that nobody has yet come first, then their hyperthreads; |caller| comes last. Within that, ascending from |caller| on, so that several
// callers do not all begin at the same core. |system| is "/sys/devices/system/cpu", or a copy of it in a test; what it does not tell counts
// as a core of its own. Reads a file a core. Beyond SLIP__TOPOLOGY_SPREAD_MAX cores the order stays.
#define SLIP__TOPOLOGY_SPREAD_MAX 1024
void slip__topology_spread(const char *system, uint32_t caller, uint32_t *cores, uint32_t count);
// Where the calling thread runs at this moment.
uint32_t slip__topology_current_core(void);
// Cores that the cgroup limits allow (rounded up), 0 for no limit: |process_file| is "/proc/self/cgroup", |mount| "/sys/fs/cgroup", or
// copies of them in a test.
uint32_t slip__topology_cgroup_cores(const char *process_file, const char *mount);
// Physical memory in bytes; 0 if unknown.
uint64_t slip__topology_memory_bytes(void);
// The processor's name for people ("AMD EPYC 9654 96-Core Processor"); always terminated.
void slip__cpu_name(char *buffer, size_t capacity);

// CPU targets of this architecture, from the most general to the most special: "x86-64-v2" "x86-64-v3" "x86-64-v4", or "aarch64".
size_t slip__cpu_target_count(void);
// NULL past the end.
const char *slip__cpu_target_at(size_t index);
// True if this machine runs code compiled for |target|.
bool slip__cpu_target_supported(const char *target);
// The most special target that this machine runs; "" if it runs none (an x86-64 older than v2).
const char *slip__cpu_target_best(void);

#endif  // SLIPSTREAM_SRC_OS_TOPOLOGY_H_
