// How survivors agree, over a simulated control channel: messages arrive late; ranks die at any moment,
// pause, or do not take part.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm_error.h>

#include "bootstrap/survivors.h"
#include "protocol_seeds.h"
#include "simulation.h"

namespace heddle::test {
namespace {

using namespace comm_detail;
using namespace std::chrono_literals;
using Time = Simulation::Time;

constexpr std::chrono::milliseconds kTimeout{10'000};
constexpr auto kMaxDelay = 20ms;  // longest delay of a message
constexpr auto kNotice = 2000ms;  // longest time until a rank notices the death of another rank
constexpr auto kMoment = 500ms;   // how long ControlChannel::wait sleeps

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// What happens to a rank during the agreement.
enum class Lot { lives, dies, pauses, vanishes, stays_away, fails };

struct Member {
  Lot lot = Lot::lives;
  int fiber = -1;
  // Number of messages that the rank sends before it dies; -1: it does not die by messages, but at a time or
  // not at all.
  int messages = -1;
  bool dead = false, away = false;
  Time dies{}, ended{};
  std::string end = "nothing", set{};  // end: how the rank's call ended; empty: it has returned
};

class World {
 public:
  World(Simulation& all, int ranks) : simulation(all), members(at(ranks)) {
    for (int i = 0; i < ranks; ++i) {
      mail.emplace_back(at(ranks));
      gone.emplace_back(at(ranks), false);
    }
  }
  int size() const { return static_cast<int>(members.size()); }
  // Makes other ranks notice, at random times and not before `least`, that this rank is dead or away: all
  // other ranks if `by_all`, else perhaps only some. By then they have all messages that the rank has sent.
  void be_missed(int rank, Simulation::Duration least, bool by_all = true) {
    bool one = false;
    for (int other = 0; other < size(); ++other) {
      const bool stays = members[at(other)].lot != Lot::dies;
      if (other == rank || (!by_all && one && simulation.one_in(2))) continue;
      one = one || stays;
      simulation.at(simulation.now() + least + simulation.delay(kNotice), [this, rank, other] {
        const Member& member = members[at(rank)];
        if (!member.dead && !member.away) return;
        gone[at(other)][at(rank)] = true;
        wake(other);
      });
    }
  }
  void die(int rank) {
    Member& member = members[at(rank)];
    if (member.dead || member.end != "nothing") return;
    member.dead = true;
    member.dies = simulation.now();
    simulation.kill(member.fiber);
    be_missed(rank, 0ms);
  }
  void wake(int rank) {
    if (members[at(rank)].fiber >= 0) simulation.wake(members[at(rank)].fiber);
  }

  struct Letter {
    Time when;
    std::string message;
  };
  Simulation& simulation;
  std::vector<Member> members;
  std::vector<std::vector<std::deque<Letter>>> mail;  // messages by [to][from]
  // By [observer][subject], whether the observer has noticed that the subject is gone.
  std::vector<std::vector<char>> gone;
};

class SimulatedChannel final : public ControlChannel {
 public:
  SimulatedChannel(World& world, int rank) : world_(world), rank_(rank), newest_(at(world.size())) {}
  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  bool is_alive(int rank) override { return !world_.gone[at(rank_)][at(rank)]; }
  std::chrono::steady_clock::time_point now() override { return world_.simulation.now(); }

  void broadcast(const std::string& message) override {
    Simulation& simulation = world_.simulation;
    const int first = static_cast<int>(simulation.below(at(size())));
    for (int i = 0; i < size(); ++i) {
      const int to = (first + i) % size();
      Member& self = world_.members[at(rank_)];
      if (self.messages >= 0 && self.messages-- == 0) world_.die(rank_);
      if (self.dead) throw Killed();
      if (to == rank_) continue;
      auto& mail = world_.mail[at(to)][at(rank_)];
      const Time last = mail.empty() ? Time{} : mail.back().when;
      mail.push_back({std::max(last, simulation.now() + simulation.delay(kMaxDelay)), message});
      simulation.at(mail.back().when, [world = &world_, to] { world->wake(to); });
    }
  }
  std::string latest_message(int rank) override {
    auto& mail = world_.mail[at(rank_)][at(rank)];
    const bool all = !is_alive(rank);
    while (!mail.empty() && (all || mail.front().when <= world_.simulation.now())) {
      newest_[at(rank)] = std::move(mail.front().message);
      mail.pop_front();
    }
    return newest_[at(rank)];
  }
  void wait() override {
    Simulation& simulation = world_.simulation;
    Member& self = world_.members[at(rank_)];
    if (self.lot == Lot::pauses && simulation.one_in(4)) {
      self.lot = Lot::lives;
      return stand_still(simulation.delay(kTimeout / 2));
    }
    if (self.lot == Lot::vanishes && simulation.one_in(4)) {
      self.lot = Lot::stays_away;
      self.away = true;
      world_.be_missed(rank_, kTimeout, simulation.one_in(2));
      stand_still(3 * kTimeout);
      self.away = false;
      return;
    }
    simulation.sleep_until(simulation.now() + kMoment);
  }

 private:
  void stand_still(Simulation::Duration how_long) {
    Simulation& simulation = world_.simulation;
    for (const Time end = simulation.now() + how_long; simulation.now() < end;) simulation.sleep_until(end);
  }

  World& world_;
  const int rank_;
  std::vector<std::string> newest_;
};

class Run {
 public:
  explicit Run(std::uint64_t seed)
      : simulation_(seed), world_(simulation_, 2 + static_cast<int>(simulation_.below(6))) {
    const std::uint64_t kind = simulation_.below(8);
    for (int rank = 0; rank < world_.size(); ++rank) {
      Member& member = world_.members[at(rank)];
      const bool chosen = simulation_.one_in(3);
      if (chosen || kind == 0) member.lot = simulation_.one_in(kind == 0 ? 4 : 2) ? Lot::pauses : Lot::dies;
      if (member.lot == Lot::dies && simulation_.one_in(2))
        member.messages = static_cast<int>(simulation_.below(40));
    }
    Member& special = world_.members[simulation_.below(at(world_.size()))];
    if (kind == 1) special.lot = Lot::vanishes;
    if (kind == 2) special.lot = Lot::stays_away;
    if (kind == 3) special.lot = Lot::fails;
    special_ = kind <= 3 && kind > 0 ? special.lot : Lot::lives;
    if (special_ != Lot::lives) special.messages = -1;
  }

  std::string run() {
    const Time begin = simulation_.now();
    for (int rank = 0; rank < world_.size(); ++rank) {
      Member& member = world_.members[at(rank)];
      const bool comes = member.lot != Lot::stays_away;
      lots_.push_back(member.lot);
      member.fiber = simulation_.start([this, rank] { live(rank); }, simulation_.delay(comes ? 3000ms : 0ms));
      if (member.lot == Lot::dies && member.messages < 0)
        simulation_.at(begin + simulation_.delay(simulation_.one_in(2) ? 3500ms : 100ms),
                       [this, rank] { world_.die(rank); });
    }
    if (!simulation_.run()) return "deadlock";
    return judge(begin);
  }

 private:
  void live(int rank) {
    Member& member = world_.members[at(rank)];
    if (member.lot == Lot::stays_away) {
      member.end = "stays away";
      return;
    }
    try {
      SimulatedChannel channel(world_, rank);
      Survivors survivors(channel, kTimeout, 1);
      member.set = make_names(survivors, rank);
      member.end = "";
    } catch (const PeerLost&) {
      member.end = "PeerLost";
    } catch (const CommError& error) {
      member.end = error.what();
    }
    member.ended = simulation_.now();
    if (simulation_.one_in(2)) return;
    member.away = true;  // the rank leaves after its call
    world_.be_missed(rank, 0ms);
  }

  // Exchanges names among the survivors. Returns the names, concatenated.
  std::string make_names(Survivors& survivors, int rank) {
    std::string made;
    survivors.make([&] {
      made.clear();
      for (const std::string& other : survivors.all_gather(std::string(1, static_cast<char>('0' + rank))))
        made += other;
      for (const std::string& other : survivors.all_gather(made)) {
        if (other != made) throw CommError("other names");
      }
      if (lots_[at(rank)] == Lot::fails) throw CommError("no memory");
    });
    return made;
  }

  std::string judge(Time begin) const {
    std::string set, first;
    int deaths = 0, returned = 0;
    for (const Member& member : world_.members) deaths += member.dead;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const Member& member = world_.members[at(rank)];
      if (member.dead || member.end == "stays away") continue;
      const std::string who = "rank " + std::to_string(rank) + " of " + std::to_string(world_.size());
      // An attempt consists of an agreement, two exchanges of texts and an end, each of which takes at most
      // twice the timeout. Each death may cost one more attempt.
      if (member.ended - begin > (deaths + 2) * 8 * kTimeout) return who + " was kept too long";
      const bool own = lots_[at(rank)] == Lot::vanishes;
      if (member.end.empty()) {
        ++returned;
        if (set.empty()) set = member.set, first = who;
        if (member.set != set) return who + " has " + member.set + ", " + first + " has " + set;
        if (set.find(static_cast<char>('0' + rank)) == std::string::npos)
          return who + " is not in its own set";
      } else if (member.end == "PeerLost") {
        if (!own) return who + " was left out, though it had never been silent";
      } else if (special_ != Lot::stays_away && special_ != Lot::fails) {
        return who + ": " + member.end;
      }
    }
    for (int rank = 0; rank < world_.size() && returned; ++rank) {
      const Member& member = world_.members[at(rank)];
      // A rank whose call throws counts as dead, so no other rank's set may include it.
      const bool counted = set.find(static_cast<char>('0' + rank)) != std::string::npos;
      if (counted && !member.dead && !member.end.empty())
        return first + " has " + set + ", but rank " + std::to_string(rank) + " " + member.end;
    }
    return "";
  }

  Simulation simulation_;
  World world_;
  std::vector<Lot> lots_{};
  Lot special_ = Lot::lives;
};

}  // namespace

std::string simulate_survivors(std::uint64_t seed) { return Run(seed).run(); }

}  // namespace heddle::test
