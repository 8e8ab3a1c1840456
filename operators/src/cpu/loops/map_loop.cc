#include "cpu/loops/map_loop.h"

#include "cpu/loops/strided_loop.h"

namespace heddle::cpu_kernels {

void map_loop(const NDArray& x, const NDArray& y, UnaryRun run) {
  const StridedLoop<2> loop(y.shape(), {x.strides(), y.strides()});
  const auto steps = loop.inner_steps();
  const auto x_size = static_cast<std::int64_t>(size_of(x.dtype()));
  const auto y_size = static_cast<std::int64_t>(size_of(y.dtype()));
  const std::byte* from = x.data<const std::byte>();
  std::byte* to = y.data<std::byte>();
  loop.run([&](const auto& at, std::int64_t n) {
    run(from + at[0] * x_size, steps[0], to + at[1] * y_size, steps[1], n);
  });
}

void map_loop(const Source& a, const Source& b, std::size_t size, const NDArray& y, BinaryRun run) {
  const Strides still = Strides::filled(y.ndim(), 0);
  const StridedLoop<3> loop(
      y.shape(), {a.array ? a.array->strides() : still, b.array ? b.array->strides() : still, y.strides()});
  const auto steps = loop.inner_steps();
  const auto from_size = static_cast<std::int64_t>(size);
  const auto y_size = static_cast<std::int64_t>(size_of(y.dtype()));
  std::byte* to = y.data<std::byte>();
  loop.run([&](const auto& at, std::int64_t n) {
    run(a.data + at[0] * from_size, steps[0], b.data + at[1] * from_size, steps[1], to + at[2] * y_size,
        steps[2], n);
  });
}

}  // namespace heddle::cpu_kernels
