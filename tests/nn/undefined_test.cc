// Layers and optimizers refuse undefined arrays in the words of operators.
#include "undefined.h"

#include <string>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/sequential.h>

#include "layer_samples.h"

namespace heddle {

using test::check_refused;

namespace {

const NDArray kNone;
NDArray some() { return ones({2, 2}); }

}  // namespace

TEST_CASE("each layer refuses an undefined array") {
  for (const LayerInfo& info : layers()) {
    const std::shared_ptr<Module> layer = test::sample_of(info);
    const std::string name = layer->to_string();
    check_refused({{name, [&] { (*layer)(kNone); }}});
  }
}

TEST_CASE("Sequential and optimizers refuse undefined arrays") {
  const auto sgd = create_optimizer("sgd");
  check_refused({
      {"layer 0: Relu",
       [] {
         Sequential{Relu(), Tanh()}(kNone);
       }},
      {"Sequential", [] { Sequential()(kNone); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, kNone, some()); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, some(), kNone); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, some(), RowSparse()); }},
      {"optimizer sgd, weight 3", [&] { sgd->update(3, kNone, retain(some(), zeros({1}, DType::i64))); }},
      {"optimizer sgd: '3.updates'",
       [&] {
         sgd->set_state({{"3.updates", kNone}});
       }},
  });
}

}  // namespace heddle
