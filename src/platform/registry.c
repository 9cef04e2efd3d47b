// SPDX-License-Identifier: Apache-2.0
#include "platform/registry.h"

#include <stdio.h>
#include <string.h>

#include "platform/dispatch.h"

// "cpu" first: it is the default everywhere.
static slip_platform_t slip__registry_platforms[] = {
    {.vtable = &slip__cpu_platform},
    {.vtable = &slip__sim_platform},
    {.vtable = &slip__null_platform},
};

#define SLIP__REGISTRY_COUNT (sizeof(slip__registry_platforms) / sizeof(slip__registry_platforms[0]))

const char *slip_platform_name_at(size_t index) {
  return index < SLIP__REGISTRY_COUNT ? slip__registry_platforms[index].vtable->name : NULL;
}

slip_status_t slip_platform_find(const char *name, slip_platform_t **out) {
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_platform_find needs somewhere to put the platform");
  *out = NULL;
  if (!name) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_platform_find needs a name, such as \"%s\"", slip_platform_name_at(0));
  for (size_t i = 0; i < SLIP__REGISTRY_COUNT; ++i) {
    slip_platform_t *platform = &slip__registry_platforms[i];
    if (strcmp(platform->vtable->name, name) != 0) continue;
    SLIP_RETURN_IF_ERROR(slip__platform_load(platform));
    *out = platform;
    return slip_ok_status();
  }
  char names[128] = "";
  size_t used = 0;
  for (size_t i = 0; i < SLIP__REGISTRY_COUNT && used < sizeof(names); ++i) {
    used += (size_t)snprintf(names + used, sizeof(names) - used, "%s\"%s\"", i ? ", " : "", slip_platform_name_at(i));
  }
  return SLIP_STATUS(SLIP_CODE_NOT_FOUND, "this build has no platform \"%s\"; it has %s", name, names);
}
