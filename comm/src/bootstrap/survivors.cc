#include "bootstrap/survivors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include <heddle/comm_error.h>

namespace heddle::comm_detail {
namespace {

constexpr std::size_t kLongestText = 3 << 10;  // two of them and the set are a word

// What has gone wrong may be that somebody has just died, which is noticed later, if its whole host is gone.
constexpr std::chrono::milliseconds kForTheDead{3000};

// As a word lies in memory and on the wire; the set, a bit a rank, and the two texts behind it.
struct RawWord {
  std::uint64_t round = 0;
  std::uint32_t ranks = 0;
  std::uint16_t text = 0, before = 0;  // bytes
  std::uint64_t phase = 0;
};
static_assert(sizeof(RawWord) == 24);

std::string name(int rank) { return "rank " + std::to_string(rank); }

// Why `make` has thrown; empty if it has not.
std::string problem_of(const std::function<void()>& make) {
  try {
    make();
  } catch (const std::exception& error) {
    const std::string why = error.what();
    return why.empty() ? "an exception that says nothing" : why;
  }
  return "";
}

}  // namespace

std::string encode(const SurvivorWord& word) {
  RawWord raw;
  raw.round = word.round;
  raw.ranks = static_cast<std::uint32_t>(word.set.size());
  raw.text = static_cast<std::uint16_t>(word.text.size());
  raw.before = static_cast<std::uint16_t>(word.before.size());
  raw.phase = static_cast<std::uint64_t>(word.phase);
  std::string bits((word.set.size() + 7) / 8, '\0');
  for (std::size_t rank = 0; rank < word.set.size(); ++rank) {
    if (word.set[rank]) bits[rank / 8] = static_cast<char>(bits[rank / 8] | 1 << rank % 8);
  }
  return std::string(reinterpret_cast<const char*>(&raw), sizeof raw) + bits + word.text + word.before;
}

bool decode(const std::string& bytes, int ranks, SurvivorWord& word) {
  RawWord raw;
  if (bytes.size() < sizeof raw) return false;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.ranks != static_cast<std::uint32_t>(ranks)) return false;
  const std::size_t bits = sizeof raw, text = bits + (raw.ranks + 7) / 8, before = text + raw.text;
  if (raw.phase > static_cast<std::uint64_t>(Phase::given_up) || bytes.size() != before + raw.before) {
    return false;
  }
  word.set.assign(raw.ranks, false);
  for (std::size_t rank = 0; rank < raw.ranks; ++rank) {
    word.set[rank] = bytes[bits + rank / 8] >> rank % 8 & 1;
  }
  word.round = raw.round;
  word.phase = static_cast<Phase>(raw.phase);
  word.text = bytes.substr(text, raw.text);
  word.before = bytes.substr(before);
  return true;
}

Survivors::Survivors(ControlChannel& line, std::chrono::milliseconds timeout, std::uint32_t epoch)
    : control_channel_(line),
      timeout_(timeout),
      epoch_(epoch),
      words_(static_cast<std::size_t>(line.size())) {
  mine_.set.assign(words_.size(), true);
}

// Its death is looked for before its word is heard. What it said before it died counts only if it had come to an end,
// for others may have heard that, and did the same.
Survivors::News Survivors::look_at(int rank) {
  SurvivorWord& word = words_[static_cast<std::size_t>(rank)];
  const bool lives = control_channel_.lives(rank);
  const std::string heard = control_channel_.hear(rank);
  const bool sense = heard.empty() || decode(heard, control_channel_.size(), word);
  const bool settled = sense && word.phase == Phase::settled;
  if (settled && word.set == candidate_) return News::settled;
  if (!sense || (!lives && !settled)) return drop(rank), News::smaller;
  if (heard.empty()) return News::none;
  if (!word.set[static_cast<std::size_t>(control_channel_.rank())]) be_left_out();
  if (!lives) return drop(rank), News::smaller;
  if (word.phase == Phase::given_up) give_up(word.text);
  News news = News::none;
  for (int other = 0; other < control_channel_.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (!mine_.set[at] || word.set[at]) continue;
    drop(other);
    news = News::smaller;
  }
  return news;
}

void Survivors::be_left_out() {
  over_ = "the other ranks took this one for dead, and went on without it";
  mine_.set[static_cast<std::size_t>(control_channel_.rank())] = false;  // for those who do not know that yet
  say();
  throw PeerLost("shrink: " + over_, control_channel_.rank());
}

Survivors::News Survivors::look() {
  News news = News::none;
  for (int rank = 0; rank < control_channel_.size(); ++rank) {
    if (rank == control_channel_.rank() || !mine_.set[static_cast<std::size_t>(rank)]) continue;
    const News one = look_at(rank);
    if (one == News::settled) return one;
    if (one == News::smaller) news = one;
  }
  if (news == News::smaller) say();
  return news;
}

// What was said in the larger set belongs to an attempt that is over.
void Survivors::drop(int rank) {
  mine_.set[static_cast<std::size_t>(rank)] = false;
  mine_ = {mine_.set};
  current_ = false;
}

