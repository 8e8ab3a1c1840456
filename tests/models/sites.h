// The call sites at which the product names a memory order, recorded while a model runs, and the site that is
// weakened.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include <relacy/memory_order.hpp>

namespace model {

enum class Kind { load, store, exchange, fetch_add, fetch_sub, compare_exchange, fence };

struct Site {
  std::string file, function;
  unsigned line, column;
  Kind kind;
  rl::memory_order order;
  std::string name() const;  // such as "SubmissionQueue::push exchange"; does not depend on line numbers
};

// The memory orders weaker than `order` that are legal for this kind of access, the strongest first.
std::vector<rl::memory_order> weaker(rl::memory_order order, Kind kind);

// While this object lives, the sites that the product passes are recorded.
class Collector {
 public:
  Collector();
  ~Collector();
  std::vector<Site> sites() const;  // ordered by file and line
};

// While this object lives, the memory order at `site` is replaced by `to`.
class Weakening {
 public:
  Weakening(const Site& site, rl::memory_order to);
  ~Weakening();
};

extern bool sites_matter;  // whether a Collector or a Weakening exists now
rl::memory_order order_at(rl::memory_order order, Kind kind, const std::source_location& at);

inline rl::memory_order weakened(rl::memory_order order, Kind kind, const std::source_location& at) {
  return sites_matter ? order_at(order, kind, at) : order;
}

}  // namespace model
