// Several processes reduce arrays while they compute:  heddle launch -n 4 -- ranks
// Without the launcher the job has one rank. Exits with 1 if a result is wrong.
#include <cstdio>
#include <vector>

#include <heddle/heddle.h>

using namespace heddle;

int main() {
  const auto comm = Communicator::create();
  const int rank = comm->rank(), size = comm->size();

  NDArray a = full({4}, rank + 1), b = zeros({4});
  comm->all_reduce(a, b);  // reads a, mutates b; returns at once
  NDArray d = a * b;       // reads a and b, so it runs after the reduction
  NDArray c = a + 1;       // only reads a, and need not wait for the reduction

  // Computes and reduces one array after the other: the reductions overlap with the computations.
  std::vector<NDArray> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(full({1000}, i) * (rank + 1));
    comm->all_reduce(all.back());
  }

  const float sum = static_cast<float>(size * (size + 1)) / 2;
  bool right = d.to_vector<float>() == std::vector<float>(4, sum * static_cast<float>(rank + 1)) &&
               c.to_vector<float>() == std::vector<float>(4, static_cast<float>(rank + 2));
  for (std::size_t i = 0; i < all.size(); ++i) {
    right &= all[i].to_vector<float>() == std::vector<float>(1000, sum * static_cast<float>(i));
  }
  std::printf("rank %d of %d over %s: %s\n", rank, size, comm->backend().c_str(), right ? "right" : "WRONG");
  return right ? 0 : 1;
}
