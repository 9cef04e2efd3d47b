// SPDX-License-Identifier: Apache-2.0
// Program mode through the C++ wrapper of the installed package, on the cpu and on the simulator.
#include <slipstream/slipstream.hpp>

#include <cstdio>
#include <vector>

// y += a x, with everything that a Worker offers. The artifact is axpy's under the program contract.
static bool works(const char *platform, const slipstream::Artifact &artifact) {
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  options.platform = platform;
  std::vector<float> x(100, 2.0f), y(100, 1.0f), back(100);
  const uint64_t size = 100 * sizeof(float);
  slipstream::Worker worker(&options);
  worker.open();
  int32_t axpy = worker.add(artifact);
  if (worker.add(artifact) != axpy || slip_signature_param_count(worker.signature(axpy).get()) != 3) return false;
  slip_tensor_t tx = slipstream::tensor(SLIP_DTYPE_F32, {100}, x.data()), ty = slipstream::tensor(SLIP_DTYPE_F32, {100}, y.data());
  slip_tensor_t resident = worker.tensor(SLIP_DTYPE_F32, {100}, SLIP_WORKER_TENSOR_ZERO);
  worker.write(resident, x.data(), size);
  slip_arg_t a = slip_arg_scalar(slip_scalar_f32(3.0f));
  worker.run(axpy, {slip_arg_tensor(&tx, nullptr), slip_arg_tensor(&ty, nullptr), a});
  if (y[99] != 7.0f) return false;
  slipstream::Run first = worker.submit(axpy, {slip_arg_tensor(&ty, nullptr), slip_arg_tensor(&resident, nullptr), a});
  slipstream::Run run = worker.submit(axpy, {slip_arg_tensor(&resident, nullptr), slip_arg_tensor(&ty, nullptr), a});
  run.wait();
  if (!first.done() || run.result_count() != 1 || run.result().data != y.data() || y[0] != 76.0f) return false;
  worker.read(resident, back.data(), size);
  if (back[50] != 23.0f) return false;
  worker.release(resident);
  worker.remove(axpy);
  worker.remove(axpy);
  try {
    worker.remove(axpy);
    return false;
  } catch (const slipstream::Error &error) {
    if (error.code() != SLIP_CODE_NOT_PREPARED) return false;
  }
  worker.close();
  worker.close();  // empty by now: nothing to do
  return worker.get() == nullptr && run.done();
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  slipstream::Artifact artifact(argv[1]);
  try {
    return works("cpu", artifact) && works("sim", artifact) ? 0 : 1;
  } catch (const slipstream::Error &error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
