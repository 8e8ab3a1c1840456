// The record of a call, which the ranks compare, and which is sent with messages and kept in flight recorders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <heddle/communicator.h>

namespace heddle::comm_detail {

enum class Kind : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send,
  recv,
  barrier,
  leave,
};
const char* name_of(Kind kind);
bool reduces(Kind kind);
// Whether only two ranks take part in the call.
inline bool is_point_to_point(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

enum class Algorithm : std::uint8_t {
  automatic,
  direct,
  ring,
  tree,
  recursive_doubling,
  halving_doubling,
  hierarchical
};
const char* name_of(Algorithm algorithm);
Algorithm algorithm_from_name(const std::string& name);  // throws InvalidArgument naming all algorithms

// 128 bytes of plain data, with one layout on all machines of a job, which must have one byte order. Records are in
// shared memory and come from the network: no field of those is used before valid() has returned true.
struct alignas(64) CallRecord {
  static constexpr std::uint32_t kMagic = 0x4c444548;  // "HEDL"
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::size_t kSite = 61;
  static constexpr std::size_t kTag = 48;

  std::uint32_t magic = kMagic;
  std::uint8_t version = kVersion;
  Kind kind = Kind::none;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::u8;
  std::uint32_t epoch = 0;  // identifies the communicator: messages of another one are refused
  std::int32_t root = -1;   // the root; for send and recv: the other rank
  std::uint64_t sequence = 0;
  // Number of elements (of `in` for all_gather and all_to_all, of `out` for reduce_scatter).
  std::uint64_t count = 0;
  std::uint64_t agreement = 0;  // a hash of everything that the ranks have to agree on
  Algorithm algorithm = Algorithm::automatic;
  // Whether the op that computes the input has failed: this rank has nothing to send.
  std::uint8_t failed = 0;
  std::uint8_t state = 0;  // state in flight recorders: 0 called, 1 done, 2 failed
  std::uint8_t ahead = 0;  // how many of the next calls are ready and may be fused, see fusion.h
  std::uint32_t line = 0;
  std::int64_t nanoseconds = 0;  // the time of the call in flight recorders, CLOCK_REALTIME
  char site[kSite + 1] = {};     // the end of the source file's name, NUL, and the tag if there is one
  std::uint8_t tag_at = 0;       // where in site the tag begins; 0: there is none
  std::uint8_t on_device = 0;    // 1: a device's library runs the call, see stream_calls.h
  std::uint64_t history = 0;     // with on_device: a hash of all such calls so far

  // Sets a text on which the ranks have to agree: see call_tag.h. Called after set_site, whose text it may shorten.
  void set_tag(std::string_view text);
  std::string_view tag() const;

  void set_agreement();
  void set_agreement(std::span<const CallRecord> members);  // the hash includes the fused calls
  void set_site(const std::source_location& where, std::string_view before = {});
  bool valid() const;  // whether magic, version and kinds are right, and the text is terminated
  // Text such as "all_reduce #12 sum f32 x 1000 at train.cc:31".
  std::string to_string() const;
};
static_assert(sizeof(CallRecord) == 128);
static_assert(std::has_unique_object_representations_v<CallRecord>,
              "padding would send uninitialised memory");

// A call with its memory, as a back end runs it. `in` and `out` are the same memory or do not overlap.
struct Collective {
  CallRecord record;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  // Of an all_to_all: elements for each rank, and from each rank.
  std::vector<std::int64_t> in_counts{}, out_counts{};
  std::vector<CallRecord> members{};  // the calls that are fused into this one: fusion.h
  std::string failure{};              // with record.failed: why this rank has no data, for the other ranks
  std::size_t element() const { return size_of(record.dtype); }
  std::size_t bytes() const { return record.count * element(); }
};

// Sets to[i] = a[i] op b[i]; `to` may be a or b. For avg it adds; scale() then divides the sum at the end.
using Combine = void (*)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
Combine combine_of(ReduceOp op, DType dtype);  // throws InvalidArgument for avg of bools
void scale(std::byte* data, std::size_t count, DType dtype, int ranks);

// Part number `part` of `count` elements cut into `parts` parts, of which the first ones may be one element longer.
struct Part {
  std::size_t begin, count;
};
Part part_of(std::size_t count, int part, int parts);

}  // namespace heddle::comm_detail
