// MultiplyAdds: how many multiplications with an addition a piece of code asks for.
#pragma once

#include <cstdint>

namespace heddle {

// While a MultiplyAdds lives, it counts the multiply-adds of products, convolutions, recurrent layers and attention that its thread
// pushes, gradients included; elementwise operators count as none. Of several on a thread each counts what comes while it lives.
class MultiplyAdds {
 public:
  MultiplyAdds();
  ~MultiplyAdds();
  MultiplyAdds(const MultiplyAdds&) = delete;
  MultiplyAdds& operator=(const MultiplyAdds&) = delete;

  std::int64_t count() const { return count_; }

  // Counts the work of an operator. For the library itself.
  static void add(std::int64_t count);

 private:
  MultiplyAdds* const outer_;
  std::int64_t count_ = 0;
};

}  // namespace heddle
