// SPDX-License-Identifier: Apache-2.0
// C++17 wrapper: owners that release in their destructors, statuses as exceptions. Header only; the C headers stay the reference for
// ownership, threads and codes.
//
// Destructors never throw. A Context should be closed by close(), whose failure can be seen and repeated; its destructor closes too, and if
// that fails it leaks the context on purpose, because the device may still be working with it. Declare a Graph after its Context and a
// Stream before it: a graph must be gone before its context closes.
#ifndef SLIPSTREAM_SLIPSTREAM_HPP_
#define SLIPSTREAM_SLIPSTREAM_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "slipstream/slipstream.h"

namespace slipstream {

// A failed status: what() is its full text.
class Error : public std::runtime_error {
 public:
  Error(slip_code_t code, int64_t platform_code, const std::string &text)
      : std::runtime_error(text), code_(code), platform_code_(platform_code) {}
  slip_code_t code() const noexcept { return code_; }
  int64_t platform_code() const noexcept { return platform_code_; }

 private:
  slip_code_t code_;
  int64_t platform_code_;
};

inline std::string to_string(slip_status_t status) {
  std::string text(slip_status_format(status, nullptr, 0), '\0');
  slip_status_format(status, &text[0], text.size() + 1);
  return text;
}

// Throws what |status| says. Consumes it.
inline void check(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  struct Owner {
    slip_status_t status;
    ~Owner() { slip_status_free(status); }
  } owner{status};
  throw Error(slip_status_code(status), slip_status_platform_code(status), to_string(status));
}

// One reference to a C object; moved, not copied.
template <typename T, void (*Release)(T *)>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(T *object) noexcept : object_(object) {}
  Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { Release(object_); }
  T *get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T *object_ = nullptr;
};

using Signature = Handle<slip_signature_t, slip_signature_release>;

class Artifact : public Handle<slip_artifact_t, slip_artifact_release> {
 public:
  explicit Artifact(const std::string &path, const slip_artifact_options_t *options = nullptr) : Handle(open(path, options)) {}
  slip_signature_t *params() const noexcept { return slip_artifact_params(get()); }
  std::string name() const { return slip_artifact_name(get()); }
  std::string target() const { return slip_artifact_target(get()); }

 private:
  static slip_artifact_t *open(const std::string &path, const slip_artifact_options_t *options) {
    slip_artifact_t *artifact = nullptr;
    check(slip_artifact_open(path.c_str(), options, slip_allocator_system(), &artifact));
    return artifact;
  }
};

class Ticket : public Handle<slip_ticket_t, slip_ticket_release> {
 public:
  using Handle::Handle;
  void wait(int64_t timeout_ns = -1) const { check(slip_ticket_wait(get(), timeout_ns)); }
  // False while the launch is not finished; throws its failure.
  bool done() const {
    slip_status_t status = slip_ticket_query(get());
    if (slip_status_code(status) != SLIP_CODE_NOT_READY) return check(status), true;
    slip_status_free(status);
    return false;
  }
};

// One validated call; lives where it is declared.
class Frame {
 public:
  Frame(slip_signature_t *signature, const char *name, slip_device_t device, const slip_arg_t *args, std::size_t count,
        uint32_t flags = SLIP_FRAME_NONE) {
    check(slip_frame_initialize(&frame_, signature, name, device, args, count, flags));
  }
  Frame(slip_signature_t *signature, const char *name, slip_device_t device, std::initializer_list<slip_arg_t> args,
        uint32_t flags = SLIP_FRAME_NONE)
      : Frame(signature, name, device, args.begin(), args.size(), flags) {}
  Frame(const Frame &) = delete;
  Frame &operator=(const Frame &) = delete;
  ~Frame() { slip_frame_deinitialize(&frame_); }
  const slip_frame_t *get() const noexcept { return &frame_; }

 private:
  slip_frame_t frame_;
};

