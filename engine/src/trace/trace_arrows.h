// Finds both ends of the arrows of a trace. The record of an op names the op that made it ready, whose own record may be
// written before or after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace heddle::trace {

// One end of an arrow: a time within a slice of a lane.
struct ArrowEnd {
  std::uint32_t lane;
  std::uint64_t nanoseconds;
};

// An op's number is unique among all engines. Remembers the kMost ops that were named last; an arrow between
// ops that are further apart in the file is not found. Not thread-safe.
class Arrows {
 public:
  static constexpr std::size_t kMost = 100'000;

  // The record of op was written: arrows from it start at `start`. Returns the ends of those that are known already.
  std::vector<ArrowEnd> add_start(std::uint64_t op, ArrowEnd start);
  // An arrow from op ends at `end`. Returns its start; none if that is not known yet: then a later add_start() returns
  // this end.
  std::optional<ArrowEnd> add_end(std::uint64_t op, ArrowEnd end);

 private:
  struct Op {
    std::uint64_t number;
    std::optional<ArrowEnd> start;
    std::vector<ArrowEnd> ends;  // ends of arrows whose start is not known yet
  };
  Op& find(std::uint64_t number);

  std::list<Op> ops_;  // the op named last is at the front
  std::unordered_map<std::uint64_t, std::list<Op>::iterator> by_number_;
};

}  // namespace heddle::trace
