// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005,
// sections 4.5 (recursive doubling; Rabenseifner's halving and doubling).
#include <bit>
#include <cstring>

#include "algorithms/algorithms.h"

namespace heddle::comm_detail {
namespace {

// Ranks beyond the largest power of two send their data to the first ranks, and receive the result at the end.
class Folded {
 public:
  Folded(Transport& transport, const Operand& operand)
      : transport_(transport),
        operand_(operand),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(transport.size())))) {
    const int rank = transport.rank();
    if (rank >= core_) {
      transport.transfer({.to = rank - core_, .out = operand.all()});
    } else if (rank + core_ < transport.size()) {
      transport.transfer({.from = rank + core_, .in = operand.all(), .combine = operand.combine});
    }
  }
  int core() const { return core_; }
  bool outside() const { return transport_.rank() >= core_; }

  void unfold() {
    const int rank = transport_.rank();
    if (rank >= core_) {
      transport_.transfer({.from = rank - core_, .in = operand_.all()});
    } else if (rank + core_ < transport_.size()) {
      transport_.transfer({.to = rank + core_, .out = operand_.all()});
    }
  }

 private:
  Transport& transport_;
  const Operand& operand_;
  const int core_;
};

}  // namespace

void recursive_doubling_all_reduce(Transport& transport, const Operand& operand) {
  Folded folded(transport, operand);
  const int rank = transport.rank();
  std::vector<std::byte> theirs(folded.outside() ? 0 : operand.all().size());
  for (int distance = 1; distance < folded.core() && !folded.outside(); distance *= 2) {
    const int other = rank ^ distance;
    transport.transfer({.to = other, .out = operand.all(), .from = other, .in = theirs});
    const bool mine_first = rank < other;  // the same order on both ranks, so that both get the same bits
    operand.combine(operand.data, mine_first ? operand.data : theirs.data(),
                    mine_first ? theirs.data() : operand.data, operand.count);
  }
  folded.unfold();
}

// Halves at distance 1, then 2 ...: elements are added in the order of recursive doubling, so that both
// algorithms give the same bits.
void halving_doubling_all_reduce(Transport& transport, const Operand& operand) {
  Folded folded(transport, operand);
  const int rank = transport.rank();
  std::vector<Part> kept{{0, operand.count}};
  std::vector<Part> given;
  for (int distance = 1; distance < folded.core() && !folded.outside(); distance *= 2) {
    const Part whole = kept.back();
    const Part low{whole.begin, whole.count - whole.count / 2};
    const Part high{whole.begin + low.count, whole.count / 2};
    const bool lower = rank < (rank ^ distance);
    kept.push_back(lower ? low : high);
    given.push_back(lower ? high : low);
    transport.transfer({.to = rank ^ distance,
                        .out = operand.part(given.back()),
                        .from = rank ^ distance,
                        .in = operand.part(kept.back()),
                        .combine = operand.combine,
                        .arriving_first = !lower});
  }
  for (int distance = folded.core() / 2; distance >= 1 && !folded.outside(); distance /= 2) {
    transport.transfer({.to = rank ^ distance,
                        .out = operand.part(kept.back()),
                        .from = rank ^ distance,
                        .in = operand.part(given.back())});
    kept.pop_back();
    given.pop_back();
  }
  folded.unfold();
}

}  // namespace heddle::comm_detail
