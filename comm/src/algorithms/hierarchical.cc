// Two levels, because messages inside a host are faster than those between hosts. As in Goyal et al.,
// "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017, section 4, and Mikami et al.,
// "Massively distributed SGD", 2018 (2D torus).
#include <algorithm>
#include <map>

#include "algorithms/algorithms.h"
#include "algorithms/group_transport.h"

namespace heddle::comm_detail {
namespace {

// The ranks of each host, in increasing order.
std::vector<std::vector<int>> ranks_by_host(const std::vector<int>& hosts) {
  std::map<int, std::vector<int>> by_host;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    by_host[hosts[static_cast<std::size_t>(rank)]].push_back(rank);
  std::vector<std::vector<int>> all;
  for (auto& [host, ranks] : by_host) all.push_back(std::move(ranks));
  return all;
}

void best_all_reduce(Transport& transport, const Operand& operand) {
  const int size = transport.size();
  (size & (size - 1)) == 0 ? halving_doubling_all_reduce(transport, operand)
                           : ring_all_reduce(transport, operand);
}

// Each rank of a host owns a part, which it reduces with the owners of the same part on other hosts. All ranks of a
// host use the network at once.
void by_parts(Transport& transport, const Operand& operand, const std::vector<std::vector<int>>& hosts,
              const std::vector<int>& mine) {
  GroupTransport inside(transport, mine);
  ring_reduce_scatter(inside, operand);
  std::vector<Part> parts;
  for (int part = 0; part < inside.size(); ++part)
    parts.push_back(part_of(operand.count, part, inside.size()));
  const auto place = static_cast<std::size_t>(inside.rank());
  std::vector<int> counterparts;
  for (const auto& host : hosts) counterparts.push_back(host[place]);
  GroupTransport between(transport, counterparts);
  const auto part = operand.part(parts[place]);
  best_all_reduce(between, {part.data(), parts[place].count, operand.element, operand.combine});
  ring_all_gather(inside, operand.data, parts, operand.element);
}

// The first rank of each host reduces for the others.
void by_leaders(Transport& transport, const Operand& operand, const std::vector<std::vector<int>>& hosts,
                const std::vector<int>& mine) {
  GroupTransport inside(transport, mine);
  tree_reduce(inside, operand, 0);
  if (inside.rank() == 0) {
    std::vector<int> leaders;
    for (const auto& host : hosts) leaders.push_back(host[0]);
    GroupTransport between(transport, leaders);
    best_all_reduce(between, operand);
  }
  tree_broadcast(inside, operand.all(), 0);
}

}  // namespace

void hierarchical_all_reduce(Transport& transport, const Operand& operand, const std::vector<int>& hosts) {
  const auto by_host = ranks_by_host(hosts);
  const auto& mine = *std::find_if(by_host.begin(), by_host.end(), [&](const std::vector<int>& host) {
    return std::find(host.begin(), host.end(), transport.rank()) != host.end();
  });
  const bool even = std::all_of(by_host.begin(), by_host.end(),
                                [&](const std::vector<int>& host) { return host.size() == mine.size(); });
  (even ? by_parts : by_leaders)(transport, operand, by_host, mine);
}

}  // namespace heddle::comm_detail
