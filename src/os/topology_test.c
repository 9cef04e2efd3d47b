// SPDX-License-Identifier: Apache-2.0
#include "os/topology.h"

#include "os/file.h"
#include "os/thread.h"
#include "slip_test.h"

SLIP_TEST(topology_counts_cores_of_the_affinity_mask) {
  uint32_t cores[4096];
  uint32_t count = slip__topology_core_list(cores, 4096);
  SLIP_CHECK(count >= 1);
  for (uint32_t i = 1; i < count; ++i) SLIP_CHECK(cores[i - 1] < cores[i]);
  uint32_t usable = slip__topology_usable_cores();
  SLIP_CHECK(usable >= 1 && usable <= count);
  uint32_t last = cores[count - 1];
  SLIP_CHECK(slip__thread_bind_self(last));
  SLIP_CHECK_EQ(slip__topology_usable_cores(), 1);
  SLIP_CHECK_EQ(slip__topology_core_list(cores, 8), 1);
  SLIP_CHECK_EQ(cores[0], last);
  SLIP_CHECK(!slip__thread_bind_self(100000));
  SLIP_CHECK(slip__topology_memory_bytes() > 1u << 20);
}

static void topology_write(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", slip_test_temporary_directory(), name);
  SLIP_CHECK_OK(slip__directory_remove_all(path));
  for (char *slash = strchr(path + strlen(slip_test_temporary_directory()) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    SLIP_CHECK_OK(slip__directory_make_all(path, 0700));
    *slash = '/';
  }
  SLIP_CHECK_OK(slip__file_write(path, (slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, 0600, false));
}

static uint32_t topology_cores(void) {
  char process[512], mount[512];
  snprintf(process, sizeof(process), "%s/cgroup", slip_test_temporary_directory());
  snprintf(mount, sizeof(mount), "%s/mount", slip_test_temporary_directory());
  return slip__topology_cgroup_cores(process, mount);
}

SLIP_TEST(topology_reads_cgroup_v2_up_to_the_root) {
  SLIP_CHECK_EQ(topology_cores(), 0);
  topology_write("cgroup", "0::/a/b\n");
  SLIP_CHECK_EQ(topology_cores(), 0);
  topology_write("mount/a/b/cpu.max", "max 100000\n");
  SLIP_CHECK_EQ(topology_cores(), 0);
  topology_write("mount/a/cpu.max", "250000 100000\n");
  SLIP_CHECK_EQ(topology_cores(), 3);
  topology_write("mount/cpu.max", "50000 100000\n");
  SLIP_CHECK_EQ(topology_cores(), 1);
  topology_write("cgroup", "0::/not/there\n");
  SLIP_CHECK_EQ(topology_cores(), 1);
  topology_write("mount/cpu.max", "nonsense\n");
  SLIP_CHECK_EQ(topology_cores(), 0);
}

SLIP_TEST(topology_reads_cgroup_v1) {
  topology_write("cgroup", "5:cpuset:/x\n3:cpu,cpuacct:/job\n1:name=systemd:/\n");
  topology_write("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  topology_write("mount/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  SLIP_CHECK_EQ(topology_cores(), 0);
  topology_write("mount/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  topology_write("mount/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  SLIP_CHECK_EQ(topology_cores(), 4);
  topology_write("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  SLIP_CHECK_EQ(topology_cores(), 2);
}

static void topology_check_spread(uint32_t caller, const uint32_t *cores, const uint32_t *expected, uint32_t count) {
  char system[512];
  uint32_t order[16];
  snprintf(system, sizeof(system), "%s/cpu", slip_test_temporary_directory());
  memcpy(order, cores, count * sizeof(*cores));
  slip__topology_spread(system, caller, order, count);
  for (uint32_t i = 0; i < count; ++i) SLIP_CHECK_EQ(order[i], expected[i]);
}

SLIP_TEST(topology_spreads_over_physical_cores_before_hyperthreads) {
  const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
  // Without files every core is one of its own; the caller's comes last.
  topology_check_spread(2, all, (const uint32_t[]){3, 4, 5, 6, 7, 0, 1, 2}, 8);
  // Cores 0 and 4, 1 and 5, ... share; the kernel writes lists and ranges.
  for (int i = 0; i < 8; ++i) {
    char name[64], list[16];
    snprintf(name, sizeof(name), "cpu/cpu%d/topology/thread_siblings_list", i);
    snprintf(list, sizeof(list), "%d,%d\n", i % 4, i % 4 + 4);
    topology_write(name, list);
  }
  topology_check_spread(0, all, (const uint32_t[]){1, 2, 3, 4, 5, 6, 7, 0}, 8);
  topology_check_spread(5, all, (const uint32_t[]){6, 7, 0, 1, 2, 3, 4, 5}, 8);
  // A mask that has both of some cores and one of others; the caller may have left it meanwhile.
  topology_check_spread(1, (const uint32_t[]){0, 1, 2, 4, 5}, (const uint32_t[]){2, 4, 5, 0, 1}, 5);
  topology_check_spread(9, (const uint32_t[]){0, 4, 6}, (const uint32_t[]){0, 6, 4}, 3);
  topology_write("cpu/cpu0/topology/thread_siblings_list", "0-1,6-7\n");
  topology_write("cpu/cpu1/topology/thread_siblings_list", "0-1,6-7\n");
  topology_check_spread(3, (const uint32_t[]){0, 1, 2, 3}, (const uint32_t[]){0, 2, 1, 3}, 4);
  SLIP_CHECK(slip__topology_current_core() < 1u << 20);
}

SLIP_TEST(cpu_targets_are_ordered_and_nested) {
  size_t count = slip__cpu_target_count();
  SLIP_CHECK(count >= 1);
  const char *best = slip__cpu_target_best();
  bool after_best = false;
  for (size_t i = 0; i < count; ++i) {
    const char *target = slip__cpu_target_at(i);
    SLIP_CHECK_EQ(slip__cpu_target_supported(target), !after_best);
    if (!strcmp(target, best)) after_best = true;
  }
  SLIP_CHECK(after_best);
  SLIP_CHECK(slip__cpu_target_at(count) == NULL);
  SLIP_CHECK(!slip__cpu_target_supported("x86-64-v9"));
  SLIP_CHECK(!slip__cpu_target_supported(""));
}

SLIP_TEST(cpu_name_is_text) {
  char name[64] = "", small[4];
  slip__cpu_name(name, sizeof(name));
  SLIP_CHECK(strlen(name) > 2);
  slip__cpu_name(small, sizeof(small));
  SLIP_CHECK_EQ(strlen(small), 3);
}
