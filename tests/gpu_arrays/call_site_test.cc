// Functions for arrays on a GPU alone: their ops name the line of the call.
#include <doctest/doctest.h>

#include <heddle/dlpack.h>
#include <heddle/ops.h>

#include "call_sites.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("ops that put streams of other libraries in order name the line of the call") {
  const NDArray x = ones({4}, DType::f32, gpu(0));
  const DLPackStream legacy{reinterpret_cast<void*>(1)};
  check_site("order_before", [&] { order_before(x, legacy); });
  check_site("order_after", [&] { order_after(x, legacy); });
  check_site("ordered_stream", [&] { ordered_stream(x); });
}
