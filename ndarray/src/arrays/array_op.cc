#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/array_use.h>
#include <heddle/graph.h>
#include <heddle/launch_memory.h>
#include <heddle/stream_ops.h>

#include "arrays/issuing.h"
#include "arrays/lent.h"

namespace heddle {

namespace {

void check_array(const char* name, const NDArray& array, const Engine** engine) {
  if (!array.defined()) ndarray_detail::refuse_undefined(name);
  if (!*engine) *engine = &array.engine();
  if (*engine != &array.engine()) {
    throw InvalidArgument(std::string(name) + ": the arrays belong to different engines");
  }
}

// The memory of an array that the ops of a graph fill. It goes back to the allocator at its last use in each launch,
// unless the program holds a handle on the array then.
class ArrayMemory : public LaunchMemory {
 public:
  explicit ArrayMemory(const std::shared_ptr<Storage>& storage) : storage_(storage) {}
  long handles() const { return storage_.use_count(); }
  void add_graph_handles(long more) { of_graph_ += more; }
  void end_use() noexcept override {
    // lock() and not use_count() alone: what the threads did that dropped the last handles comes before this.
    const std::shared_ptr<Storage> storage = storage_.lock();
    if (storage && storage.use_count() == of_graph_ + 1) storage->drop_memory();
  }

 private:
  const std::weak_ptr<Storage> storage_;
  long of_graph_ = 0;  // handles that the graph holds
};

// Smaller memory stays with its array: the allocator would take longer than it is worth.
constexpr std::size_t kLeastReturned = 8192;

bool may_return(const NDArray& array) {
  return array.storage()->bytes() >= kLeastReturned && array.device().kind == DeviceKind::cpu;
}

// In a capture, the memory of `array`; null if it is not returned in launches.
ArrayMemory* memory_of(const NDArray& array) {
  return may_return(array) ? static_cast<ArrayMemory*>(launch_use(array.var()).memory.get()) : nullptr;
}

// Notes the first access to an array in a capture. `filled`: the op writes all of the array's memory, and does not
// read it.
void note_use(const NDArray& array, bool filled) {
  if (!may_return(array)) return;
  LaunchUse& use = launch_use(array.var());
  if (!use.seen && filled) use.memory = std::make_shared<ArrayMemory>(array.storage());
  use.seen = true;
}

// An op that is captured into a graph changes the array again in each launch of the graph.
void count_change(const NDArray& array) {
  const std::shared_ptr<Storage>& storage = array.storage();
  storage->bump_version();
  if (!is_capturing()) [[likely]]
    return;
  note_use(array, array.covers_storage());
  ArrayMemory* const memory = memory_of(array);
  const long before = memory ? memory->handles() : 0;
  at_each_launch(storage.get(), [storage] { storage->bump_version(); });
  if (memory) memory->add_graph_handles(memory->handles() - before);
}

}  // namespace

struct ndarray_detail::ClosureHandles::Counted {
  LaunchMemory* memory;
  long before;  // handles on the memory before the closure was copied
};

ndarray_detail::ClosureHandles::ClosureHandles(std::span<const NDArray> reads,
                                               std::span<const NDArray> writes) {
  for (const std::span<const NDArray> arrays : {reads, writes}) {
    for (const NDArray& array : arrays) {
      ArrayMemory* const memory = memory_of(array);
      const auto same = [memory](const Counted& other) { return other.memory == memory; };
      if (memory && std::none_of(counted_.begin(), counted_.end(), same))
        counted_.push_back({memory, memory->handles()});
    }
  }
}

ndarray_detail::ClosureHandles::~ClosureHandles() = default;

void ndarray_detail::ClosureHandles::add_copy() const {
  for (const Counted& of : counted_) {
    auto& memory = static_cast<ArrayMemory&>(*of.memory);
    memory.add_graph_handles(memory.handles() - of.before);
  }
}

// Whether an op is brief matters since passing an op to another core costs some 200 ns, and waking a thread
// costs more: docs/operators_speed.md.
bool ndarray_detail::is_brief(std::span<const NDArray> arrays) {
  constexpr std::int64_t kMostElements = 1024;
  for (const NDArray& array : arrays) {
    if (array.size() > kMostElements) return false;
  }
  return true;
}

Stream& KernelContext::stream() const {
  if (!stream_) throw Error("a kernel for a GPU was called on the CPU, which has no stream");
  return *stream_;
}

namespace {

// Drops what fn holds as soon as the op is issued: an array that ends with it frees its memory behind the op's work, on
// the same stream, so that the next op there can have it. Ops on other streams hold their arrays until they are done.
// A graph, which issues its ops in each launch, holds the arrays of all of them. Lent memory would go back to its owner at once:
// an op that uses some holds its arrays until it is done.
struct OnComputeStream {
  std::function<void(Stream&)> fn;
  bool keeps_arrays;
  void operator()(Stream& stream) {
    const ndarray_detail::IssuingOn scope(stream, stream);
    if (keeps_arrays) return fn(stream);
    const std::function<void(Stream&)> issued = std::exchange(fn, nullptr);
    issued(stream);
  }
};

// The same for an op whose work a graph may record: it depends on where the memory is.
struct RecordableOnComputeStream : OnComputeStream {
  ndarray_detail::Storages memory;
  bool replays(std::vector<const void*>& depends_on) const {
    for (const std::shared_ptr<Storage>& storage : memory) {
      const void* const address = storage->address();
      if (!address && storage->bytes() > 0) return false;
      depends_on.push_back(address);
    }
    return true;
  }
};

}  // namespace

ndarray_detail::Storages ndarray_detail::storages_of(std::span<const NDArray> reads,
                                                     std::span<const NDArray> writes) {
  Storages all;
  for (const std::span<const NDArray> arrays : {reads, writes}) {
    for (const NDArray& array : arrays) {
      if (std::find(all.begin(), all.end(), array.storage()) == all.end()) all.push_back(array.storage());
    }
  }
  return all;
}

void ndarray_detail::push_on_gpu(Engine& engine, Device device, const std::function<void(Stream&)>& fn,
                                 const Access& access, std::source_location where, Storages memory) {
  const OnComputeStream op{fn, is_capturing() || uses_lent_memory(access)};
  Stream& stream = engine.stream(device);
  if (memory.empty()) return engine.push_on(stream, op, access, where);
  engine.push_on(stream, RecordableOnComputeStream{op, std::move(memory)}, access, where);
}

Access array_access(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes) {
  const Engine* engine = nullptr;
  for (const NDArray& array : reads) check_array(name, array, &engine);
  for (const NDArray& array : writes) check_array(name, array, &engine);
  Access access;
  access.name = name;
  const bool captured = is_capturing();
  for (const NDArray& array : reads) {
    access.read.add(array.var());
    if (captured) [[unlikely]]
      note_use(array, false);
  }
  for (const NDArray& array : writes) {
    access.mutate.add(array.var());
    if (!array.covers_storage()) access.read.add(array.var());
    count_change(array);
    if (ArrayUse* const use = ArrayUse::current()) [[unlikely]]
      use->changes(array);
  }
  return access;
}

}  // namespace heddle
