#include "samples/seeds.h"

namespace heddle::test {

void for_each_seed(const std::function<void()>& body) { body(); }

}  // namespace heddle::test
