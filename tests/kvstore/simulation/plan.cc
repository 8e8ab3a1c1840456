#include "simulation/plan.h"

#include <algorithm>
#include <array>
#include <random>

namespace heddle::kv_detail::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLarge = 300'000;  // number of elements of a value that needs several pieces
constexpr std::array<const char*, 5> kConsistencies = {"sync", "async", "ssp:0", "ssp:1", "ssp:3"};
constexpr std::array<int, 4> kWorkerPauses = {0, 20, 200, 1000}, kSingleFaults = {0, 50, 200, 500},
                             kAnyFaults = {50, 300, 1000, 4000}, kLostAfter = {0, 0, 500, 4000};

template <class Values> auto one_of(const Values& values, std::mt19937_64& random) {
  return values[random() % values.size()];
}

// Decides which keys are pushed together: in half of the plans the small values of a shard form a list.
void make_groups(Plan& plan, std::mt19937_64& random) {
  std::vector<std::vector<std::uint32_t>> lists(plan.servers);
  const bool has_lists = random() % 2 == 0;
  for (std::uint32_t key = 0; key < plan.keys.size(); ++key) {
    const KeyPlan& mine = plan.keys[key];
    const bool listed = has_lists && mine.rows == 0 && mine.elements > 0 && mine.elements < kLarge;
    if (listed) {
      lists[mine.shard].push_back(key);
    } else {
      plan.groups.push_back({key});
    }
  }
  for (auto& list : lists) {
    if (!list.empty()) plan.groups.push_back(std::move(list));
  }
}

}  // namespace

Plan random_plan(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  Plan plan;
  plan.one_fault_at_a_time = seed % 2 == 0;
  plan.keys_at_once = seed % 3 == 0 ? 128 : 1;
  plan.servers = plan.one_fault_at_a_time ? 2 + below(2) : 1 + below(3);
  plan.replicas = plan.one_fault_at_a_time || below(4) > 0 ? 2 : 1;
  plan.workers = 1 + below(3);
  plan.rounds = 1 + below(100);
  plan.consistency = one_of(kConsistencies, random);
  const std::uint32_t keys = 1 + below(5);
  for (std::uint32_t key = 0; key < keys; ++key) {
    KeyPlan one{.shard = key % plan.servers, .rows = below(3) == 0 ? 1 + below(6) : 0, .elements = below(6)};
    if (one.rows > 0) one.elements = 1 + below(3);
    plan.keys.push_back(one);
  }
  if (below(200) == 0) {
    plan.keys[0] = {.shard = 0, .rows = 0, .elements = kLarge};
    plan.rounds = std::min(plan.rounds, 5u);
  }
  make_groups(plan, random);
  plan.most_pause = milliseconds(one_of(kWorkerPauses, random));
  plan.fault_pause = milliseconds(one_of(plan.one_fault_at_a_time ? kSingleFaults : kAnyFaults, random));
  plan.lost_after = milliseconds(one_of(kLostAfter, random));
  return plan;
}

}  // namespace heddle::kv_detail::sim
