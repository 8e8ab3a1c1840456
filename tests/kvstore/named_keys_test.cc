// Keys with names behave like numbered keys, in each store.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/engine.h>
#include <heddle/ops.h>

#include "dist_job.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;
using Floats = std::vector<float>;

namespace {

const std::vector<Key> kNames = {"layer", "layer.weight", 7, "7 times", std::string(900, 'n')};

Floats pulled(KVStore& store, const Key& key, const Shape& shape) {
  const NDArray out = zeros(shape);
  store.pull(key, out);
  return out.to_vector<float>();
}

void use_names(KVStore& store) {
  const auto workers = static_cast<float>(store.workers());
  store.set_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
  std::vector<NDArray> ones_of_all;
  for (const Key& key : kNames) {
    store.init(key, zeros({3}));
    ones_of_all.push_back(ones({3}));
  }
  for (const Key& key : kNames) {
    store.push(key, ones({3}));
    CHECK(pulled(store, key, {3}) == Floats(3, -workers));
  }
  CHECK(pulled(store, "7", {3}) == Floats(3, -workers));  // the name "7" and the number 7 are one key
  std::map<std::string, NDArray> state = store.optimizer_state();
  // Copied, since further pushes change the arrays that a local store returns.
  for (auto& [name, array] : state) array = array.copy();
  CHECK(state.size() == 2 * kNames.size());
  CHECK(state.at("layer.velocity").to_vector<float>() == Floats(3, workers));
  CHECK(state.at("layer.weight.velocity").to_vector<float>() == Floats(3, workers));
  store.push(kNames, ones_of_all);
  for (const Key& key : kNames) CHECK(pulled(store, key, {3}) == Floats(3, -2.5F * workers));
  store.set_optimizer_state(state);  // restores the state before the second push
  for (const Key& key : kNames) store.push(key, ones({3}));
  for (const Key& key : kNames) CHECK(pulled(store, key, {3}) == Floats(3, -4.0F * workers));
  CHECK(message_of<InvalidArgument>([&] { store.init("layer", zeros({3})); }) ==
        "KVStore::init, key layer: the key exists already");
  CHECK(message_of<InvalidArgument>([&] { store.pull("lawyer", zeros({3})); }) ==
        "KVStore::pull, key lawyer: the key is unknown; init it first");
}

}  // namespace

TEST_CASE("named keys: local") { use_names(*KVStore::create("local")); }

TEST_CASE("named keys: allreduce") {
  use_names(*KVStore::create("allreduce", Communicator::create_local(1)[0]));
}

TEST_CASE("named keys: on servers") {
  for (const char* const transport : kTransports) {
    CAPTURE(std::string(transport));
    run_job({.workers = 2, .servers = 3, .transport = transport}, use_names);
  }
}
