#include "membership/elected_state_store.h"

#include <algorithm>
#include <utility>

#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

using Level = ServerEvent::Level;
using std::chrono::milliseconds;

constexpr milliseconds kLook{300};      // pause between two attempts to become the leader
constexpr milliseconds kAgain{100};     // pause before a request without an answer is repeated
constexpr milliseconds kQuiet{10'000};  // time between two log lines about the same trouble

// Error: the state in etcd is damaged, or is that of another cluster. To try again does not help.
class UselessState : public Error {
 public:
  using Error::Error;
};

std::string text_of(const SchedulerState& state) {
  const std::vector<std::byte> bytes = encode(state);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

ElectedStateStore::ElectedStateStore(ConsensusStore& store, ElectedOptions options, Leadership::Clock clock,
                                     std::function<void()> wake)
    : store_(store), options_(std::move(options)), clock_(std::move(clock)), wake_(std::move(wake)) {
  begin_campaign();
}

// Makes a new Leadership, which knows nothing of unanswered requests of the former one.
void ElectedStateStore::begin_campaign() {
  leadership_.emplace(store_, options_.prefix, options_.address, options_.lease, clock_);
}

// Ends the term if its lease may have ended, even while step() still waits for etcd.
std::uint64_t ElectedStateStore::term(Time now) {
  const Lock lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  if (term_ != 0 && now >= valid_until_) {
    term_ = 0;
    wanted_.reset();
  }
  return term_;
}

std::optional<SchedulerState> ElectedStateStore::state() {
  const Lock lock(mutex_);
  return state_;
}

std::uint64_t ElectedStateStore::save(std::uint64_t term, const SchedulerState& state) {
  std::string text = text_of(state);
  const Lock lock(mutex_);
  ++numbers_;
  if (term == term_) {  // an older state that is not saved yet is dropped
    wanted_ = std::move(text);
    wanted_number_ = numbers_;
  }
  return numbers_;
}

std::uint64_t ElectedStateStore::saved() {
  const Lock lock(mutex_);
  return saved_;
}

bool ElectedStateStore::is_good() const {
  const Lock lock(mutex_);
  return !failed_;
}

std::uint64_t ElectedStateStore::asked() const {
  const Lock lock(mutex_);
  return numbers_;
}

std::vector<ServerEvent> ElectedStateStore::take_events() {
  const Lock lock(mutex_);
  return std::exchange(events_, {});
}

void ElectedStateStore::log(Level level, const char* name,
                            std::vector<std::pair<std::string, std::string>> fields) {
  {
    const Lock lock(mutex_);
    events_.push_back({level, name, std::move(fields)});
  }
  wake_();
}

// Called after each step() with its error; empty: etcd has answered. Logs when etcd is unreachable, first at
// once and then every kQuiet, and when etcd is reached again.
void ElectedStateStore::reached(const std::string& problem) {
  const Time now = clock_();
  if (problem.empty() && problem_.empty()) return;
  if (problem.empty()) log(Level::info, "etcd_reached", {});
  if (!problem.empty() && (problem_.empty() || now >= quiet_until_)) {
    log(Level::warning, "etcd_unreachable", {{"why", problem}});
    quiet_until_ = now + kQuiet;
  }
  problem_ = problem;
}

ElectedStateStore::Time ElectedStateStore::step() {
  try {
    const Time next = elected_ ? lead() : stand_by();
    reached("");
    return next;
  } catch (const UselessState&) {
    const Lock lock(mutex_);
    failed_ = std::current_exception();
  } catch (const Error& error) {
    reached(error.what());
  }
  return clock_() + kAgain;
}

void ElectedStateStore::resign() {
  if (elected_) end_term("it has resigned");
}

ElectedStateStore::Time ElectedStateStore::stand_by() {
  if (!looked_) read_state();  // throws at once if this scheduler can never lead
  looked_ = true;
  elected_ = leadership_->campaign();
  if (elected_) return lead();
  const std::string& leader = leadership_->leader();
  if (!leader.empty() && std::exchange(leader_, leader) != leader)
    log(Level::info, "standing_by", {{"leader", leader}});
  return clock_() + kLook;
}

// Renews the lease, then saves the state. Either may block for a while, or throw; then the next step() tries
// again.
ElectedStateStore::Time ElectedStateStore::lead() {
  if (clock_() >= leadership_->valid_until() || (begun_ && has_ended()))
    return end_term("etcd has not answered within the lease");
  if (!begun_) begin_term();
  if (clock_() >= next_renewal_) {
    if (!leadership_->renew()) return end_term("its lease has ended");
    next_renewal_ = clock_() + options_.lease / kRenewals;
    const Lock lock(mutex_);
    valid_until_ = leadership_->valid_until();
  }
  return save_newest() ? next_renewal_ : end_term("its key in etcd is gone");
}

bool ElectedStateStore::has_ended() {
  const Lock lock(mutex_);
  return term_ == 0;
}

std::optional<SchedulerState> ElectedStateStore::read_state() {
  const std::optional<std::string> text = leadership_->load();
  return text ? std::optional(decoded(*text)) : std::nullopt;
}

void ElectedStateStore::begin_term() {
  std::optional<SchedulerState> state = read_state();
  next_renewal_ = {};
  begun_ = true;
  {
    const Lock lock(mutex_);
    term_ = ++terms_;
    valid_until_ = leadership_->valid_until();
    state_ = std::move(state);
  }
  leader_.clear();
  log(Level::info, "became_leader", {{"address", options_.address}});
}

ElectedStateStore::Time ElectedStateStore::end_term(const std::string& why) {
  try {
    if (elected_) leadership_->resign();  // ends the lease, if it has not ended yet
  } catch (const Error&) {                // ignored, since the lease ends by itself later
  }
  elected_ = false;
  begin_campaign();
  {
    const Lock lock(mutex_);
    term_ = 0;
    wanted_.reset();
  }
  if (std::exchange(begun_, false)) log(Level::warning, "lost_leadership", {{"why", why}});
  return clock_();
}

bool ElectedStateStore::save_newest() {
  std::optional<std::string> text;
  std::uint64_t number = 0;
  {
    const Lock lock(mutex_);
    text = wanted_;
    number = wanted_number_;
  }
  if (!text) return true;
  if (!leadership_->save(*text)) return false;
  {
    const Lock lock(mutex_);
    saved_ = number;
    if (wanted_number_ == number) wanted_.reset();
  }
  wake_();
  return true;
}

SchedulerState ElectedStateStore::decoded(const std::string& text) const {
  const std::string key = "etcd's key " + state_key(options_.prefix);
  SchedulerState state;
  try {
    state = decode_scheduler_state(std::as_bytes(std::span(text)));
  } catch (const MalformedMessage& wrong) {
    throw UselessState(
        key + " is damaged: " + wrong.what() +
        ". The scheduler will not guess who keeps what. Remove the key, end all servers and workers, and "
        "start the job from its last checkpoint");
  }
  if (state.views.version > 0 && state.servers != options_.servers)
    throw UselessState(key + " is of " + std::to_string(state.servers) + " servers, not of " +
                       std::to_string(options_.servers) + "; another cluster needs another prefix");
  return state;
}

}  // namespace heddle::kv_detail
