// A program that trains, linked with heddle::kvstore alone: its stores work, and those on servers say which library has them.
#include <cstdio>
#include <memory>
#include <string>

#include <heddle/heddle.h>

namespace {

// Trains one parameter towards 3 with a store of that type.
bool learns(std::shared_ptr<heddle::KVStore> store) {
  heddle::NDArray x = heddle::zeros({1});
  heddle::set_requires_grad(x);
  heddle::Trainer trainer({{"x", x}}, {.params = {{"lr", 0.3}}, .store = std::move(store)});
  for (int step = 0; step < 50; ++step) {
    heddle::backward(heddle::sum(heddle::square(x - 3.0)));
    trainer.step();
  }
  return std::abs(x.item<float>() - 3) < 1e-3f;
}

std::string refusal(const std::string& type) {
  try {
    heddle::KVStore::create(type);
    return "nothing was thrown";
  } catch (const heddle::InvalidArgument& error) {
    return error.message();
  }
}

}  // namespace

int main() {
  const std::string want =
      "KVStore::create: dist_sync stores are in the library heddle::servers, with which this program is not "
      "linked";
  const bool local = learns(heddle::KVStore::create("local"));
  const bool reduced = learns(heddle::KVStore::create("allreduce"));
  const std::string got = refusal("dist_sync");
  std::printf("local %d, allreduce %d, dist_sync: %s\n", local, reduced, got.c_str());
  return local && reduced && got == want ? 0 : 1;
}
