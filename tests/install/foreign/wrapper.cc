// SPDX-License-Identifier: Apache-2.0
// The C++ wrapper of the installed package.
#include <slipstream/slipstream.hpp>

#include <cstdio>
#include <utility>
#include <vector>

// y += 3x, twice a replay; then once with other numbers.
static bool replays(slipstream::Context &context, slipstream::Stream &stream, int32_t id) {
  std::vector<float> x(10, 1.0f), y(10, 0.0f);
  slipstream::Signature signature = context.signature(id);
  slip_tensor_t tx = slipstream::tensor(SLIP_DTYPE_F32, {10}, x.data()), ty = slipstream::tensor(SLIP_DTYPE_F32, {10}, y.data());
  auto frame = [&](float a) {
    return slipstream::Frame(signature.get(), "axpy", slip_device_cpu(),
                             {slip_arg_tensor(&tx, nullptr), slip_arg_tensor(&ty, nullptr), slip_arg_scalar(slip_scalar_f32(a))});
  };
  slipstream::Graph graph(context);
  if (graph.add(id, frame(3.0f)) != 0 || graph.add(id, frame(3.0f)) != 1 || graph.node_count() != 2) return false;
  graph.launch(SLIP_STREAM_INLINE);
  if (y[9] != 6.0f) return false;
  graph.launch(stream.get());
  slipstream::Graph moved(std::move(graph));
  moved.bind(1, frame(100.0f));
  slipstream::Ticket ticket = moved.launch_with_ticket(stream.get());
  ticket.wait();
  stream.synchronize();
  if (y[9] != 115.0f || !ticket.done() || !stream.done() || graph || !moved) return false;
  try {
    moved.add(id, frame(1.0f));
    return false;
  } catch (const slipstream::Error &error) {
    return error.code() == SLIP_CODE_INVALID_STATE;
  }
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  std::vector<float> x(100, 2.0f), y(100, 1.0f);
  slipstream::Artifact artifact(argv[1]);
  slipstream::Stream spare, stream(std::move(spare));
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
  if (!replays(context, stream, id)) return 1;
  try {
    slipstream::Stream nowhere("no-such-platform");
    return 1;
  } catch (const slipstream::Error &error) {
    if (error.code() != SLIP_CODE_NOT_FOUND) return 1;
  }
  ticket = slipstream::Ticket();
  context.close();
  stream.close();
  return stream.get() == nullptr && spare.get() == nullptr ? 0 : 1;
}
