// Layers and optimizers refuse undefined arrays in the words of operators.
#include "undefined.h"

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/sequential.h>

namespace heddle {

using test::check_refused;

namespace {

const NDArray kNone;
NDArray some() { return ones({2, 2}); }

}  // namespace

TEST_CASE("layers and optimizers refuse undefined arrays") {
  const auto sgd = create_optimizer("sgd");
  check_refused({
      {"Dense(3, 4)", [] { Dense(3, 4)(kNone); }},
      {"Conv2d(1, 2, 3)", [] { Conv2d(1, 2, 3)(kNone); }},
      {"MaxPool2d(2)", [] { MaxPool2d(2)(kNone); }},
      {"AvgPool2d(2)", [] { AvgPool2d(2)(kNone); }},
      {"Relu", [] { Relu()(kNone); }},
      {"Tanh", [] { Tanh()(kNone); }},
      {"Sigmoid", [] { Sigmoid()(kNone); }},
      {"Flatten", [] { Flatten()(kNone); }},
      {"Embedding(3, 2)", [] { Embedding(3, 2)(kNone); }},
      {"Dropout(0.5)", [] { Dropout(0.5)(kNone); }},
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
