// Code that runs twice with the same random numbers.
#pragma once

#include <cstddef>
#include <vector>

#include <heddle/random.h>

namespace heddle {

// The draws of one run of a piece of code, in their order.
using RandomDraws = std::vector<RandomDraw>;

// While one lives, what its thread draws from any generator is recorded (Record), or is what was recorded before
// (Replay): then no generator moves. They may be nested; a replay is recorded by what is inside it.
class DrawScope {
 public:
  explicit DrawScope(RandomDraws& recorded);        // records; `recorded` outlives the scope
  explicit DrawScope(const RandomDraws& replayed);  // replays
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;
  static bool replays() noexcept;  // whether what this thread draws now was recorded before

  // For generators: the recorded draw, or null if the thread does not replay. Throws Error if the code has drawn as
  // often as in its first run already.
  static const RandomDraw* next();
  static void record(const RandomDraw& draw);  // a draw that next() has not given is made
 private:
  RandomDraws* const recorded_ = nullptr;
  const RandomDraws* const replayed_ = nullptr;
  std::size_t at_ = 0;  // how many draws were replayed
  DrawScope* const outer_;
};

}  // namespace heddle
