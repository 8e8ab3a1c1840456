// Threads as ranks for tests, and their rendezvous.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "ranks.h"

namespace heddle::test {

// The texts over which threads rendezvous: they make any number of all_gathers, one after the other.
class RendezvousTexts {
 public:
  explicit RendezvousTexts(int size) : texts_(static_cast<std::size_t>(size)) {}
  int size() const { return static_cast<int>(texts_.size()); }

  std::vector<std::string> all_gather(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    texts_[static_cast<std::size_t>(rank)] = mine;
    if (++come_ == size()) {
      complete_ = texts_;
      come_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != round; });
    return complete_;
  }

 private:
  std::mutex mutex_;  // guards the members below
  std::condition_variable all_here_;
  std::vector<std::string> texts_, complete_;
  int come_ = 0, round_ = 0;
};

class ThreadRendezvous : public comm_detail::Rendezvous {
 public:
  ThreadRendezvous(RendezvousTexts& texts, int rank) : texts_(texts), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return texts_.size(); }
  std::uint32_t epoch() const override { return 7; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    return texts_.all_gather(rank_, mine);
  }

 private:
  RendezvousTexts& texts_;
  const int rank_;
};

// Runs f(rendezvous) on a thread for each rank. Returns each rank's exception; null if the rank threw none.
inline Outcomes run_ranks(int size, const std::function<void(comm_detail::Rendezvous&)>& f) {
  RendezvousTexts texts(size);
  return on_threads(size, [&](int rank) {
    ThreadRendezvous rendezvous(texts, rank);
    f(rendezvous);
  });
}

}  // namespace heddle::test
