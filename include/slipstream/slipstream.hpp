// SPDX-License-Identifier: Apache-2.0
// C++17 wrapper: owners that release in their destructors, statuses as exceptions. Header only; the C headers stay the reference for
// ownership, threads and codes.
//
// Destructors never throw. A Context should be closed by close(), whose failure can be seen and repeated; its destructor closes too, and if
// that fails it leaks the context on purpose, because the device may still be working with it. Declare Streams, Events and memory before
// the Context that uses them, and Graphs after it: Context::close() is refused (BUSY) while a Graph of it is alive. A Context that is
// destroyed before its Graphs closes with the last of them; captured launches (GraphExec) do not keep it: destroy those first. A Worker
// likewise; its Runs may outlive it.
#ifndef SLIPSTREAM_SLIPSTREAM_HPP_
#define SLIPSTREAM_SLIPSTREAM_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
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

// False while |status| is NOT_READY; throws other failures. Consumes it.
inline bool ready(slip_status_t status) {
  if (slip_status_code(status) != SLIP_CODE_NOT_READY) return check(status), true;
  slip_status_free(status);
  return false;
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
  bool done() const { return ready(slip_ticket_query(get())); }
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

inline slip_platform_t *platform(const char *name) {
  slip_platform_t *platform = nullptr;
  check(slip_platform_find(name, &platform));
  return platform;
}

// Something of a platform, which |Destroy| gives back; moved, not copied.
template <typename T, slip_status_t (*Destroy)(slip_platform_t *, T)>
class Owned {
 public:
  Owned() noexcept = default;
  Owned(slip_platform_t *platform, T object) noexcept : platform_(platform), object_(object) {}
  Owned(Owned &&other) noexcept : platform_(other.platform_), object_(std::exchange(other.object_, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(platform_, other.platform_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_) slip_status_free(Destroy(platform_, object_));
  }
  // The same as the destructor, where a failure can be seen. Afterwards the object is empty; on an empty one it does nothing.
  void close() {
    if (!object_) return;
    check(Destroy(platform_, object_));
    object_ = nullptr;
  }
  T get() const noexcept { return object_; }
  slip_platform_t *platform() const noexcept { return platform_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  slip_platform_t *platform_ = nullptr;
  T object_ = nullptr;
};

class Event : public Owned<slip_event_t, slip_event_destroy> {
 public:
  explicit Event(const char *platform = "cpu", int32_t device = 0) : Owned(create(slipstream::platform(platform), device)) {}
  void record(slip_stream_t stream) { check(slip_event_record(platform(), get(), stream)); }
  void wait(slip_stream_t stream) const { check(slip_stream_wait_event(platform(), stream, get())); }
  void synchronize() const { check(slip_event_synchronize(platform(), get())); }
  // False while the last record has not been reached.
  bool done() const { return ready(slip_event_query(platform(), get())); }

 private:
  static Owned create(slip_platform_t *platform, int32_t device) {
    slip_event_t event = nullptr;
    check(slip_event_create(platform, device, &event));
    return Owned(platform, event);
  }
};

// What a capture has recorded. Destroying it lets executions that are enqueued run on; a context that has launches in it closes when they
// are through.
class GraphExec : public Owned<slip_graph_exec_t, slip_graph_exec_destroy> {
 public:
  using Owned::Owned;
  void launch(slip_stream_t stream) { check(slip_graph_exec_launch(platform(), get(), stream)); }
};

// An asynchronous queue of a platform, for programs that have no framework to lend them one. The destructor waits for its work.
class Stream : public Owned<slip_stream_t, slip_stream_destroy> {
 public:
  explicit Stream(const char *platform = "cpu", int32_t device = 0) : Owned(create(slipstream::platform(platform), device)) {}
  void synchronize() const { check(slip_stream_synchronize(platform(), get())); }
  // False while work is left.
  bool done() const { return ready(slip_stream_query(platform(), get())); }
  void copy(void *target, const void *source, uint64_t size_bytes, slip_copy_e kind) {
    check(slip_memory_copy_async(platform(), get(), target, source, size_bytes, static_cast<uint32_t>(kind)));
  }
  void capture_begin(slip_capture_mode_e mode = SLIP_CAPTURE_MODE_GLOBAL) {
    check(slip_stream_capture_begin(platform(), get(), static_cast<uint32_t>(mode)));
  }
  GraphExec capture_end() {
    slip_graph_exec_t graph = nullptr;
    check(slip_stream_capture_end(platform(), get(), &graph));
    return GraphExec(platform(), graph);
  }

 private:
  static Owned create(slip_platform_t *platform, int32_t device) {
    slip_stream_t stream = nullptr;
    check(slip_stream_create(platform, device, &stream));
    return Owned(platform, stream);
  }
};

// Memory of a device. It must outlive what uses it: synchronize the streams first.
class DeviceMemory {
 public:
  DeviceMemory(const char *platform, int32_t device, uint64_t size_bytes) : platform_(slipstream::platform(platform)), device_(device) {
    check(slip_memory_allocate(platform_, device_, size_bytes, &data_));
  }
  DeviceMemory(DeviceMemory &&other) noexcept
      : platform_(other.platform_), device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    std::swap(platform_, other.platform_);
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_) slip_status_free(slip_memory_free(platform_, device_, data_));
  }
  // The same as the destructor, where a failure can be seen. Afterwards the object is empty.
  void close() {
    if (!data_) return;
    check(slip_memory_free(platform_, device_, data_));
    data_ = nullptr;
  }
  // Both block until copied.
  void upload(const void *source, uint64_t size_bytes) {
    check(slip_memory_copy(platform_, device_, data_, source, size_bytes, SLIP_COPY_HOST_TO_DEVICE));
  }
  void download(void *target, uint64_t size_bytes) const {
    check(slip_memory_copy(platform_, device_, target, data_, size_bytes, SLIP_COPY_DEVICE_TO_HOST));
  }
  void *get() const noexcept { return data_; }

 private:
  slip_platform_t *platform_ = nullptr;
  int32_t device_ = 0;
  void *data_ = nullptr;
};

// One reference of slip_context_open(), shared by a Context and its Graphs: the last one closes.
class ContextReference {
 public:
  ContextReference() noexcept = default;
  ContextReference(const ContextReference &) = delete;
  ContextReference &operator=(const ContextReference &) = delete;
  ~ContextReference() {
    if (!context_) return;
    slip_status_free(slip_context_close(context_));
    // CLOSED also if close told that the device was reset under it. Otherwise it leaks: the device may still be working with it.
    if (slip_context_state(context_) == SLIP_CONTEXT_CLOSED) slip_status_free(slip_context_destroy(context_));
  }
  // A failed open may owe teardown, which the destructor does.
  void open(const slip_context_options_t *options) { check(slip_context_open(options, &context_)); }
  void close() {
    check(slip_context_close(context_));
    check(slip_context_destroy(std::exchange(context_, nullptr)));
  }
  slip_context_t *get() const noexcept { return context_; }

 private:
  slip_context_t *context_ = nullptr;
};

class Context {
 public:
  explicit Context(const slip_context_options_t *options = nullptr) : reference_(open(options)) {}
  Context(Context &&) noexcept = default;
  Context &operator=(Context &&other) noexcept {
    std::swap(reference_, other.reference_);
    return *this;
  }

  int32_t prepare(const Artifact &artifact) {
    int32_t id = -1;
    check(slip_context_prepare_artifact(get(), artifact.get(), &id));
    return id;
  }
  int32_t prepare(slip_const_bytes_t image) {
    int32_t id = -1;
    check(slip_context_prepare(get(), image, &id));
    return id;
  }
  void release(int32_t id) { check(slip_context_release(get(), id)); }
  Signature signature(int32_t id) const {
    slip_signature_t *signature = nullptr;
    check(slip_context_signature(get(), id, &signature));
    return Signature(signature);
  }
  // |flags|: slip_launch_bits_e. |done|: the record's release, called once with |user|, also if the launch is refused; see
  // slip_launch_record_t.
  void launch(int32_t id, const Frame &frame, slip_stream_t stream, uint32_t flags = SLIP_LAUNCH_NONE, void (*done)(void *) = nullptr,
              void *user = nullptr) {
    slip_launch_record_t record = make_record(id, frame, stream, flags, done, user);
    check(slip_launch(&record, nullptr));
  }
  Ticket launch_with_ticket(int32_t id, const Frame &frame, slip_stream_t stream, uint32_t flags = SLIP_LAUNCH_NONE,
                            void (*done)(void *) = nullptr, void *user = nullptr) {
    slip_ticket_t *ticket = nullptr;
    slip_launch_record_t record = make_record(id, frame, stream, flags, done, user);
    check(slip_launch(&record, &ticket));
    return Ticket(ticket);
  }
  // Keeps |owner|, of the tensors for example, until the device is done with the launch; it is deleted on any thread.
  template <typename T>
  void launch_keeping(std::unique_ptr<T> owner, int32_t id, const Frame &frame, slip_stream_t stream, uint32_t flags = SLIP_LAUNCH_NONE) {
    launch(
        id, frame, stream, flags, [](void *user) { delete static_cast<T *>(user); }, owner.release());
  }
  void drain() { check(slip_context_drain(get())); }
  // BUSY while Graphs or captured launches of it are alive; may be repeated after a failure. Afterwards the object is empty; on an empty
  // one it does nothing.
  void close() {
    if (!reference_) return;
    reference_->close();
    reference_.reset();
  }
  slip_context_t *get() const noexcept { return reference_ ? reference_->get() : nullptr; }

 private:
  friend class Graph;
  static std::shared_ptr<ContextReference> open(const slip_context_options_t *options) {
    auto reference = std::make_shared<ContextReference>();
    reference->open(options);
    return reference;
  }
  slip_launch_record_t make_record(int32_t id, const Frame &frame, slip_stream_t stream, uint32_t flags, void (*done)(void *),
                                   void *user) const {
    slip_launch_record_t record = slip_initial<slip_launch_record_t>();
    record.context = get();
    record.id = id;
    record.frame = frame.get();
    record.stream = stream;
    record.flags = flags;
    record.release = done;
    record.user = user;
    return record;
  }
  std::shared_ptr<ContextReference> reference_;
};

inline void graph_release(slip_graph_t *graph) {
  slip_status_free(slip_graph_destroy(graph));
}

// Recorded launches; see slipstream/graph.h. It shares its context: one whose Context is gone already is closed when the Graph is.
class Graph {
 public:
  explicit Graph(const Context &context) : context_(context.reference_), graph_(create(context.get())) {}
  Graph(Graph &&) noexcept = default;
  Graph &operator=(Graph &&other) noexcept {
    std::swap(context_, other.context_);
    std::swap(graph_, other.graph_);
    return *this;
  }
  slip_graph_t *get() const noexcept { return graph_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(graph_); }
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
  std::shared_ptr<ContextReference> context_;  // before the graph, which goes first
  Handle<slip_graph_t, graph_release> graph_;
};

// A run of a Worker; may outlive it, its results do not.
class Run : public Handle<slip_run_t, slip_run_release> {
 public:
  using Handle::Handle;
  bool done() const noexcept { return slip_run_done(get()); }
  // Throws the run's failure, or TIMEOUT.
  void wait(int64_t timeout_ns = -1) const { check(slip_run_wait(get(), timeout_ns)); }
  std::size_t result_count() const noexcept { return slip_run_result_count(get()); }
  slip_tensor_t result(std::size_t index = 0) const {
    slip_tensor_t tensor;
    check(slip_run_result(get(), index, &tensor));
    return tensor;
  }
  // Of parameter |index|; then the caller's, for Worker::release().
  slip_tensor_t take(std::size_t index) const {
    slip_tensor_t tensor;
    check(slip_run_take(get(), index, &tensor));
    return tensor;
  }
};

// Program mode; see slipstream/worker.h. Neither copied nor moved: its tensors are known to it by address, its users by reference.
class Worker {
 public:
  explicit Worker(const slip_worker_options_t *options = nullptr) { check(slip_worker_create(options, &worker_)); }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;
  ~Worker() {
    if (!worker_) return;
    slip_status_free(slip_worker_close(worker_));
    // Otherwise it leaks: the device may still be working with it.
    if (slip_worker_state(worker_) == SLIP_WORKER_CLOSED) slip_status_free(slip_worker_destroy(worker_));
  }
  void open() { check(slip_worker_open(get())); }
  // May be repeated after a failure. Afterwards the object is empty; on an empty one it does nothing.
  void close() {
    if (!worker_) return;
    check(slip_worker_close(worker_));
    check(slip_worker_destroy(std::exchange(worker_, nullptr)));
  }

  int32_t add(const Artifact &artifact) {
    int32_t callable = -1;
    check(slip_worker_register_artifact(get(), artifact.get(), &callable));
    return callable;
  }
  int32_t add(slip_const_bytes_t image) {
    int32_t callable = -1;
    check(slip_worker_register(get(), image, &callable));
    return callable;
  }
  void remove(int32_t callable) { check(slip_worker_unregister(get(), callable)); }
  Signature signature(int32_t callable) const {
    slip_signature_t *signature = nullptr;
    check(slip_worker_signature(get(), callable, &signature));
    return Signature(signature);
  }

  slip_tensor_t tensor(slip_dtype_t dtype, std::initializer_list<int64_t> dims, uint32_t flags = SLIP_WORKER_TENSOR_NONE) {
    slip_tensor_t tensor;
    uint8_t rank = static_cast<uint8_t>(dims.size() > 255 ? 255 : dims.size());
    check(slip_worker_tensor_create(get(), dtype, rank, dims.begin(), flags, &tensor));
    return tensor;
  }
  void release(const slip_tensor_t &tensor) { check(slip_worker_tensor_free(get(), &tensor)); }
  // Both block until copied; |size_bytes| is the tensor's.
  void write(const slip_tensor_t &tensor, const void *source, uint64_t size_bytes) {
    check(slip_worker_tensor_write(get(), &tensor, source, size_bytes));
  }
  void read(const slip_tensor_t &tensor, void *target, uint64_t size_bytes) const {
    check(slip_worker_tensor_read(get(), &tensor, target, size_bytes));
  }

  // |flags|: slip_run_bits_e.
  Run run(int32_t callable, std::initializer_list<slip_arg_t> args, uint32_t flags = SLIP_RUN_NONE) {
    slip_run_t *run = nullptr;
    check(slip_worker_run(get(), callable, args.begin(), args.size(), flags, &run));
    return Run(run);
  }
  Run submit(int32_t callable, std::initializer_list<slip_arg_t> args, uint32_t flags = SLIP_RUN_NONE) {
    slip_run_t *run = nullptr;
    check(slip_worker_submit(get(), callable, args.begin(), args.size(), flags, &run));
    return Run(run);
  }
  slip_worker_t *get() const noexcept { return worker_; }

 private:
  slip_worker_t *worker_ = nullptr;
};

// A contiguous tensor at |data|; see slip_tensor_initialize().
inline slip_tensor_t tensor(slip_dtype_t dtype, std::initializer_list<int64_t> dims, void *data, slip_device_t device = slip_device_cpu()) {
  slip_tensor_t result;
  check(slip_tensor_initialize(&result, dtype, static_cast<uint8_t>(dims.size() > 255 ? 255 : dims.size()), dims.begin(), data, device));
  return result;
}

}  // namespace slipstream

#endif  // SLIPSTREAM_SLIPSTREAM_HPP_
