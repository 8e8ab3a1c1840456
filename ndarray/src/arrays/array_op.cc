#include <memory>
#include <string>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/array_use.h>
#include <heddle/graph.h>
#include <heddle/stream_ops.h>

namespace heddle {

namespace {

void check_array(const char* name, const NDArray& array, const Engine** engine) {
  if (!array.defined()) ndarray_detail::refuse_undefined(name);
  if (!*engine) *engine = &array.engine();
  if (*engine != &array.engine()) {
    throw InvalidArgument(std::string(name) + ": the arrays belong to different engines");
  }
}

// An op that is captured into a graph changes the array again in each launch of the graph.
void count_change(const std::shared_ptr<Storage>& storage) {
  storage->bump_version();
  if (!is_capturing()) [[likely]]
    return;
  at_each_launch(storage.get(), [storage] { storage->bump_version(); });
}

}  // namespace

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

void ndarray_detail::push_on_gpu(Engine& engine, Device device, const std::function<void(Stream&)>& fn,
                                 const Access& access, std::source_location where) {
  engine.push_on(engine.stream(device), fn, access, where);
}

Access array_access(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes) {
  const Engine* engine = nullptr;
  for (const NDArray& array : reads) check_array(name, array, &engine);
  for (const NDArray& array : writes) check_array(name, array, &engine);
  Access access;
  access.name = name;
  for (const NDArray& array : reads) access.read.add(array.var());
  for (const NDArray& array : writes) {
    access.mutate.add(array.var());
    if (!array.covers_storage()) access.read.add(array.var());
    count_change(array.storage());
    if (ArrayUse* const use = ArrayUse::current()) [[unlikely]]
      use->changes(array);
  }
  return access;
}

}  // namespace heddle