// An asynchronous queue of a platform, for programs that have no framework to lend them one.
class Stream {
 public:
  explicit Stream(const char *platform = "cpu", int32_t device = 0) {
    check(slip_platform_find(platform, &platform_));
    check(slip_stream_create(platform_, device, &stream_));
  }
  Stream(Stream &&other) noexcept : platform_(other.platform_), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream &operator=(Stream &&other) noexcept {
    std::swap(platform_, other.platform_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  // Waits for the stream's work.
  ~Stream() {
    if (stream_) slip_status_free(slip_stream_destroy(platform_, stream_));
  }
  void synchronize() const { check(slip_stream_synchronize(platform_, stream_)); }
  // False while work is left.
  bool done() const {
    slip_status_t status = slip_stream_query(platform_, stream_);
    if (slip_status_code(status) != SLIP_CODE_NOT_READY) return check(status), true;
    slip_status_free(status);
    return false;
  }
  // The same as the destructor, where a failure can be seen. Afterwards the object is empty.
  void close() {
    if (!stream_) return;
    check(slip_stream_destroy(platform_, stream_));
    stream_ = nullptr;
  }
  slip_stream_t get() const noexcept { return stream_; }

 private:
  slip_platform_t *platform_ = nullptr;
  slip_stream_t stream_ = nullptr;
};

class Context {
 public:
  explicit Context(const slip_context_options_t *options = nullptr) {
    slip_status_t status = slip_context_open(options, &context_);
    if (!slip_status_is_ok(status)) dispose();  // a failed open may owe teardown
    check(status);
  }
  Context(Context &&other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  Context &operator=(Context &&other) noexcept {
    std::swap(context_, other.context_);
    return *this;
  }
  ~Context() { dispose(); }

  int32_t prepare(const Artifact &artifact) {
    int32_t id = -1;
    check(slip_context_prepare_artifact(context_, artifact.get(), &id));
    return id;
  }
  int32_t prepare(slip_const_bytes_t image) {
    int32_t id = -1;
    check(slip_context_prepare(context_, image, &id));
    return id;
  }
  void release(int32_t id) { check(slip_context_release(context_, id)); }
  Signature signature(int32_t id) const {
    slip_signature_t *signature = nullptr;
    check(slip_context_signature(context_, id, &signature));
    return Signature(signature);
  }
  void launch(int32_t id, const Frame &frame, slip_stream_t stream) {
    check(slip_context_launch(context_, id, frame.get(), stream, nullptr));
  }
  Ticket launch_with_ticket(int32_t id, const Frame &frame, slip_stream_t stream) {
    slip_ticket_t *ticket = nullptr;
    check(slip_context_launch(context_, id, frame.get(), stream, &ticket));
    return Ticket(ticket);
  }
  void drain() { check(slip_context_drain(context_)); }
  // May be repeated after a failure. Afterwards the object is empty.
  void close() {
    check(slip_context_close(context_));
    check(slip_context_destroy(std::exchange(context_, nullptr)));
  }
  slip_context_t *get() const noexcept { return context_; }

 private:
  void dispose() noexcept {
    if (!context_) return;
    slip_status_t status = slip_context_close(context_);
    if (slip_status_is_ok(status)) status = slip_context_destroy(context_);
    slip_status_free(status);
    context_ = nullptr;
  }
  slip_context_t *context_ = nullptr;
};

inline void graph_release(slip_graph_t *graph) {
  slip_status_free(slip_graph_destroy(graph));
}

// Recorded launches; see slipstream/graph.h.
class Graph : public Handle<slip_graph_t, graph_release> {
 public:
  explicit Graph(const Context &context) : Handle(create(context.get())) {}
  // Returns the node's number, for bind().
  uint32_t add(int32_t id, const Frame &frame) {
    uint32_t node = 0;
    check(slip_graph_add(get(), id, frame.get(), &node));
    return node;
  }
  void bind(uint32_t node, const Frame &frame) { check(slip_graph_bind(get(), node, frame.get())); }
  uint32_t node_count() const noexcept { return slip_graph_node_count(get()); }
  void launch(slip_stream_t stream) { check(slip_graph_launch(get(), stream, nullptr)); }
  Ticket launch_with_ticket(slip_stream_t stream) {
    slip_ticket_t *ticket = nullptr;
    check(slip_graph_launch(get(), stream, &ticket));
    return Ticket(ticket);
  }

 private:
  static slip_graph_t *create(slip_context_t *context) {
    slip_graph_t *graph = nullptr;
    check(slip_graph_create(context, &graph));
    return graph;
  }
};

// A contiguous tensor at |data|; see slip_tensor_initialize().
inline slip_tensor_t tensor(slip_dtype_t dtype, std::initializer_list<int64_t> dims, void *data, slip_device_t device = slip_device_cpu()) {
  slip_tensor_t result;
  check(slip_tensor_initialize(&result, dtype, static_cast<uint8_t>(dims.size() > 255 ? 255 : dims.size()), dims.begin(), data, device));
  return result;
}

}  // namespace slipstream

#endif  // SLIPSTREAM_SLIPSTREAM_HPP_
