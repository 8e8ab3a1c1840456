#include <algorithm>
#include <bit>
#include <cmath>

#include <heddle/cost_model.h>

#include "algorithms/algorithms.h"

namespace heddle {
namespace {

// Adds up the times of steps that all ranks take together.
class Steps {
 public:
  Steps(const NetworkCost& network, int ranks)
      : network_(network), ranks_(ranks), here_(std::clamp(network.ranks_per_host, 1, ranks)) {}

  // `taking_part` of all ranks exchange a message with the rank at `distance` (rank xor distance).
  void exchange(int distance, double bytes, double combined, int taking_part) {
    const int crossing = crossing_at(distance);
    double seconds = crossing < here_ ? message(network_.local, bytes) : 0;
    if (crossing > 0) seconds = std::max(seconds, message(network_.remote, bytes * crossing));
    add(seconds + combined * network_.gamma, std::min(here_, taking_part));
  }

  // Every rank sends `count` messages one after the other around a ring; one rank of each host sends to another host.
  void passing(double count, double bytes, double combined) {
    double seconds = here_ > 1 ? message(network_.local, bytes) : 0;
    if (here_ < ranks_) seconds = std::max(seconds, message(network_.remote, bytes));
    add(count * (seconds + combined * network_.gamma), here_);
  }

  // `count` messages between the root and a child at `distance`, while `busy` ranks of a host do the same.
  void from_child(int distance, double count, double bytes, double combined, double busy) {
    const LinkCost& link = distance < here_ ? network_.local : network_.remote;
    add(count * (message(link, bytes) + combined * network_.gamma), busy);
  }

  int ranks_here() const { return here_; }
  // The work of a host's ranks takes at least its sum over the host's cores.
  double seconds() const { return network_.cores > 0 ? std::max(path_, work_ / network_.cores) : path_; }

 private:
  static double message(const LinkCost& link, double bytes) { return link.alpha + bytes * link.beta; }
  void add(double seconds, double busy) {
    path_ += seconds;
    work_ += seconds * busy;
  }
  // How many of a host's ranks have their partner on another host.
  int crossing_at(int distance) const {
    if (here_ >= ranks_) return 0;
    if (distance >= here_) return here_;
    return here_ % (2 * distance) == 0 ? 0 : std::min(distance, here_);
  }

  const NetworkCost& network_;
  const int ranks_, here_;
  double path_ = 0, work_ = 0;
};

double ring(const NetworkCost& network, int ranks, double bytes) {
  Steps steps(network, ranks);
  const double part = bytes / ranks;
  steps.passing(ranks - 1, part, part);
  steps.passing(ranks - 1, part, 0);
  return steps.seconds();
}

// Pieces are pipelined. The time is that of the root, which handles each piece once for each child.
double tree(const NetworkCost& network, int ranks, double bytes) {
  Steps steps(network, ranks);
  const double pieces = std::max(1.0, std::ceil(bytes / static_cast<double>(comm_detail::kTreePiece)));
  const double children = std::bit_width(static_cast<unsigned>(ranks - 1));
  const double busy = std::max(1.0, (steps.ranks_here() - 1) / children);
  for (int distance = 1; distance < ranks; distance *= 2) {
    steps.from_child(distance, pieces, bytes / pieces, bytes / pieces, busy);
    steps.from_child(distance, pieces, bytes / pieces, 0, busy);
  }
  return steps.seconds();
}

// Ranks beyond the largest power of two send their data to other ranks first, and receive the result at the end.
template <class F> double folded(const NetworkCost& network, int ranks, double bytes, F&& between) {
  Steps steps(network, ranks);
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int outside = ranks - core;
  if (outside > 0) steps.exchange(core, bytes, bytes, 2 * outside);
  between(steps, core);
  if (outside > 0) steps.exchange(core, bytes, 0, 2 * outside);
  return steps.seconds();
}

double recursive_doubling(const NetworkCost& network, int ranks, double bytes) {
  return folded(network, ranks, bytes, [&](Steps& steps, int core) {
    for (int distance = 1; distance < core; distance *= 2) steps.exchange(distance, bytes, bytes, core);
  });
}

double halving_doubling(const NetworkCost& network, int ranks, double bytes) {
  return folded(network, ranks, bytes, [&](Steps& steps, int core) {
    double part = bytes / 2;
    for (int distance = 1; distance < core; distance *= 2, part /= 2) {
      steps.exchange(distance, part, part, core);
      steps.exchange(distance, part, 0, core);
    }
  });
}

double one_level(AllReduce algorithm, const NetworkCost& network, int ranks, double bytes) {
  switch (algorithm) {
    case AllReduce::ring:
      return ring(network, ranks, bytes);
    case AllReduce::tree:
      return tree(network, ranks, bytes);
    case AllReduce::recursive_doubling:
      return recursive_doubling(network, ranks, bytes);
    default:
      return halving_doubling(network, ranks, bytes);
  }
}

// Between hosts, every rank reduces its slice with those that have the same slice; all ranks of a host do so at once.
double hierarchical(const NetworkCost& network, int ranks, double bytes) {
  const int here = std::clamp(network.ranks_per_host, 1, ranks), hosts = (ranks + here - 1) / here;
  NetworkCost host = network, between = network;
  between.ranks_per_host = 1;
  between.remote.beta *= here;
  between.cores = 0;
  double seconds = here > 1 ? ring(host, here, bytes) : 0;
  if (hosts > 1) {
    // The same condition as in hierarchical.cc.
    const bool power = std::has_single_bit(static_cast<unsigned>(hosts));
    seconds += (power ? halving_doubling : ring)(between, hosts, bytes / here);
  }
  return seconds;
}

}  // namespace

const char* name_of(AllReduce algorithm) {
  constexpr const char* kNames[] = {"ring", "tree", "recursive_doubling", "halving_doubling", "hierarchical"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

double all_reduce_seconds(AllReduce algorithm, const NetworkCost& network, int ranks, double bytes) {
  if (ranks < 2) return 0;
  if (algorithm == AllReduce::hierarchical) return hierarchical(network, ranks, bytes);
  return one_level(algorithm, network, ranks, bytes);
}

AllReduce fastest_all_reduce(std::span<const AllReduce> candidates, const NetworkCost& network, int ranks,
                             double bytes) {
  AllReduce best = candidates.front();
  double least = all_reduce_seconds(best, network, ranks, bytes);
  for (const AllReduce other : candidates.subspan(1)) {
    const double seconds = all_reduce_seconds(other, network, ranks, bytes);
    if (seconds < least) best = other, least = seconds;
  }
  return best;
}

}  // namespace heddle
