// Keeps the scheduler's state in a store that several schedulers share, and takes part in the election of
// their leader. The owner calls step(), which blocks, on a thread of its own, and all other functions on the
// scheduler's thread, which never blocks for the store.
#pragma once

#include <exception>
#include <functional>
#include <mutex>

#include "membership/leadership.h"
#include "membership/state_store.h"

namespace heddle::kv_detail {

struct ElectedOptions {
  std::string prefix{};       // prefix of the keys in the store
  std::string address{};      // address of this scheduler
  std::uint32_t servers = 1;  // number of servers of the cluster
  std::chrono::milliseconds lease{3000};
};

constexpr int kRenewals = 6;  // the leader renews its lease this many times within the time of a lease

class ElectedStateStore final : public StateStore {
 public:
  // step() calls `wake` when there are new events, or a save is done.
  ElectedStateStore(ConsensusStore& store, ElectedOptions options, Leadership::Clock clock,
                    std::function<void()> wake);

  // Tries to become the leader; as the leader, renews the lease and saves the newest state. Returns the time
  // at which to call step() again. If asked() grows, it has to be called at once.
  Time step();
  std::uint64_t asked() const;  // number of calls of save() so far
  bool is_good() const;         // false: this scheduler can never lead, and term() throws the reason
  void resign();                // gives up leadership: another scheduler may lead at once

  std::uint64_t term(Time now) override;
  std::optional<SchedulerState> state() override;
  std::uint64_t save(std::uint64_t term, const SchedulerState& state) override;
  std::uint64_t saved() override;
  std::vector<ServerEvent> take_events() override;

 private:
  using Lock = std::lock_guard<std::mutex>;
  void begin_campaign();
  Time stand_by();
  Time lead();
  std::optional<SchedulerState> read_state();
  void begin_term();
  Time end_term(const std::string& why);
  bool has_ended();
  bool save_newest();
  void reached(const std::string& problem);
  void log(ServerEvent::Level level, const char* name,
           std::vector<std::pair<std::string, std::string>> fields);
  SchedulerState decoded(const std::string& text) const;

  // The members from here to leader_ are used only by the thread that calls step().
  ConsensusStore& store_;
  const ElectedOptions options_;
  const Leadership::Clock clock_;
  const std::function<void()> wake_;
  std::optional<Leadership> leadership_;
  bool looked_ = false, elected_ = false, begun_ = false;
  Time next_renewal_{}, quiet_until_{};
  std::string problem_;  // the error of the store if the last request failed; empty: it succeeded
  std::string leader_;   // address of the leader that was logged last

  mutable std::mutex mutex_;            // guards the members below
  std::uint64_t terms_ = 0, term_ = 0;  // number of terms so far; the current term, 0: none
  Time valid_until_{};                  // time at which this term may end
  std::optional<SchedulerState> state_;
  std::optional<std::string> wanted_;  // encoded state that step() has to save in this term
  std::uint64_t wanted_number_ = 0, numbers_ = 0, saved_ = 0;
  std::vector<ServerEvent> events_;
  std::exception_ptr failed_;
};

}  // namespace heddle::kv_detail
