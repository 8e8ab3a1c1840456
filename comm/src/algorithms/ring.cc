// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
#include "algorithms/algorithms.h"

namespace heddle::comm_detail {
namespace {

int wrapped(int rank, int size) { return (rank % size + size) % size; }

// p-1 steps. In each a rank sends the part that it has added to in the step before. At the end it has part `rank`.
void reduce_scatter(Transport& transport, const Operand& operand, const std::vector<Part>& parts) {
  const int size = transport.size(), rank = transport.rank();
  for (int step = 1; step < size; ++step) {
    const auto sent = static_cast<std::size_t>(wrapped(rank - step, size));
    const auto received = static_cast<std::size_t>(wrapped(rank - step - 1, size));
    transport.transfer({.to = wrapped(rank + 1, size),
                        .out = operand.part(parts[sent]),
                        .from = wrapped(rank - 1, size),
                        .in = operand.part(parts[received]),
                        .combine = operand.combine,
                        .arriving_first = true});
  }
}

std::vector<Part> even_parts(std::size_t count, int size) {
  std::vector<Part> parts;
  for (int part = 0; part < size; ++part) parts.push_back(part_of(count, part, size));
  return parts;
}

}  // namespace

void ring_reduce_scatter(Transport& transport, const Operand& operand) {
  reduce_scatter(transport, operand, even_parts(operand.count, transport.size()));
}

void ring_all_gather(Transport& transport, std::byte* data, const std::vector<Part>& parts,
                     std::size_t element) {
  const int size = transport.size(), rank = transport.rank();
  const Operand all{data, 0, element, nullptr};
  for (int step = 0; step + 1 < size; ++step) {
    const auto sent = static_cast<std::size_t>(wrapped(rank - step, size));
    const auto received = static_cast<std::size_t>(wrapped(rank - step - 1, size));
    transport.transfer({.to = wrapped(rank + 1, size),
                        .out = all.part(parts[sent]),
                        .from = wrapped(rank - 1, size),
                        .in = all.part(parts[received])});
  }
}

void ring_all_reduce(Transport& transport, const Operand& operand) {
  const std::vector<Part> parts = even_parts(operand.count, transport.size());
  reduce_scatter(transport, operand, parts);
  ring_all_gather(transport, operand.data, parts, operand.element);
}

}  // namespace heddle::comm_detail
