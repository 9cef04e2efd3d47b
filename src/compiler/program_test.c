// SPDX-License-Identifier: Apache-2.0
#include "compiler/program_test.h"

#include "os/file.h"
#include "slip_test.h"

static const char program_manifest[] =
    "{\"slip\": 1, \"name\": \"t\", \"entry\": {\"name\": \"t\", \"symbol\": \"t_run\", \"signature\": \"(in x: f32[N], out y: "
    "f32[N])\"},\n"
    "\"kernels\": [{\"name\": \"k\", \"symbol\": \"k_run\", \"signature\": \"(in x: f32[N], out y: f32[N])\"}],\n"
    "\"sources\": [\"src/a.c\", \"src/k.c\"], \"include_dirs\": [\"inc\"], \"defines\": {\"FACTOR\": \"2.0f\"}}\n";
static const char orchestration[] =
    "#include \"slip_program.h\"\n"
    "void t_run(slip_orch_t *o, const slip_oargs_t *args) {\n"
    "  slip_task_builder_t task;\n"
    "  slip_task_begin(&task, SLIP_KERNEL_k, 1);\n"
    "  slip_task_in(&task, &args->tensors[0]);\n"
    "  slip_task_out_existing(&task, &args->tensors[1]);\n"
    "  slip_task_submit(o, &task);\n"
    "}\n";
const char test_program_kernel[] =
    "#include \"slip_program.h\"\n"
    "#include \"scale.h\"\n"
    "struct big { char bytes[4096]; };\n"
    "void k_run(const slip_kargs_t *a, slip_block_t b) {\n"
    "  (void)b;\n"
    "  for (int64_t i = 0; i < a->tensors[0].dims[0]; ++i) ((float *)a->tensors[1].data)[i] = scale(((float *)a->tensors[0].data)[i]);\n"
    "}\n";
const char test_program_header[] = "static inline float scale(float x) { return x * FACTOR; }\n";

void test_program_write(const char *directory, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  SLIP_CHECK_OK(slip__file_write(path, (slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, 0600, false));
}

// The program in a fresh directory called |name|, with |kernel_text| as its kernel.
const char *test_program_make(const char *name, const char *kernel_text) {
  static char paths[8][512];
  static int next;
  char *directory = paths[next++ % 8], path[600];
  snprintf(directory, sizeof(paths[0]), "%s/%s", slip_test_temporary_directory(), name);
  snprintf(path, sizeof(path), "%s/src", directory);
  SLIP_CHECK_OK(slip__directory_make_all(path, 0700));
  snprintf(path, sizeof(path), "%s/inc", directory);
  SLIP_CHECK_OK(slip__directory_make_all(path, 0700));
  test_program_write(directory, "m.json", program_manifest);
  test_program_write(directory, "src/a.c", orchestration);
  test_program_write(directory, "src/k.c", kernel_text);
  test_program_write(directory, "inc/scale.h", test_program_header);
  return directory;
}
