// SPDX-License-Identifier: Apache-2.0
// The C++ wrapper of the installed package.
#include <slipstream/slipstream.hpp>

#include <atomic>
#include <cstdio>
#include <memory>
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

template <typename Call>
static slip_code_t code_of(Call &&call) {
  try {
    call();
    return SLIP_CODE_OK;
  } catch (const slipstream::Error &error) {
    return error.code();
  }
}

struct Owner {
  explicit Owner(std::atomic<int> *count) : count_(count) {}
  ~Owner() { ++*count_; }
  std::atomic<int> *count_;
};

// Owners of launches come back once, refused ones too.
static bool owners(slipstream::Context &context, slipstream::Stream &stream, int32_t id, const slipstream::Frame &frame) {
  std::atomic<int> gone{0};
  context.launch_keeping(std::make_unique<Owner>(&gone), id, frame, stream.get());
  stream.synchronize();
  context.drain();
  if (gone != 1) return false;
  auto refused = [&] { context.launch_keeping(std::make_unique<Owner>(&gone), id + 1000, frame, stream.get(), SLIP_LAUNCH_NO_WAIT); };
  if (code_of(refused) != SLIP_CODE_NOT_PREPARED || gone != 2) return false;
  auto count = [](void *user) { ++*static_cast<std::atomic<int> *>(user); };
  context.launch_with_ticket(id, frame, stream.get(), SLIP_LAUNCH_NONE, count, &gone).wait();
  context.drain();
  if (gone != 3) return false;
  return code_of([&] { context.launch(id, frame, stream.get(), 0x8000u); }) == SLIP_CODE_INVALID_ARGUMENT;
}

// A Graph that outlives its Context closes it, so that it can be opened again.
static bool outlives(const slipstream::Artifact &artifact) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.max_pending = 17;
  auto context = std::make_unique<slipstream::Context>(&options);
  context->prepare(artifact);
  auto graph = std::make_unique<slipstream::Graph>(*context);
  if (code_of([&] { context->close(); }) != SLIP_CODE_BUSY) return false;
  context.reset();
  graph.reset();
  options.max_pending = 18;
  return code_of([&] { slipstream::Context(&options).close(); }) == SLIP_CODE_OK;
}

// Events, device memory and a capture, on the simulator.
static bool captures(const slipstream::Artifact &artifact) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = "sim";
  std::vector<float> x(8, 2.0f), y(8, 1.0f);
  const uint64_t size = 8 * sizeof(float);
  slipstream::Stream stream("sim"), other("sim");
  slipstream::Event event("sim");
  slipstream::DeviceMemory first("sim", 0, size), dy("sim", 0, size), dx(std::move(first));
  slipstream::Context context(&options);
  int32_t id = context.prepare(artifact);
  dx.upload(x.data(), size);
  dy.upload(y.data(), size);
  slip_device_t device = slip_context_device(context.get());
  slip_tensor_t tx = slipstream::tensor(SLIP_DTYPE_F32, {8}, dx.get(), device),
                ty = slipstream::tensor(SLIP_DTYPE_F32, {8}, dy.get(), device);
  slipstream::Frame frame(artifact.params(), "axpy", device,
                          {slip_arg_tensor(&tx, nullptr), slip_arg_tensor(&ty, nullptr), slip_arg_scalar(slip_scalar_f32(3.0f))});
  stream.capture_begin(SLIP_CAPTURE_MODE_RELAXED);
  context.launch(id, frame, stream.get());
  slipstream::GraphExec graph = stream.capture_end();
  graph.launch(stream.get());
  graph.launch(stream.get());
  event.record(stream.get());
  event.wait(other.get());
  other.synchronize();
  event.synchronize();
  if (!event.done() || !graph) return false;
  dy.download(y.data(), size);
  if (y[7] != 13.0f || first.get() != nullptr) return false;
  if (code_of([&] { context.close(); }) != SLIP_CODE_BUSY) return false;
  graph.close();
  stream.synchronize();
  context.close();
  dx.close();
  dy.close();
  event.close();
  event.close();
  return !graph && !event && context.get() == nullptr;
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
  if (!replays(context, stream, id) || !owners(context, stream, id, frame) || !captures(artifact)) return 1;
  try {
    slipstream::Stream nowhere("no-such-platform");
    return 1;
  } catch (const slipstream::Error &error) {
    if (error.code() != SLIP_CODE_NOT_FOUND) return 1;
  }
  ticket = slipstream::Ticket();
  context.close();
  context.close();  // empty by now: nothing to do
  if (!outlives(artifact)) return 1;
  stream.close();
  stream.close();
  return stream.get() == nullptr && spare.get() == nullptr ? 0 : 1;
}
