// SPDX-License-Identifier: Apache-2.0
// The named tuples of the interface, as struct sequences.
#include "pyslip.h"

static PyStructSequence_Field pyslip_param_fields[] = {
    {"name", "as in the signature"},
    {"direction", "'in', 'out', 'inout' or 'scalar'"},
    {"dtype", "'f32' and so on"},
    {"shape", "ints; a str is a named dynamic dimension, None an anonymous one. None: a scalar"},
    {"layout", "'nd' or 'nz'; None: a scalar"},
    {NULL, NULL}};
static PyStructSequence_Desc pyslip_param_desc = {"slipstream.Param", "One parameter of a signature.", pyslip_param_fields, 5};

static PyStructSequence_Field pyslip_kernel_fields[] = {{"name", "of the kernel"},
                                                        {"core", "number of the core kind it runs on"},
                                                        {"tensors", "number of tensors it takes"},
                                                        {"scalars", "number of scalars it takes"},
                                                        {"scratch_bytes", "of each core's scratch memory"},
                                                        {NULL, NULL}};
static PyStructSequence_Desc pyslip_kernel_desc = {"slipstream.KernelInfo", "One kernel of an artifact's image.", pyslip_kernel_fields, 5};

static PyStructSequence_Field pyslip_stats_fields[] = {{"callables", "prepared and not closed"},
                                                       {"resident_bytes", "of their images"},
                                                       {"launches", "admitted"},
                                                       {"refused", "refused before they were enqueued"},
                                                       {"retired", "finished, everything given back"},
                                                       {"faulted", "retired with a failure"},
                                                       {"pending", "admitted, not retired"},
                                                       {"tasks", "executed by the task-graph engine"},
                                                       {"workspace_bytes", "committed"},
                                                       {"workers", "threads, the launching one included"},
                                                       {"captured", "launches in graphs that are alive"},
                                                       {"recordings", "task graphs recorded to be replayed by launches that come again"},
                                                       {"recordings_refused", "of them, those that are never replayed"},
                                                       {"replays", "launches or named graphs that were replayed"},
                                                       {NULL, NULL}};
static PyStructSequence_Desc pyslip_stats_desc = {"slipstream.Stats", "Counters of a context.", pyslip_stats_fields, 14};

static PyStructSequence_Field pyslip_worker_stats_fields[] = {
    {"callables", "registered and not closed"},
    {"resident_bytes", "of their images"},
    {"memory_bytes", "of device memory held: tensors, outputs and copies of runs"},
    {"memory_peak_bytes", "the most that was held at a time"},
    {"allocations", "of device memory, alive"},
    {"runs", "accepted"},
    {"refused", "refused before they were accepted"},
    {"completed", "done, failed ones included"},
    {"failed", "done with a failure"},
    {"tasks", "executed by the task-graph engine"},
    {"uploaded_bytes", "from host tensors of runs to the device"},
    {"downloaded_bytes", "from the device to host tensors of runs"},
    {"workspace_bytes", "committed"},
    {"threads", "of the engine, the one that starts a run included"},
    {NULL, NULL}};
static PyStructSequence_Desc pyslip_worker_stats_desc = {"slipstream.WorkerStats", "Counters of a worker.", pyslip_worker_stats_fields, 14};

static PyStructSequence_Field pyslip_platform_fields[] = {{"platform", "'cpu' and so on"},
                                                          {"device", "ordinal"},
                                                          {"name", "of the device"},
                                                          {"target", "best target it runs"},
                                                          {"memory_bytes", "of the device"},
                                                          {"cores", "that this process may use"},
                                                          {"capture", "whether streams can be captured"},
                                                          {NULL, NULL}};
static PyStructSequence_Desc pyslip_platform_desc = {"slipstream.PlatformInfo", "What a device is.", pyslip_platform_fields, 7};

static PyStructSequence_Field pyslip_diagnostic_fields[] = {{"severity", "'error', 'warning' or 'note'"},
                                                            {"file", "'' if none"},
                                                            {"line", "from 1; 0: unknown"},
                                                            {"column", "from 1; 0: unknown"},
                                                            {"code", "stable short name"},
                                                            {"message", "what is wrong"},
                                                            {"hint", "remedy; '' if none"},
                                                            {NULL, NULL}};
static PyStructSequence_Desc pyslip_diagnostic_desc = {"slipstream.Diagnostic", "One finding of the compiler.", pyslip_diagnostic_fields,
                                                       7};

int pyslip_sequences_init(pyslip_state_t *state) {
  const struct {
    PyTypeObject **type;
    PyStructSequence_Desc *desc;
    const char *name;
  } table[] = {{&state->param, &pyslip_param_desc, "Param"},
               {&state->kernel_info, &pyslip_kernel_desc, "KernelInfo"},
               {&state->stats, &pyslip_stats_desc, "Stats"},
               {&state->worker_stats, &pyslip_worker_stats_desc, "WorkerStats"},
               {&state->platform_info, &pyslip_platform_desc, "PlatformInfo"},
               {&state->diagnostic, &pyslip_diagnostic_desc, "Diagnostic"}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
    *table[i].type = PyStructSequence_NewType(table[i].desc);
    if (!*table[i].type || PyModule_AddObjectRef(state->module, table[i].name, (PyObject *)*table[i].type) < 0) return -1;
  }
  return 0;
}
