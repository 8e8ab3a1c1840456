// How the ranks that are left after a fault agree on who they are, and make something new together, though more of them
// may die meanwhile.
//
// Each has a word, which all hear: whom it takes for alive, how far it has come, a text. It is a state, not a message:
// a newer one takes the place of the one before. Sets only become smaller: by the dead, and by whoever another one's set
// lacks; so a set names an attempt, and those whose sets differ come to the same one. An attempt ends when all of its set
// have said that they are ready. Whoever has heard that says so, before it goes; and whoever was ready, and hears it of
// one that it takes for alive, goes too, though somebody has died meanwhile.
#pragma once

#include <functional>
#include <vector>

#include "bootstrap/rendezvous.h"

namespace heddle::comm_detail {

// What carries the words.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Neither ended nor silent, and it has not left. What a rank said before it went is heard by whoever asks after this.
  virtual bool lives(int rank) = 0;
  virtual void say(const std::string& word) = 0;  // to all others; at most kLongestWord
  virtual std::string hear(int rank) = 0;         // the newest; empty: none
  virtual void wait() = 0;                        // until there may be news; a moment at most
  // What deadlines are measured by; tests have a clock of their own.
  virtual std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }
};
constexpr std::size_t kLongestWord = 8 << 10;

enum class Phase : std::uint8_t { joining, ready, failed, settled, given_up };

struct SurvivorWord {
  std::vector<bool> set{};  // by rank
  std::uint64_t round = 0;  // of texts in this set; 0: none
  Phase phase = Phase::joining;
  std::string text{}, before{};  // of this round and the one before: nobody is further behind
};
std::string encode(const SurvivorWord& word);
// False if it is none of so many ranks.
bool decode(const std::string& bytes, int ranks, SurvivorWord& word);

// A rendezvous of those that live. One thread at a time.
class Survivors final : public Rendezvous {
 public:
  Survivors(ControlChannel& line, std::chrono::milliseconds timeout, std::uint32_t epoch);

  // True: all that live have come here, and take each other for alive; they are the ranks from now on. False: what was
  // made in the attempt before stands, for others have settled on it. Blocks; throws CommError saying who has not come
  // within twice the timeout, and PeerLost if the others have gone on without this rank.
  bool agree();
  // The end of an attempt: this rank has what it was to make, or (`problem`) why it has not. True: all have. False:
  // somebody has died: agree again. Throws CommError if one that lives has not, and for good.
  bool settle(const std::string& problem);

  // Attempts until all that live have what `something` makes with this rendezvous, which starts afresh each time; an
  // exception out of it ends the attempt, or all of them.
  void make(const std::function<void()>& something);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  // Throws PeerLost when one of them has died meanwhile. A text is 3 KiB at most.
  std::vector<std::string> all_gather(const std::string& mine) override;
  void check() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class News : std::uint8_t { none, smaller, settled };
  News look();
  News look_at(int rank);
  void drop(int rank);
  void next_round(const std::string& text);
  void say() { control_channel_.say(encode(mine_)); }
  bool with_me(const SurvivorWord& word) const { return word.set == mine_.set; }
  bool all_at(std::uint64_t round) const;
  void wait(Clock::time_point deadline, const char* what);
  bool verdict(std::string& problem) const;
  void finish();
  [[noreturn]] void be_left_out();
  [[noreturn]] void give_up(const std::string& why);

  ControlChannel& control_channel_;
  const std::chrono::milliseconds timeout_;
  const std::uint32_t epoch_;
  SurvivorWord mine_;
  std::vector<SurvivorWord> words_;  // the others', as last heard
  std::vector<bool> candidate_;      // the set for which this rank was ready, while others may settle on it
  std::vector<int> members_;
  int rank_ = -1;
  bool current_ = false;  // nobody has died since members_ agreed
  std::string over_;      // why there is nothing to agree on any more
};

}  // namespace heddle::comm_detail
