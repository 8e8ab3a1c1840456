#include "onednn.h"

#include "scratch.h"

namespace heddle::cpu_kernels {

dnnl::engine& onednn_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

dnnl::memory::desc row_major(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size());
  dnnl::memory::dim stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::primitive_attr caller_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : from_(from), to_(to), needed_(from != to) {
  if (!needed_) return;
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  caller_scratch());
  scratch_bytes_ = description.scratchpad_desc().get_size();
  primitive_ = dnnl::reorder(description);
}

void Reorder::run(const float* from, float* to) const {
  dnnl::engine& engine = onednn_engine();
  const Scratch scratch(scratch_bytes_);
  // oneDNN has one memory type for what is read and what is written
  dnnl::memory source(from_, engine, const_cast<float*>(from)), target(to_, engine, to);
  const dnnl::memory::desc pad({static_cast<dnnl::memory::dim>(scratch_bytes_)}, dnnl::memory::data_type::u8,
                               dnnl::memory::format_tag::x);
  primitive_.execute(onednn_stream(), {{DNNL_ARG_FROM, source},
                                       {DNNL_ARG_TO, target},
                                       {DNNL_ARG_SCRATCHPAD, dnnl::memory(pad, engine, scratch.data())}});
}

const float* Reorder::convert(const float* plain, float* room) const {
  if (!needed_) return plain;
  run(plain, room);
  return room;
}

}  // namespace heddle::cpu_kernels