bool Survivors::all_at(std::uint64_t round) const {
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    if (static_cast<int>(rank) == control_channel_.rank() || !mine_.set[rank]) continue;
    if (!with_me(words_[rank]) || words_[rank].round < round) return false;
  }
  return true;
}

void Survivors::wait(Clock::time_point deadline, const char* what) {
  if (control_channel_.now() <= deadline) return control_channel_.wait();
  std::string missing;
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    const bool undecided = mine_.phase != Phase::joining && words_[rank].phase == Phase::joining;
    const bool behind = !with_me(words_[rank]) || words_[rank].round < mine_.round || undecided;
    if (static_cast<int>(rank) == control_channel_.rank() || !mine_.set[rank] || !behind) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  throw CommError("these ranks live, but have not " + std::string(what) + ": " + missing);
}

bool Survivors::agree() {
  // Heard while the attempt before was made, where it was only one more reason to give that up.
  if (!mine_.set[static_cast<std::size_t>(control_channel_.rank())]) be_left_out();
  if (!over_.empty()) throw CommError("shrink: " + over_);
  say();
  auto deadline = control_channel_.now() + 2 * timeout_;
  for (;;) {
    const News news = look();
    if (news == News::settled) return finish(), false;
    if (news == News::smaller) deadline = control_channel_.now() + 2 * timeout_;
    if (news == News::none && all_at(0)) break;
    wait(deadline, "called shrink");
  }
  // From here on nobody can settle on an attempt before this one: all have said that they have left it.
  candidate_.clear();
  members_.clear();
  for (int rank = 0; rank < control_channel_.size(); ++rank) {
    if (!mine_.set[static_cast<std::size_t>(rank)]) continue;
    if (rank == control_channel_.rank()) rank_ = size();
    members_.push_back(rank);
  }
  return current_ = true;
}

void Survivors::make(const std::function<void()>& something) {
  while (agree() && !settle(problem_of(something))) {
  }
}

void Survivors::check() {
  if (!current_ || look() != News::none) throw PeerLost("shrink: another rank has died meanwhile", -1);
  for (const int rank : members_) {
    if (rank == control_channel_.rank()) continue;
    const SurvivorWord& word = words_[static_cast<std::size_t>(rank)];
    if (word.phase == Phase::failed && with_me(word)) throw CommError(name(rank) + ": " + word.text);
  }
}

std::vector<std::string> Survivors::all_gather(const std::string& mine) {
  check();
  next_round(mine);
  const auto deadline = control_channel_.now() + 2 * timeout_;
  while (!all_at(mine_.round)) {
    wait(deadline, "answered in shrink");
    check();
  }
  std::vector<std::string> all;
  for (const int rank : members_) {
    const SurvivorWord& word = words_[static_cast<std::size_t>(rank)];
    const bool ahead = rank != control_channel_.rank() && word.round > mine_.round;
    all.push_back(rank == control_channel_.rank() ? mine : ahead ? word.before : word.text);
  }
  return all;
}

void Survivors::next_round(const std::string& text) {
  if (text.size() > kLongestText) {
    throw CommError("a text of " + std::to_string(text.size()) + " bytes is too long for survivors");
  }
  ++mine_.round;
  mine_.before = std::exchange(mine_.text, text);
  say();
}

bool Survivors::settle(const std::string& problem) {
  if (!current_) return false;
  mine_.phase = problem.empty() ? Phase::ready : Phase::failed;
  if (problem.empty()) candidate_ = mine_.set;
  next_round(problem.substr(0, kLongestText));
  const auto begin = control_channel_.now();
  for (;;) {
    const News news = look();
    if (news == News::smaller) return false;
    if (news == News::settled) return finish(), true;
    std::string why;
    const bool all = verdict(why);
    if (all && why.empty()) return finish(), true;
    if (all && control_channel_.now() > begin + std::min(timeout_, kForTheDead)) give_up(why);
    try {
      wait(begin + 2 * timeout_, "come to an end with shrink");
    } catch (const CommError& error) {
      give_up(error.what());
    }
  }
}

// Whether all have said how it went; `problem`: why it went wrong.
bool Survivors::verdict(std::string& problem) const {
  const auto add = [&problem](int rank, const SurvivorWord& word) {
    if (word.phase == Phase::failed && problem.empty()) problem = name(rank) + ": " + word.text;
  };
  add(control_channel_.rank(), mine_);
  for (const int rank : members_) {
    if (rank == control_channel_.rank()) continue;
    const SurvivorWord& word = words_[static_cast<std::size_t>(rank)];
    if (!with_me(word) || word.phase == Phase::joining) return false;
    add(rank, word);
  }
  return true;
}

void Survivors::finish() {
  // The set is the one that was settled on, even if somebody of it has died since: others look for it.
  mine_ = {candidate_, mine_.round, Phase::settled};
  over_ = "this communicator has been shrunk already; what has to shrink is the new one";
  say();
}

void Survivors::give_up(const std::string& why) {
  over_ = why.substr(0, kLongestText);
  mine_.phase = Phase::given_up;
  mine_.text = over_;
  mine_.before.clear();
  say();
  throw CommError("shrink: " + over_);
}

}  // namespace heddle::comm_detail
