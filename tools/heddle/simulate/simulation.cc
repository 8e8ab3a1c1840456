#include "simulation.h"

#include <algorithm>
#include <stdexcept>

namespace heddle::tool {
namespace {

constexpr AllReduce kAlgorithms[] = {AllReduce::ring, AllReduce::tree, AllReduce::recursive_doubling,
                                     AllReduce::halving_doubling, AllReduce::hierarchical};

// When a gradient or a bucket of gradients is ready to be reduced, and when its reduction is done, in
// seconds.
struct Span {
  double ready, done;
};

std::vector<Span> reduce_all(const Step& step, AllReduce algorithm, const SimulatedCluster& cluster,
                             int ranks) {
  std::vector<Span> spans;
  double wire_free = 0;
  for (const Gradient& bucket : in_buckets(step.gradients, cluster.bucket)) {
    const double start = std::max(bucket.ready, wire_free);
    wire_free = start + all_reduce_seconds(algorithm, cluster.network, ranks, bucket.bytes);
    spans.push_back({bucket.ready, wire_free});
  }
  return spans;
}

// Simulates pushes to and pulls from parameter servers. All workers behave alike, so the links of one host
// are simulated for all hosts. Links are full duplex.
class Servers {
 public:
  Servers(const SimulatedCluster& cluster, int ranks)
      : network_(cluster.network),
        ranks_(ranks),
        here_(std::clamp(cluster.network.ranks_per_host, 1, ranks)) {
    const int hosts = (ranks + here_ - 1) / here_;
    const auto count = static_cast<std::size_t>(cluster.servers > 0 ? cluster.servers : hosts);
    in_.resize(count);
    out_.resize(count);
  }

  Span push_and_pull(const Gradient& gradient) {
    const bool parted = gradient.bytes >= kLarge;
    const std::size_t parts = parted ? in_.size() : 1;
    const double part = gradient.bytes / static_cast<double>(parts);
    const double host = messages(static_cast<double>(parts), here_ * gradient.bytes);
    const double start = std::max(gradient.ready, host_out_);
    host_out_ = start + host;
    double done = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t server = parted ? i : next_++ % in_.size();
      in_[server] =
          std::max(host_out_, std::max(in_[server], start) + served(part) + ranks_ * part * network_.gamma);
      const double pull = std::max(out_[server], in_[server]);
      host_in_ = std::max(host_in_, pull) + host / static_cast<double>(parts);
      out_[server] = std::max(pull + served(part), host_in_);
      done = std::max(done, out_[server]);
    }
    return {gradient.ready, done};
  }

 private:
  // Gradients with at least this many bytes are split over all servers: 10^6 f32, the default of MXNet's
  // MXNET_KVSTORE_BIGARRAY_BOUND.
  static constexpr double kLarge = 4e6;
  double messages(double count, double bytes) const {
    return count * network_.remote.alpha + bytes * network_.remote.beta;
  }
  // How long a server's link is busy with one message of `bytes` bytes to or from each worker.
  double served(double bytes) const { return messages(ranks_, ranks_ * bytes); }

  const NetworkCost& network_;
  const int ranks_, here_;
  std::vector<double> in_, out_;  // for each server, the times when its link is free, in each direction
  double host_in_ = 0, host_out_ = 0;
  std::size_t next_ = 0;
};

std::vector<Span> serve_all(const Step& step, const SimulatedCluster& cluster, int ranks) {
  Servers servers(cluster, ranks);
  std::vector<Span> spans;
  for (const Gradient& gradient : step.gradients) spans.push_back(servers.push_and_pull(gradient));
  return spans;
}

}  // namespace

Scheme scheme_of(const std::string& name) {
  if (name == "server") return {name, AllReduce::ring, true};
  std::string known;
  for (const AllReduce algorithm : kAlgorithms) {
    if (name == name_of(algorithm)) return {name, algorithm};
    known += name_of(algorithm) + std::string(", ");
  }
  throw std::runtime_error("there is no algorithm '" + name + "'; there is " + known + "server");
}

Outcome simulate(const Step& step, const Scheme& scheme, const SimulatedCluster& cluster, int ranks) {
  const std::vector<Span> spans = ranks < 2       ? std::vector<Span>{}
                                  : scheme.server ? serve_all(step, cluster, ranks)
                                                  : reduce_all(step, scheme.algorithm, cluster, ranks);
  Outcome outcome;
  double end = step.compute, seen = 0, hidden = 0;
  // The spans are in the order of `ready`. Where they overlap, time counts once.
  for (const Span& span : spans) {
    const double from = std::max(span.ready, seen);
    seen = std::max(seen, span.done);
    outcome.communication += std::max(0.0, seen - from);
    hidden += std::max(0.0, std::min(seen, step.compute) - from);
    end = std::max(end, span.done);
  }
  outcome.step = end + step.after;
  outcome.efficiency = (step.compute + step.after) / outcome.step;
  outcome.hidden = outcome.communication > 0 ? hidden / outcome.communication : 1;
  return outcome;
}

}  // namespace heddle::tool
