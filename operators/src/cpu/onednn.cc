#include "cpu/onednn.h"

#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>

#include <heddle/error.h>

#include "cpu/scratch.h"

namespace heddle::cpu_kernels {

dnnl::engine& onednn_engine() {
  static dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

bool onednn_has_bf16() {
  static const bool has = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

dnnl::memory::desc row_major(const dnnl::memory::dims& dims, dnnl::memory::data_type type) {
  dnnl::memory::dims strides(dims.size());
  dnnl::memory::dim stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return {dims, type, strides};
}

dnnl::primitive_attr caller_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// Making memory objects takes longer than running some primitives. So each thread caches its memory objects
// for each Executable, and sets their pointers for each run.
struct Executable::Bound {
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
};

struct Executable::BoundByThread {
  static constexpr std::size_t kMost = 1024;
  std::unordered_map<std::uint64_t, Bound> by_id;
};

Executable::Executable(dnnl::primitive primitive, std::vector<Argument> arguments,
                       const dnnl::memory::desc& scratch)
    : primitive_(std::move(primitive)), arguments_(std::move(arguments)), scratch_bytes_(scratch.get_size()) {
  static std::atomic<std::uint64_t> executables{0};
  id_ = ++executables;
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratch});
}

Executable::Bound& Executable::bound() const {
  thread_local BoundByThread mine;
  const auto found = mine.by_id.find(id_);
  if (found != mine.by_id.end()) return found->second;
  if (mine.by_id.size() >= BoundByThread::kMost) mine.by_id.clear();
  Bound& made = mine.by_id[id_];
  for (const Argument& argument : arguments_) {
    made.memories.emplace_back(argument.desc, onednn_engine(), nullptr);
    made.arguments.push_back({argument.kind, made.memories.back().get()});
  }
  return made;
}

void Executable::run(std::initializer_list<const void*> pointers) const {
  Bound& now = bound();
  const Scratch scratch(scratch_bytes_);
  std::size_t next = 0;
  for (const void* pointer : pointers) now.memories[next++].set_data_handle(const_cast<void*>(pointer));
  now.memories[next].set_data_handle(scratch.data());
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), onednn_stream().get(), static_cast<int>(now.arguments.size()), now.arguments.data());
  if (status != dnnl_success) throw Error("oneDNN failed with status " + std::to_string(status));
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : from_(from), to_(to), needed_(from != to) {
  if (!needed_) return;
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  caller_scratch());
  executable_ = Executable(dnnl::reorder(description), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                           description.scratchpad_desc());
}

void Reorder::run(const void* from, void* to) const { executable_.run({from, to}); }

}  // namespace heddle::cpu_kernels
