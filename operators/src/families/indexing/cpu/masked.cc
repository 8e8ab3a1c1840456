// Kernels on the elements where a mask is true.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/data_error.h"
#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/loops/chunks.h"
#include "families/indexing/scatter_kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The true elements of a mask. Counts them in chunks first, so that each chunk knows how many come before it.
class TrueElements {
 public:
  explicit TrueElements(const NDArray& mask) : mask_(mask.data<const bool>()), size_(mask.size()) {
    before_.assign(static_cast<std::size_t>((size_ + kElementGrain - 1) / kElementGrain), 0);
    parallel_chunks(size_, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      before_[static_cast<std::size_t>(begin / kElementGrain)] = std::count(mask_ + begin, mask_ + end, true);
    });
    for (std::int64_t& before : before_) count_ += std::exchange(before, count_);
  }
  std::int64_t count() const { return count_; }

  // Calls body(position in the mask, number among the true elements) for each true element.
  template <class Body> void run(const Body& body) const {
    parallel_chunks(size_, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t number = before_[static_cast<std::size_t>(begin / kElementGrain)];
      for (std::int64_t i = begin; i < end; ++i)
        if (mask_[i]) body(i, number++);
    });
  }

 private:
  const bool* mask_;
  std::int64_t size_, count_ = 0;
  std::vector<std::int64_t> before_;
};

void check_count(const char* op, std::int64_t found, std::int64_t room, bool exact) {
  if (found == room || (!exact && found < room)) return;
  refuse_mask(op, found, room);
}

void masked_select_kernel(const KernelContext&, const char* op, const NDArray& mask, const NDArray& x,
                          const NDArray& y, bool exact) {
  const TrueElements chosen(mask);
  check_count(op, chosen.count(), y.size(), exact);
  visit_bits(y.dtype(), [&]<class Bits> {
    const auto* from = reinterpret_cast<const Bits*>(x.data<const std::byte>());
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    chosen.run([=](std::int64_t place, std::int64_t number) { to[number] = from[place]; });
    std::fill(to + chosen.count(), to + y.size(), Bits{0});
  });
}

void masked_scatter_kernel(const KernelContext&, const char* op, const NDArray& mask, const NDArray& x,
                           const NDArray& y, bool exact) {
  const TrueElements chosen(mask);
  check_count(op, chosen.count(), x.size(), exact);
  visit_bits(y.dtype(), [&]<class Bits> {
    const auto* from = reinterpret_cast<const Bits*>(x.data<const std::byte>());
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    chosen.run([=](std::int64_t place, std::int64_t number) { to[place] = from[number]; });
  });
}

void nonzero_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  const TrueElements chosen(x);
  check_count("nonzero", chosen.count(), y.shape()[1], true);
  auto* to = y.data<std::int64_t>();
  const Shape shape = x.shape();
  const Strides step = y.strides();
  chosen.run([=](std::int64_t place, std::int64_t number) {
    for (int d = shape.size() - 1; d >= 0; place /= shape[d--])
      to[d * step[0] + number * step[1]] = place % shape[d];
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(masked) {
  table.add<MaskedKernel>("masked_select", DeviceKind::cpu, masked_select_kernel);
  table.add<MaskedKernel>("masked_scatter", DeviceKind::cpu, masked_scatter_kernel);
  table.add<NonzeroKernel>("nonzero", DeviceKind::cpu, nonzero_kernel);
}

}  // namespace heddle::cpu_kernels
