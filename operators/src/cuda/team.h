// Threads of a block that compute one line of elements together: neighbours in a warp, a whole block, or, where elements of
// neighbouring lines are adjacent in memory, every k-th thread of a block.
#pragma once

#include <cstring>

#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

constexpr int kTeamThreads = 256;  // of a block

// How the threads of a block divide its lines.
struct Teams {
  int lines;    // of a block, a power of 2
  bool across;  // neighbouring threads have neighbouring lines; else they have one line, in one warp
};

// `columns`: elements of neighbouring lines are adjacent, not those of a line. Depends on shapes alone, and with it the order
// in which a team joins its values.
inline Teams teams_for(long long lines, long long length, bool columns) {
  if (columns) {
    int width = on_gpu::kWarp;
    while (width > 1 && width / 2 >= lines) width /= 2;
    while (width < kTeamThreads && width * 2 <= lines && kTeamThreads / width > length) width *= 2;
    return {width, true};
  }
  if (length > 1024) return {1, true};
  int threads = 1;
  while (threads < on_gpu::kWarp && threads * 4 < length) threads *= 2;
  return {kTeamThreads / threads, false};
}

// What exchange(word) makes of a value, which is exchanged in words of 8 bytes if it has more.
template <class T, class Exchange> HEDDLE_DEVICE inline T by_words(const T& value, const Exchange& exchange) {
  if constexpr (sizeof(T) <= 8) {
    return exchange(value);
  } else {
    static_assert(sizeof(T) % 8 == 0, "a value is exchanged in words of 8 bytes");
    unsigned long long words[sizeof(T) / 8];
    memcpy(words, &value, sizeof(T));
    for (unsigned long long& word : words) word = exchange(word);
    T other;
    memcpy(&other, words, sizeof(T));
    return other;
  }
}

class Team {
 public:
  HEDDLE_DEVICE Team(on_gpu::Thread& thread, Teams teams)
      : thread_(thread),
        lines_(teams.lines),
        size_(kTeamThreads / teams.lines),
        across_(teams.across),
        position_(across_ ? thread.rank() / lines_ : thread.rank() % size_) {}

  HEDDLE_DEVICE int size() const { return size_; }
  HEDDLE_DEVICE int position() const { return position_; }
  HEDDLE_DEVICE long long line() const {
    const int own = across_ ? thread_.rank() % lines_ : thread_.rank() / size_;
    return static_cast<long long>(thread_.block_index().x) * lines_ + own;
  }

  // The values of all threads of the team, joined by a tree; every thread gets the same bits. All threads of the block call
  // it.
  template <class P, class Join> HEDDLE_DEVICE P all(P own, const Join& join) {
    const int begin = across_ ? lines_ : 1, end = across_ ? on_gpu::kWarp : size_;
    for (int by = begin; by < end; by *= 2) {
      const P other = by_words(own, [&](auto word) { return thread_.shuffle_xor(word, by); });
      own = thread_.lane() & by ? join(other, own) : join(own, other);
    }
    return across_ && size_ > 1 ? over_warps(own, join) : own;
  }

 private:
  template <class P, class Join> HEDDLE_DEVICE P over_warps(P own, const Join& join) {
    HEDDLE_SHARED(thread_, parts, P[kTeamThreads]);
    const int group = lines_ > on_gpu::kWarp ? lines_ : on_gpu::kWarp;
    const int column = thread_.rank() % lines_, end = kTeamThreads / group * lines_;
    thread_.barrier();  // until all have read the parts of the call before
    if (thread_.rank() % group < lines_) parts[thread_.rank() / group * lines_ + column] = own;
    thread_.barrier();
    own = parts[column];
    for (int at = column + lines_; at < end; at += lines_) own = join(own, parts[at]);
    return own;
  }

  on_gpu::Thread& thread_;
  int lines_, size_;
  bool across_;
  int position_;
};

struct Plus {
  template <class T> HEDDLE_DEVICE T operator()(T a, T b) const { return a + b; }
};

// Two sums at once.
struct TwoSums {
  double a, b;
};
struct PlusTwo {
  HEDDLE_DEVICE TwoSums operator()(TwoSums p, TwoSums q) const { return {p.a + q.a, p.b + q.b}; }
};

// Launches a kernel in blocks of kTeamThreads threads. Returns why it could not be launched; null if it was.
template <class K> const char* launch_grid(void* stream, dim3 grid, const K& kernel) {
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), grid, dim3(kTeamThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

// Launches a kernel whose teams take a line each, `parts` times: block_index().y is the part.
template <class K>
const char* launch_teams(void* stream, long long lines, long long parts, Teams teams, const K& kernel) {
  if (lines == 0) return nullptr;
  const long long blocks = (lines + teams.lines - 1) / teams.lines;
  return launch_grid(stream, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(parts)), kernel);
}

// Lines that are cut into parts, so that few long lines have enough blocks.
struct Parts {
  long long size, count;  // elements of a part, a multiple of 4; parts of a line
};
inline Parts parts_of(long long lines, long long length, Teams teams) {
  constexpr long long kEnoughBlocks = 1024, kLeast = 16;  // elements of a thread
  const long long blocks = (lines + teams.lines - 1) / teams.lines;
  const long long most = blocks < kEnoughBlocks ? kEnoughBlocks / blocks : 1;
  long long count = length / (kTeamThreads / teams.lines * kLeast);
  count = count < 1 ? 1 : count > most ? most : count;
  const long long size = ((length + count - 1) / count + 3) / 4 * 4;
  return {size, size == 0 ? 1 : (length + size - 1) / size};
}

}  // namespace heddle::cuda_kernels
