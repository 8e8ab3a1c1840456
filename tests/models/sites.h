// Every place where the product names a memory order, as the running model meets it, and the one that is weakened.
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
  std::string name() const;  // "SubmissionQueue::push exchange": stays the same when lines move
};

// Which orders are weaker than `order` and legal for `kind`, strongest first.
std::vector<rl::memory_order> weaker(rl::memory_order order, Kind kind);

// While one lives, sites are collected.
class Collector {
 public:
  Collector();
  ~Collector();
  std::vector<Site> sites() const;  // by file and line
};

// While one lives, `site` has the order `to`.
class Weakening {
 public:
  Weakening(const Site& site, rl::memory_order to);
  ~Weakening();
};

extern bool sites_matter;  // a Collector or a Weakening lives
rl::memory_order order_at(rl::memory_order order, Kind kind, const std::source_location& at);

inline rl::memory_order weakened(rl::memory_order order, Kind kind, const std::source_location& at) {
  return sites_matter ? order_at(order, kind, at) : order;
}

}  // namespace model
