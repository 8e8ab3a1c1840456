// Keeps the state in a store that several schedulers share, and takes part in which of them leads. Its owner calls step(),
// which waits for the store, on one thread, and all else on the scheduler's: so the scheduler never waits.
#pragma once

#include <exception>
#include <functional>
#include <mutex>

#include "membership/leadership.h"
#include "membership/state_store.h"

namespace heddle::kv_detail {

struct ElectedOptions {
  std::string prefix{};       // of the keys in the store
  std::string address{};      // of this scheduler
  std::uint32_t servers = 1;  // how many the cluster has
  std::chrono::milliseconds lease{3000};
};

constexpr int kRenewals = 6;  // in the time of a lease

class ElectedStateStore final : public StateStore {
 public:
  // `wake` is called by step() when there is something new.
  ElectedStateStore(ConsensusStore& store, ElectedOptions options, Leadership::Clock clock,
                    std::function<void()> wake);

  // Tries to lead; as the leader renews the lease and saves what there is to save. Returns when to call it again; sooner if
  // asked() has grown.
  Time step();
  std::uint64_t asked() const;  // how many saves there were
  bool is_good() const;         // false: it can never lead, and term() says why
  void resign();                // another scheduler may lead at once

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

  // Only the thread that calls step() uses these.
  ConsensusStore& store_;
  const ElectedOptions options_;
  const Leadership::Clock clock_;
  const std::function<void()> wake_;
  std::optional<Leadership> leadership_;
  bool looked_ = false, elected_ = false, begun_ = false;
  Time next_renewal_{}, quiet_until_{};
  std::string problem_;  // with the store, that was logged
  std::string leader_;   // that was logged

  mutable std::mutex mutex_;            // guards what follows
  std::uint64_t terms_ = 0, term_ = 0;  // how many there were; the one that lasts, 0: none
  Time valid_until_{};                  // of this term
  std::optional<SchedulerState> state_;
  std::optional<std::string> wanted_;  // to be saved, of this term
  std::uint64_t wanted_number_ = 0, numbers_ = 0, saved_ = 0;
  std::vector<ServerEvent> events_;
  std::exception_ptr failed_;
};

}  // namespace heddle::kv_detail
