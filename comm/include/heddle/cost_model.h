// Estimates the time of an all_reduce: messages * alpha + bytes * beta + combined bytes * gamma. The model is
// that of Hockney, "The communication challenge for MPP" (Parallel Computing 1994). The numbers of messages
// and bytes of each algorithm are from Thakur, Rabenseifner and Gropp (IJHPCA 2005) and Rabenseifner (ICCS
// 2004). docs/simulation.md has measurements.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace heddle {

// The cost of a message between two ranks, which send and receive at the same time.
struct LinkCost {
  double alpha = 0;  // seconds per message
  double beta = 0;   // seconds per byte
};

// What messages and sums cost on a number of hosts. The defaults were measured by comm_bench --backend tcp
// --pin --tune on 2 cores of a shared x86-64 server; those for messages between hosts stand for 25 Gbit/s.
struct NetworkCost {
  LinkCost local{5e-6, 0.09e-9};  // the link between ranks of a host
  // A link between two hosts, one in each direction, shared by the ranks of a host.
  LinkCost remote{20e-6, 0.32e-9};
  double gamma = 0.09e-9;        // seconds to combine a byte
  int ranks_per_host = 1 << 30;  // the first so many ranks are on one host, the next so many on the next host
  int cores = 0;                 // number of cores of a host, which its ranks share; 0: one for each rank
};

enum class AllReduce : std::uint8_t { ring, tree, recursive_doubling, halving_doubling, hierarchical };
const char* name_of(AllReduce algorithm);

// The estimated time in seconds of an all_reduce of n = `bytes` on p = `ranks`. The estimate is exact in the
// model (equal to a simulation of each message) on one host or with a power of two of ranks on each host, for
// bytes that divide evenly and a core for each rank.
//   ring                2(p-1) steps of n/p, each as slow as the slowest link
//   tree                the root receives and sends every piece of 64 KiB log2(p) times
//   recursive_doubling  log2(p) steps of n; + 2 of n if p is no power of two
//   halving_doubling    2 log2(p) steps of n/2, n/4 ...; + 2 of n if p is no power of two
//   hierarchical        reduce-scatter on each host, all_reduce of each slice between hosts, all-gather on
//                       each host
// With more ranks than cores, the time is at least the sum of the work of a host's ranks divided by its
// cores.
double all_reduce_seconds(AllReduce algorithm, const NetworkCost& network, int ranks, double bytes);

// The candidate with the smallest estimated time; the first one if several have that time. There must be at
// least one candidate.
AllReduce fastest_all_reduce(std::span<const AllReduce> candidates, const NetworkCost& network, int ranks,
                             double bytes);

// Parses a tuning file: a line is "NAME NUMBER"; the names are local_alpha_us, local_beta_ns, remote_alpha_us,
// remote_beta_ns and gamma_ns; # begins a comment; missing names keep built-in values. Throws InvalidArgument
// "FILE:LINE: why".
NetworkCost tuning_from_text(const std::string& text, const std::string& file);
// Parses a tuning file; also throws if it cannot be read.
NetworkCost tuning_from_file(const std::string& file);
std::string tuning_to_text(const NetworkCost& network);

}  // namespace heddle
