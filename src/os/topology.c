// SPDX-License-Identifier: Apache-2.0
#include "os/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// The affinity mask of the calling thread, to be freed with CPU_FREE; NULL if it cannot be had. The kernel refuses (EINVAL) a set smaller
// than its own.
static cpu_set_t *slip__topology_affinity(size_t *out_cpus, size_t *out_size) {
  for (size_t cpus = 1024; cpus <= 1u << 20; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (!set) return NULL;
    size_t size = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(size, set);
    if (sched_getaffinity(0, size, set) == 0) {
      *out_cpus = cpus;
      *out_size = size;
      return set;
    }
    int error = errno;
    CPU_FREE(set);
    if (error != EINVAL) return NULL;
  }
  return NULL;
}

// Reads two numbers, "max" and "-1" counting as none. Returns how many were there.
static int slip__topology_read_numbers(const char *path, long long *first, long long *second) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  int count = fscanf(file, "%lld %lld", first, second);
  (void)fclose(file);
  return count < 0 ? 0 : count;
}

// Quota over period, rounded up; 0 for no limit.
static uint32_t slip__topology_quota_cores(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  long long cores = quota / period + (quota % period != 0);
  return cores > UINT32_MAX ? UINT32_MAX : (uint32_t)cores;
}

// The smaller limit of two, 0 being none.
static uint32_t slip__topology_tighter(uint32_t a, uint32_t b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

// The tightest limit from "<mount>/<controller>/<path>" up to "<mount>/<controller>". A path that is not there (a container sees the host's
// path) counts as unlimited.
static uint32_t slip__topology_walk(const char *mount, const char *controller, const char *group, bool v2) {
  char directory[PATH_MAX];
  int length = snprintf(directory, sizeof(directory), "%s%s%s%s", mount, *controller ? "/" : "", controller, group);
  if (length < 0 || (size_t)length >= sizeof(directory)) return 0;
  size_t root = strlen(mount) + (*controller ? 1 + strlen(controller) : 0);
  uint32_t cores = 0;
  for (;;) {
    char path[PATH_MAX + 32];
    long long quota = 0, period = 0;
    if (v2) {
      (void)snprintf(path, sizeof(path), "%s/cpu.max", directory);
      if (slip__topology_read_numbers(path, &quota, &period) == 2)
        cores = slip__topology_tighter(cores, slip__topology_quota_cores(quota, period));
    } else {
      long long unused;
      (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
      if (slip__topology_read_numbers(path, &quota, &unused) < 1) quota = 0;
      (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
      if (slip__topology_read_numbers(path, &period, &unused) < 1) period = 0;
      cores = slip__topology_tighter(cores, slip__topology_quota_cores(quota, period));
    }
    char *slash = strrchr(directory, '/');
    if (!slash || strlen(directory) <= root) return cores;
    *slash = '\0';
    if (strlen(directory) < root) return cores;
  }
}

// True if |name| is one of the comma-separated |list|.
static bool slip__topology_lists(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

uint32_t slip__topology_cgroup_cores(const char *process_file, const char *mount) {
  FILE *file = fopen(process_file, "re");
  if (!file) return 0;
  uint32_t cores = 0;
  char line[PATH_MAX];
  while (fgets(line, sizeof(line), file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *controllers++ = '\0';
    *group++ = '\0';
    if (!strcmp(line, "0") && *controllers == '\0') {
      cores = slip__topology_tighter(cores, slip__topology_walk(mount, "", group, true));
      cores = slip__topology_tighter(cores, slip__topology_walk(mount, "unified", group, true));
    } else if (slip__topology_lists(controllers, "cpu")) {
      uint32_t limit = slip__topology_walk(mount, controllers, group, false);
      if (limit == 0) limit = slip__topology_walk(mount, "cpu", group, false);
      cores = slip__topology_tighter(cores, limit);
    }
  }
  (void)fclose(file);
  return cores;
}

uint32_t slip__topology_usable_cores(void) {
  size_t cpus = 0, size = 0;
  uint32_t cores = 0;
  cpu_set_t *set = slip__topology_affinity(&cpus, &size);
  if (set) {
    cores = (uint32_t)CPU_COUNT_S(size, set);
    CPU_FREE(set);
  } else {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cores = online > 0 ? (uint32_t)online : 1;
  }
  cores = slip__topology_tighter(cores, slip__topology_cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
  return cores ? cores : 1;
}

uint32_t slip__topology_core_list(uint32_t *out_cores, uint32_t capacity) {
  size_t cpus = 0, size = 0;
  cpu_set_t *set = slip__topology_affinity(&cpus, &size);
  if (!set) return 0;
  uint32_t count = 0;
  for (size_t cpu = 0; cpu < cpus && count < capacity; ++cpu) {
    if (CPU_ISSET_S(cpu, size, set)) out_cores[count++] = (uint32_t)cpu;
  }
  CPU_FREE(set);
  return count;
}

uint32_t slip__topology_current_core(void) {
  int core = sched_getcpu();
  return core < 0 ? 0 : (uint32_t)core;
}

// True if the kernel's list, as "0-1,64,66-67", has |core|.
static bool slip__topology_list_has(const char *list, uint32_t core) {
  for (const char *at = list; *at;) {
    char *end;
    unsigned long first = strtoul(at, &end, 10), last = first;
    if (end == at) return false;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    if (core >= first && core <= last) return true;
    at = *end == ',' ? end + 1 : "";
  }
  return false;
}

// Reads the hyperthreads of |core|'s physical core. False if the system does not tell.
static bool slip__topology_siblings(const char *system, uint32_t core, char *list, int capacity) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof(path), "%s/cpu%" PRIu32 "/topology/thread_siblings_list", system, core);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool read = fgets(list, capacity, file) != NULL;
  (void)fclose(file);
  return read;
}

void slip__topology_spread(const char *system, uint32_t caller, uint32_t *cores, uint32_t count) {
  uint32_t turns[SLIP__TOPOLOGY_SPREAD_MAX];  // how many of a core's physical core come before it
  char list[1024];
  if (count > SLIP__TOPOLOGY_SPREAD_MAX) count = SLIP__TOPOLOGY_SPREAD_MAX;
  for (uint32_t i = 0; i < count; ++i) {
    bool told = slip__topology_siblings(system, cores[i], list, sizeof(list));
    turns[i] = cores[i] == caller ? UINT32_MAX : 0;
    for (uint32_t k = 0; told && k < count && cores[i] != caller; ++k) {
      if (cores[k] - caller < cores[i] - caller && slip__topology_list_has(list, cores[k])) ++turns[i];
    }
  }
  for (uint32_t i = 1; i < count; ++i) {
    uint32_t core = cores[i], turn = turns[i], at = i;
    for (; at > 0 && (turns[at - 1] > turn || (turns[at - 1] == turn && cores[at - 1] - caller > core - caller)); --at) {
      cores[at] = cores[at - 1];
      turns[at] = turns[at - 1];
    }
    cores[at] = core;
    turns[at] = turn;
  }
}

uint64_t slip__topology_memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

#if defined(__x86_64__)
static const char *const slip__cpu_targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

// The levels of the x86-64 psABI. Where gcc and clang both know a feature's name __builtin_cpu_supports answers (it also asks whether the
// system saves the registers); the others are read from their cpuid bits.
static bool slip__cpu_runs_level(size_t level) {
  unsigned a, b, c, d, ext_a, ext_b, ext_c, ext_d;
  __builtin_cpu_init();
  if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid(0x80000001u, &ext_a, &ext_b, &ext_c, &ext_d)) return false;
  bool cx16 = c & (1u << 13), movbe = c & (1u << 22), osxsave = c & (1u << 27), f16c = c & (1u << 29);
  bool lahf = ext_c & 1u, lzcnt = ext_c & (1u << 5);
  bool runs = cx16 && lahf && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") &&
              __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2");
  if (level >= 1) {
    runs = runs && movbe && osxsave && f16c && lzcnt && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  }
  if (level >= 2) {
    runs = runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return runs;
}

void slip__cpu_name(char *buffer, size_t capacity) {
  unsigned words[13] = {0};
  unsigned highest = (unsigned)__get_cpuid_max(0x80000000u, NULL);  // clang returns int
  for (unsigned leaf = 0; leaf < 3 && highest >= 0x80000004u; ++leaf) {
    unsigned *at = words + 4 * leaf;
    (void)__get_cpuid(0x80000002u + leaf, at, at + 1, at + 2, at + 3);
  }
  const char *name = (const char *)words;
  while (*name == ' ') ++name;
  (void)snprintf(buffer, capacity, "%s", *name ? name : "x86-64");
}
#elif defined(__aarch64__)
void slip__cpu_name(char *buffer, size_t capacity) {
  (void)snprintf(buffer, capacity, "aarch64");
}

static const char *const slip__cpu_targets[] = {"aarch64"};
static bool slip__cpu_runs_level(size_t level) {
  return level == 0;
}
#else
#error "this architecture has no CPU targets yet: name them here"
#endif

size_t slip__cpu_target_count(void) {
  return sizeof(slip__cpu_targets) / sizeof(slip__cpu_targets[0]);
}

const char *slip__cpu_target_at(size_t index) {
  return index < slip__cpu_target_count() ? slip__cpu_targets[index] : NULL;
}

bool slip__cpu_target_supported(const char *target) {
  for (size_t i = 0; i < slip__cpu_target_count(); ++i) {
    if (!strcmp(slip__cpu_targets[i], target)) return slip__cpu_runs_level(i);
  }
  return false;
}

const char *slip__cpu_target_best(void) {
  for (size_t i = slip__cpu_target_count(); i-- > 0;) {
    if (slip__cpu_runs_level(i)) return slip__cpu_targets[i];
  }
  return "";
}
