#include <limits>
#include <utility>

#include <heddle/multiply_adds.h>

namespace heddle {
namespace {

thread_local constinit MultiplyAdds* current = nullptr;

// The largest number instead of a sum beyond it.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

}  // namespace

MultiplyAdds::MultiplyAdds() : outer_(std::exchange(current, this)) {}

MultiplyAdds::~MultiplyAdds() {
  current = outer_;
  if (outer_) outer_->count_ = sum_of(outer_->count_, count_);
}

void MultiplyAdds::add(std::int64_t count) {
  if (current) current->count_ = sum_of(current->count_, count);
}

}  // namespace heddle
