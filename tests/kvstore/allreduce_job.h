// Runs an allreduce store with each rank on a thread of this process.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

namespace heddle::test {

// Calls body(store) on each rank, and rethrows the first error.
inline void on_ranks(int size, const std::function<void(KVStore&)>& body,
                     const KVStoreOptions& options = {}) {
  auto ranks = Communicator::create_local(size);
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*KVStore::create("allreduce", std::move(ranks[rank]), options));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace heddle::test
