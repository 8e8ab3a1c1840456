// Binomial trees as in MPICH (Thakur et al. 2005, sections 4.3 and 4.4), cut into pieces that follow each other as in
// rabit's pipelined tree (Chen et al., "RABIT: A Reliable Allreduce and Broadcast Interface", 2015).
#include <algorithm>
#include <bit>

#include "algorithms/algorithms.h"

namespace heddle::comm_detail {
namespace {

// A binomial tree. `place` is the rank relative to the root.
struct Tree {
  Tree(const Transport& transport, int top)
      : size(transport.size()), root(top), place((transport.rank() - top + size) % size) {}
  int rank_at(int at) const { return (at + root) % size; }
  // The children are at distances 1, 2, 4 ... below the lowest set bit of `place`.
  template <class F> void children(F&& each) const {
    for (int distance = 1; distance < size && !(place & distance); distance *= 2) {
      if (place + distance < size) each(rank_at(place + distance));
    }
  }
  int parent() const { return rank_at(place & (place - 1)); }
  const int size, root, place;
};

template <class F> void in_pieces(std::span<std::byte> data, std::size_t element, F&& each) {
  const std::size_t piece = kTreePiece / element * element;
  std::size_t begin = 0;
  do {
    const std::size_t bytes = std::min(piece, data.size() - begin);
    each(data.subspan(begin, bytes));
    begin += bytes;
  } while (begin < data.size());
}

}  // namespace

// Children are added from the nearest to the farthest, so that the additions form a balanced tree. The tree is always
// that of root 0, which then sends the result to `root`: with another root the order of additions would be different.
void tree_reduce(Transport& transport, const Operand& operand, int root) {
  const Tree tree(transport, 0);
  in_pieces(operand.all(), operand.element, [&](std::span<std::byte> piece) {
    tree.children(
        [&](int child) { transport.transfer({.from = child, .in = piece, .combine = operand.combine}); });
    if (tree.place) transport.transfer({.to = tree.parent(), .out = piece});
  });
  if (root == 0) return;
  if (transport.rank() == 0) transport.transfer({.to = root, .out = operand.all()});
  if (transport.rank() == root) transport.transfer({.from = 0, .in = operand.all()});
}

void tree_broadcast(Transport& transport, std::span<std::byte> data, int root) {
  const Tree tree(transport, root);
  in_pieces(data, 1, [&](std::span<std::byte> piece) {
    if (tree.place) transport.transfer({.from = tree.parent(), .in = piece});
    std::vector<int> children;
    tree.children([&](int child) { children.push_back(child); });
    // The farthest child is first, as it has the largest subtree.
    std::for_each(children.rbegin(), children.rend(),
                  [&](int child) { transport.transfer({.to = child, .out = piece}); });
  });
}

void tree_all_reduce(Transport& transport, const Operand& operand) {
  tree_reduce(transport, operand, 0);
  tree_broadcast(transport, operand.all(), 0);
}

}  // namespace heddle::comm_detail
