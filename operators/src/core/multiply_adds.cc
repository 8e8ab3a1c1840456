#include <utility>

#include <heddle/multiply_adds.h>

namespace heddle {
namespace {

thread_local constinit MultiplyAdds* current = nullptr;

}  // namespace

MultiplyAdds::MultiplyAdds() : outer_(std::exchange(current, this)) {}

MultiplyAdds::~MultiplyAdds() {
  current = outer_;
  if (outer_) outer_->count_ += count_;
}

void MultiplyAdds::add(std::int64_t count) {
  if (current) current->count_ += count;
}

}  // namespace heddle
