// Datasets that are made of others.
#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/ops.h>

#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

std::vector<std::int64_t> values_of(AnyDataset dataset) {
  Loader loader(std::move(dataset), {.batch = 3});
  std::vector<std::int64_t> result;
  for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
    for (const std::int64_t value : batch[0].to_vector<std::int64_t>()) result.push_back(value);
  }
  return result;
}

ArrayDataset range(std::int64_t begin, std::int64_t end) {
  return ArrayDataset({arange(begin, end, 1, DType::i64)});
}

}  // namespace

TEST_CASE("subsets, concatenations and maps") {
  CHECK(values_of(Subset(range(10, 20), {9, 0, 0, 4})) == std::vector<std::int64_t>{19, 10, 10, 14});
  CHECK(values_of(ConcatDataset({range(0, 3), range(7, 9), range(20, 21)})) ==
        std::vector<std::int64_t>{0, 1, 2, 7, 8, 20});
  const auto twice = [](Example example) { return Example{example[0] * 2}; };
  CHECK(values_of(MapDataset(range(0, 5), twice, {{DType::i64, {}}})) ==
        std::vector<std::int64_t>{0, 2, 4, 6, 8});
  CHECK(values_of(Subset(ConcatDataset({range(0, 3), range(7, 9)}), {4, 1})) ==
        std::vector<std::int64_t>{8, 1});
}

TEST_CASE("every dtype, views, and arrays without elements are gathered") {
  for (const DType dtype : kAllDTypes) {
    const NDArray all = arange(24, DType::i64).astype(dtype).reshape({4, 3, 2});
    const NDArray view = all.permuted({1, 0, 2});
    Loader loader(ArrayDataset({view, zeros({3, 0}), zeros({3, 1, 0, 4})}), {.batch = 2});
    const std::vector<NDArray> batch = loader.next();
    CHECK(batch[0].astype(DType::f64).to_vector<double>() ==
          view.slice(0, {0, 2}).astype(DType::f64).to_vector<double>());
    CHECK(batch[1].shape() == Shape{2, 0});
    CHECK(batch[2].shape() == Shape{2, 1, 0, 4});
  }
}

TEST_CASE("wrong datasets are refused") {
  CHECK(message_of([] { ArrayDataset({}); }) == "ArrayDataset: no arrays; wanted one or more");
  CHECK(message_of([] {
          ArrayDataset({ones({3}), ones({4, 2})});
        }) == "ArrayDataset: array 1 has 4 examples, and array 0 has 3");
  CHECK(message_of([] { ArrayDataset({ones({})}); }) ==
        "ArrayDataset: array 0 has no axis; wanted one for the examples");
  CHECK(message_of([] { ArrayDataset({NDArray()}); }) == "ArrayDataset: array 0 is undefined");
  CHECK(message_of([] { Subset(range(0, 3), {0, 3}); }) == "Subset: example 3 of 3");
  CHECK(message_of([] {
          ConcatDataset({range(0, 3), ArrayDataset({ones({2})})});
        }) == "ConcatDataset: dataset 1 has f32 () as array 0, and those before i64 ()");
  CHECK(message_of([] { ConcatDataset({}); }) == "ConcatDataset: no datasets; wanted one or more");
  CHECK(message_of([] { MapDataset(range(0, 3), MapDataset::Function(), {}); }) ==
        "MapDataset: fn is empty; wanted a function");
  CHECK(message_of([] { range(0, 3).read(3); }) == "ArrayDataset: example 3 of 3");
}

TEST_CASE("sizes that differ between datasets vary") {
  const ConcatDataset both({ArrayDataset({ones({2, 3})}), ArrayDataset({full({1, 5}, 2)})});
  CHECK(both.arrays()[0].shape == Shape{kInferred});
  Loader loader(both, {.batch = 3});
  const std::vector<NDArray> batch = loader.next();
  CHECK(batch[0].to_vector<float>() == std::vector<float>{1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 2, 2, 2, 2, 2});
  CHECK(batch[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 3, 5});
}
