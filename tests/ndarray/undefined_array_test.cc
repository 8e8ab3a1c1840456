// Every member of NDArray, and every function of this module on arrays, refuses an undefined array with the
// same message.
#include <functional>
#include <message_of.h>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/npy.h>
#include <heddle/safetensors.h>

using namespace heddle;

namespace {

using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

void check_refused(const Calls& calls) {
  for (const auto& [name, call] : calls) {
    CHECK(test::message_of<InvalidArgument>(call) ==
          name +
              ": an array is undefined: made without a shape, moved from, or a gradient before backward()");
  }
}

const NDArray kNone;

}  // namespace

TEST_CASE("every member refuses an undefined array in its own name") {
  check_refused({
      {"shape", [] { kNone.shape(); }},
      {"strides", [] { kNone.strides(); }},
      {"offset", [] { kNone.offset(); }},
      {"dtype", [] { kNone.dtype(); }},
      {"ndim", [] { kNone.ndim(); }},
      {"size", [] { kNone.size(); }},
      {"device", [] { kNone.device(); }},
      {"engine", [] { kNone.engine(); }},
      {"var", [] { kNone.var(); }},
      {"storage", [] { kNone.storage(); }},
      {"is_contiguous", [] { kNone.is_contiguous(); }},
      {"covers_storage", [] { kNone.covers_storage(); }},
      {"overlaps_itself", [] { kNone.overlaps_itself(); }},
      {"view", [] { kNone.view({1}, {1}, 0); }},
      {"operator[]", [] { kNone[0]; }},
      {"slice", [] { kNone.slice(0, {}); }},
      {"view_as", [] { kNone.view_as({1}); }},
      {"permuted", [] { kNone.permuted({}); }},
      {"broadcast_view", [] { kNone.broadcast_view({2}); }},
      {"detach", [] { kNone.detach(); }},
      {"copy", [] { kNone.copy(); }},
      {"copy_to", [] { kNone.copy_to(cpu()); }},
      {"contiguous", [] { kNone.contiguous(); }},
      {"astype", [] { kNone.astype(DType::f64); }},
      {"assign", [] { kNone.assign(zeros({1})); }},
      {"assign", [] { zeros({1}).assign(kNone); }},
      {"fill", [] { kNone.fill(1.5); }},
      {"fill", [] { kNone.fill(1); }},
      {"wait", [] { kNone.wait(); }},
      {"to_string", [] { kNone.to_string(); }},
      {"item", [] { kNone.item<float>(); }},
      {"item", [] { static_cast<void>(kNone.item()); }},
      {"operator bool", [] { static_cast<void>(static_cast<bool>(kNone)); }},
      {"size", [] { kNone.size(0); }},
      {"view_as", [] { kNone.view({1}); }},
      {"to_vector", [] { kNone.to_vector<float>(); }},
      {"data", [] { kNone.data<float>(); }},
      {"data", [] { kNone.data<const std::byte>(); }},
  });
  CHECK_FALSE(kNone.defined());
}

TEST_CASE("every function on arrays refuses an undefined one in its own name") {
  check_refused({
      {"zeros_like", [] { zeros_like(kNone); }},
      {"to_string", [] { std::ostringstream() << kNone; }},
      {"save_npy", [] { save_npy("/nowhere", kNone); }},
      {"save_safetensors: 'x'",
       [] {
         save_safetensors("/nowhere", {.arrays = {{"x", kNone}}, .metadata = {}});
       }},
      {"scale", [] { array_push("scale", {kNone}, {zeros({1})}, [] {}); }},
      {"scale", [] { array_push("scale", {zeros({1})}, {kNone}, [] {}); }},
      {"scale",
       [] {
         array_access("scale", {&kNone, 1}, {});
       }},
  });
}
