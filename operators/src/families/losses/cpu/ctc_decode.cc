// Kernels of the decoders of connectionist temporal classification: the best path, and a search over beginnings of the labels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/losses/ctc_kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kDecodedGrain = 1 << 15;  // elements per chunk
constexpr double kMost = 1e300;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// The number of steps of each sequence, checked and copied.
std::vector<std::int64_t> steps_of(const char* op, const CtcProblem& p, const NDArray& input_lengths) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(p.batch), p.steps);
  if (!input_lengths.defined()) return steps;
  const auto* const lengths = input_lengths.data<const std::int64_t>();
  for (std::int64_t n = 0; n < p.batch; ++n) {
    const std::int64_t length = lengths[n];
    if (length < 0 || length > p.steps) refuse_ctc_length(op, "input length", n, length, p.steps);
    steps[static_cast<std::size_t>(n)] = length;
  }
  return steps;
}

void ctc_greedy_kernel(const KernelContext&, const CtcProblem& p, const NDArray& x,
                       const NDArray& input_lengths, const NDArray& labels, const NDArray& numbers) {
  const std::vector<std::int64_t> steps = steps_of("ctc_greedy_decode", p, input_lengths);
  auto* const all = labels.data<std::int64_t>();
  auto* const found = numbers.data<std::int64_t>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kDecodedGrain / std::max<std::int64_t>(1, p.steps * p.classes));
  visit_floating(x.dtype(), [&]<class T>() {
    const T* const from = x.data<const T>();
    parallel_for(p.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        std::int64_t* const row = all + n * p.steps;
        std::int64_t count = 0, before = p.blank;
        for (std::int64_t t = 0; t < steps[static_cast<std::size_t>(n)]; ++t) {
          const T* const scores = from + (t * p.batch + n) * p.classes;
          const std::int64_t best = std::max_element(scores, scores + p.classes) - scores;
          if (best != before && best != p.blank) row[count++] = best;
          before = best;
        }
        std::fill(row + count, row + p.steps, std::int64_t{-1});
        found[n] = count;
      }
    });
  });
}

double log_of_sum(double a, double b) {
  const double most = std::max(a, b);
  return most == kImpossible ? most : most + std::log1p(std::exp(std::min(a, b) - most));
}

// Beginnings of the labels of one sequence: a tree whose nodes are beginnings, and the most probable of them.
class PrefixSearch {
 public:
  PrefixSearch(const CtcProblem& p, std::int64_t beam) : p_(p), beam_(static_cast<std::size_t>(beam)) {}

  // Adds a step with these logarithms of probabilities.
  template <class T> void step(const T* x) {
    row_.assign(x, x + p_.classes);
    for (double& one : row_)
      one = std::isnan(one) ? kImpossible : std::min(one, kMost);  // these have an order
    places_.clear();
    for (std::size_t i = 0; i < kept_.size(); ++i) places_.emplace(kept_[i].node, i);
    candidates_.clear();
    for (const Kept& kept : kept_) candidates_.push_back(stay(kept));
    find_likely_classes();
    for (const Kept& kept : kept_)
      for (const std::int64_t label : likely_) extend(kept, label);
    keep_best();
  }
  double best_score() const { return kept_.front().total; }
  // Writes the labels of the best beginning, and returns their number.
  std::int64_t write_best(std::int64_t* labels) const {
    std::int64_t count = 0;
    for (std::int64_t node = kept_.front().node; node != 0; node = tree_[at(node)].parent)
      labels[count++] = tree_[at(node)].label;
    std::reverse(labels, labels + count);
    return count;
  }

