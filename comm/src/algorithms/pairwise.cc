// Pairwise exchange (Thakur et al. 2005, section 4.2), and the dissemination barrier of Hensgen, Finkel and Manber,
// "Two algorithms for barrier synchronization", IJPP 1988.
#include <cstring>

#include "algorithms/algorithms.h"

namespace heddle::comm_detail {

void pairwise_all_to_all(Transport& transport, const std::byte* in, const std::vector<Part>& in_parts,
                         std::byte* out, const std::vector<Part>& out_parts, std::size_t element) {
  const int size = transport.size(), rank = transport.rank();
  const auto bytes_of = [&](auto* data, const Part& part) {
    return std::span(data + part.begin * element, part.count * element);
  };
  for (int step = 0; step < size; ++step) {
    const auto to = static_cast<std::size_t>((rank + step) % size);
    const auto from = static_cast<std::size_t>((rank - step + size) % size);
    const auto sent = bytes_of(in, in_parts[to]);
    const auto received = bytes_of(out, out_parts[from]);
    if (step > 0) {
      transport.transfer(
          {.to = static_cast<int>(to), .out = sent, .from = static_cast<int>(from), .in = received});
    } else if (!sent.empty()) {
      std::memcpy(received.data(), sent.data(), sent.size());
    }
  }
}

void dissemination_barrier(Transport& transport) {
  const int size = transport.size(), rank = transport.rank();
  for (int distance = 1; distance < size; distance *= 2) {
    transport.transfer({.to = (rank + distance) % size, .from = (rank - distance + size) % size});
  }
}

}  // namespace heddle::comm_detail
