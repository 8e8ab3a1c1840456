#include "communicator/pair_rendezvous.h"

#include <algorithm>
#include <exception>

#include "core/failure.h"

namespace heddle::comm_detail {
namespace {

constexpr std::uint64_t kMaxTextBytes = 64 << 10;

// The first character of a text says whether its rank has failed.
constexpr char kGood = '+', kFailed = '!';

Collective collective(Kind kind, DType dtype, std::size_t count, const std::source_location& where) {
  Collective what;
  what.record.kind = kind;
  what.record.dtype = dtype;
  what.record.count = count;
  what.record.set_site(where, "split in ");
  return what;
}

}  // namespace

std::vector<Member> members_of(CommState& state, int colour, int key, const std::source_location& where) {
  const std::int32_t mine[2] = {colour, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(state.backend().size()));
  Collective gather = collective(Kind::all_gather, DType::i32, 2, where);
  gather.in = reinterpret_cast<const std::byte*>(mine);
  gather.out = reinterpret_cast<std::byte*>(all.data());
  state.run_now(gather, where);
  std::vector<Member> members;
  for (int rank = 0; rank < state.backend().size() && colour >= 0; ++rank) {
    const auto at = 2 * static_cast<std::size_t>(rank);
    if (all[at] == colour) members.push_back({all[at], all[at + 1], rank});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.key < b.key; });
  return members;
}

PairRendezvous::PairRendezvous(CommState& state, const std::vector<Member>& members,
                               const std::source_location& where)
    : state_(state), members_(members), where_(where) {
  for (int i = 0; i < size(); ++i) {
    if (members_[static_cast<std::size_t>(i)].rank == state.backend().rank()) rank_ = i;
  }
  epoch_ = static_cast<std::uint32_t>(members_[0].colour) + 1;
}

void PairRendezvous::move(Kind kind, int member, std::byte* data, std::size_t bytes) {
  Collective what = collective(kind, DType::u8, bytes, where_);
  what.record.root = members_[static_cast<std::size_t>(member)].rank;
  what.in = what.out = data;
  state_.run_now(what, where_);
}

void PairRendezvous::send(int member, const std::string& text) {
  std::uint64_t length = text.size();
  std::string copy = text;
  move(Kind::send, member, reinterpret_cast<std::byte*>(&length), sizeof length);
  move(Kind::send, member, reinterpret_cast<std::byte*>(copy.data()), copy.size());
}

std::string PairRendezvous::recv(int member) {
  std::uint64_t length = 0;
  move(Kind::recv, member, reinterpret_cast<std::byte*>(&length), sizeof length);
  if (length > kMaxTextBytes)
    throw CommError("split: a rank announced a text of " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  move(Kind::recv, member, reinterpret_cast<std::byte*>(text.data()), text.size());
  return text;
}

std::vector<std::string> PairRendezvous::all_gather(const std::string& mine) {
  if (!failure_.empty()) throw CommError(failure_);
  if (mine.size() >= kMaxTextBytes)
    throw InvalidArgument("split: a text of " + std::to_string(mine.size()) + " bytes is too long");
  std::vector<std::string> all = gather_texts(kGood + mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty() || all[i][0] != kGood) {
      failure_ = "split: rank " + std::to_string(members_[i].rank) +
                 " could not: " + all[i].substr(std::min<std::size_t>(all[i].size(), 1));
      throw CommError(failure_);
    }
    all[i].erase(0, 1);
  }
  return all;
}

std::unique_ptr<Backend> PairRendezvous::make(const std::function<std::unique_ptr<Backend>()>& make) {
  try {
    auto made = make();
    all_gather("");
    return made;
  } catch (...) {
    // Ranks that go on receive this text in their next all_gather. Ranks that have failed too send theirs in the same
    // way.
    if (failure_.empty()) {
      try {
        gather_texts(kFailed + message_of(std::current_exception()).substr(0, kMaxTextBytes - 1));
      } catch (...) {
        // The communicator that is split has failed. All ranks get an error from it.
      }
    }
    throw;
  }
}

std::vector<std::string> PairRendezvous::gather_texts(const std::string& mine) {
  std::vector<std::string> all(members_.size());
  if (rank_ != 0) {
    send(0, mine);
    for (std::string& text : all) text = recv(0);
    return all;
  }
  all[0] = mine;
  for (int other = 1; other < size(); ++other) all[static_cast<std::size_t>(other)] = recv(other);
  for (int other = 1; other < size(); ++other) {
    for (const std::string& text : all) send(other, text);
  }
  return all;
}

}  // namespace heddle::comm_detail