 private:
  struct Node {
    std::int64_t parent, label;
  };
  // The probabilities of the alignments of a beginning that end in a blank, and in its last label.
  struct Kept {
    std::int64_t node;
    double blank, label, total;
  };
  struct Candidate {
    std::int64_t node;  // -1: not in the tree yet
    Node added;
    double blank, label, total;
  };

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  // What the beginning and one more label get from alignments of the beginning; a repeated label needs a blank before it.
  double extended(const Kept& kept, std::int64_t label) const {
    return (tree_[at(kept.node)].label == label ? kept.blank : kept.total) + row_[at(label)];
  }
  Candidate stay(const Kept& kept) const {
    const Node& node = tree_[at(kept.node)];
    Candidate same{kept.node, {}, kept.total + row_[at(p_.blank)], kImpossible, 0};
    if (kept.node != 0) {
      same.label = kept.label + row_[at(node.label)];
      if (const auto parent = places_.find(node.parent); parent != places_.end())
        same.label = log_of_sum(same.label, extended(kept_[parent->second], node.label));
    }
    same.total = log_of_sum(same.blank, same.label);
    return same;
  }
  // One class more than beginnings are kept: no other can lead to one that is kept, since all but the last label count the same.
  void find_likely_classes() {
    likely_.clear();
    for (std::int64_t c = 0; c < p_.classes; ++c)
      if (c != p_.blank) likely_.push_back(c);
    const std::size_t count = std::min(likely_.size(), beam_ + 1);
    std::partial_sort(likely_.begin(), likely_.begin() + static_cast<std::ptrdiff_t>(count), likely_.end(),
                      [&](std::int64_t a, std::int64_t b) {
                        return row_[at(a)] != row_[at(b)] ? row_[at(a)] > row_[at(b)] : a < b;
                      });
    likely_.resize(count);
  }
  void extend(const Kept& kept, std::int64_t label) {
    const double score = extended(kept, label);
    if (score == kImpossible) return;
    const auto known = children_.find(kept.node * p_.classes + label);
    const std::int64_t node = known == children_.end() ? -1 : known->second;
    if (node >= 0 && places_.contains(node)) return;  // stay() has it
    candidates_.push_back({node, {kept.node, label}, kImpossible, score, score});
  }
  void keep_best() {
    order_.resize(candidates_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const std::size_t count = std::min(order_.size(), beam_);
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), order_.end(),
                      [&](std::size_t a, std::size_t b) {
                        const double x = candidates_[a].total, y = candidates_[b].total;
                        return x != y ? x > y : a < b;
                      });
    kept_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      Candidate& one = candidates_[order_[i]];
      if (one.node < 0) {
        one.node = static_cast<std::int64_t>(tree_.size());
        children_.emplace(one.added.parent * p_.classes + one.added.label, one.node);
        tree_.push_back(one.added);
      }
      kept_.push_back({one.node, one.blank, one.label, one.total});
    }
  }

  const CtcProblem& p_;
  const std::size_t beam_;
  std::vector<Node> tree_{{-1, -1}};                         // node 0: no labels
  std::unordered_map<std::int64_t, std::int64_t> children_;  // by node * classes + label
  std::vector<Kept> kept_{{0, 0, kImpossible, 0}};
  std::unordered_map<std::int64_t, std::size_t> places_;  // of nodes in kept_
  std::vector<Candidate> candidates_;
  std::vector<double> row_;
  std::vector<std::int64_t> likely_;
  std::vector<std::size_t> order_;
};

void ctc_beam_kernel(const KernelContext&, const CtcProblem& p, const NDArray& x,
                     const NDArray& input_lengths, std::int64_t beam, const NDArray& labels,
                     const NDArray& numbers, const NDArray& scores) {
  const std::vector<std::int64_t> steps = steps_of("ctc_beam_search", p, input_lengths);
  auto* const all = labels.data<std::int64_t>();
  auto* const found = numbers.data<std::int64_t>();
  visit_floating(x.dtype(), [&]<class T>() {
    const T* const from = x.data<const T>();
    T* const score = scores.data<T>();
    parallel_for(p.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        PrefixSearch search(p, beam);
        for (std::int64_t t = 0; t < steps[static_cast<std::size_t>(n)]; ++t)
          search.step(from + (t * p.batch + n) * p.classes);
        std::int64_t* const row = all + n * p.steps;
        found[n] = search.write_best(row);
        std::fill(row + found[n], row + p.steps, std::int64_t{-1});
        score[n] = static_cast<T>(search.best_score());
      }
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(ctc_decode) {
  table.add<CtcGreedyKernel>("ctc_greedy_decode", DeviceKind::cpu, ctc_greedy_kernel);
  table.add<CtcBeamKernel>("ctc_beam_search", DeviceKind::cpu, ctc_beam_kernel);
}

}  // namespace heddle::cpu_kernels
