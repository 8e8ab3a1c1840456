// Repeats a test with several orders of execution.
#pragma once

#include <functional>

namespace heddle::test {

// On the emulated GPU: with threaded and stepped streams, and seeds; on a real one once. emulated_seeds.cc or
// real_seeds.cc is linked.
void for_each_seed(const std::function<void()>& body);

}  // namespace heddle::test
