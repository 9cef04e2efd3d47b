// SPDX-License-Identifier: Apache-2.0
// The C++ wrapper of the installed package.
#include <slipstream/slipstream.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  std::vector<float> x(100, 2.0f), y(100, 1.0f);
  slipstream::Artifact artifact(argv[1]);
  slipstream::Context context;
  int32_t id = context.prepare(artifact);
  slip_tensor_t tx = slipstream::tensor(SLIP_DTYPE_F32, {100}, x.data()), ty = slipstream::tensor(SLIP_DTYPE_F32, {100}, y.data());
  slipstream::Frame frame(artifact.params(), "axpy", slip_device_cpu(),
                          {slip_arg_tensor(&tx, nullptr), slip_arg_tensor(&ty, nullptr), slip_arg_scalar(slip_scalar_f32(3.0f))});
  slipstream::Ticket ticket = context.launch_with_ticket(id, frame, SLIP_STREAM_INLINE);
  ticket.wait();
  if (!ticket.done() || y[99] != 7.0f) return 1;
  try {
    context.launch(id + 1000, frame, SLIP_STREAM_INLINE);
    return 1;
  } catch (const slipstream::Error &error) {
    if (error.code() != SLIP_CODE_NOT_PREPARED) return 1;
  }
  try {
    slipstream::Artifact missing("no/such/artifact");
    return 1;
  } catch (const slipstream::Error &error) {
    std::printf("%s\n", error.what());
    if (error.code() != SLIP_CODE_NOT_FOUND) return 1;
  }
  ticket = slipstream::Ticket();
  context.close();
  return 0;
}
