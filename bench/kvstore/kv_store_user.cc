// Two users of Heddle's store: one calls a KVStore, whose calls are ops of the engine; the other calls the
// client layer below the KVStore, without the engine.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include <heddle/engine.h>
#include <heddle/ndarray.h>

#include "client/client.h"
#include "client/dist_store.h"
#include "kvstore/kv_options.h"
#include "kvstore/kv_user.h"
#include "wire/messages.h"

namespace heddle::bench {
namespace {

using kv_detail::Call;
using kv_detail::Kind;
using kv_detail::Reply;

kv_detail::ClientOptions client_options(const UserOptions& options) {
  if (options.layer == "cluster")
    return {.scheduler = options.address,
            .consistency = "async",
            .rank = -1,
            .workers = 0,
            .transport = transport_options(options.transport, options.keys)};
  return {.servers = {options.address},
          .job = options.layer,
          .consistency = "async",
          .transport = transport_options(options.transport, options.keys)};
}

class EngineUser final : public StoreUser {
 public:
  EngineUser(const UserOptions& options, bool lists)
      : store_("dist_async", client_options(options)), lists_(lists) {}

  void make(std::size_t keys, std::size_t bytes) override {
    values_.clear();
    results_.clear();
    keys_.clear();
    const auto workers = static_cast<std::size_t>(store_.workers()),
               rank = static_cast<std::size_t>(store_.rank());
    for (std::size_t i = 0; i < keys * workers; ++i) {
      const KVStore::Key key = next_++;
      NDArray value(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
      value.fill(0);
      store_.init(key, value);
      if (i % workers != rank) continue;  // the key belongs to another worker
      keys_.push_back(key);
      values_.push_back(std::move(value));
      results_.emplace_back(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
    }
    current_engine().wait_all();
  }

  std::span<std::byte> value(std::size_t key) override { return memory(values_[key]); }
  std::span<std::byte> result(std::size_t key) override { return memory(results_[key]); }

  void push() override {
    if (lists_) {
      store_.push(keys_, values_);
    } else {
      for (std::size_t i = 0; i < values_.size(); ++i) store_.push(keys_[i], values_[i]);
    }
    current_engine().wait_all();
  }

  void pull() override {
    for (std::size_t i = 0; i < values_.size(); ++i) store_.pull(keys_[i], results_[i]);
    wait_for_results();
  }

  void push_pull() override {
    const std::span<const KVStore::Key> keys(keys_);
    const std::span<const NDArray> values(values_), results(results_);
    const std::size_t step = lists_ ? kListed : 1;
    for (std::size_t i = 0; i < keys.size(); i += step) {
      const std::size_t count = std::min(step, keys.size() - i);
      if (lists_) {
        store_.push_pull(keys.subspan(i, count), values.subspan(i, count), results.subspan(i, count));
      } else {
        store_.push_pull(keys[i], values.subspan(i, 1), results.subspan(i, 1));
      }
    }
    wait_for_results();
  }

 private:
  static std::span<std::byte> memory(NDArray& array) {
    array.wait();
    return {array.data<std::byte>(), static_cast<std::size_t>(array.size())};
  }
  static constexpr std::size_t kListed = 16;  // number of keys in each push_pull call for a list of keys
  void wait_for_results() {
    for (const NDArray& result : results_) result.wait();
  }

  DistStore store_;
  const bool lists_;
  std::int64_t next_ = 0;
  std::vector<KVStore::Key> keys_;
  std::vector<NDArray> values_, results_;
};

// Counts the calls to the store that are not answered yet. Any thread may run the callbacks of the calls.
class Flight {
 public:
  explicit Flight(std::size_t calls) : state_(std::make_shared<State>()) { state_->left = calls; }
  auto landing() {
    return [state = state_](const Reply&, std::exception_ptr error) { state->landed(std::move(error)); };
  }
  void landed(std::exception_ptr error) { state_->landed(std::move(error)); }
  void wait(kv_detail::Client& client) {
    client.wait(state_->over);
    if (state_->error) std::rethrow_exception(state_->error);
  }

 private:
  struct State {
    std::atomic<std::size_t> left{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error{};
    std::atomic<std::uint32_t> over{0};
    void landed(std::exception_ptr why) {
      if (why && !failed.exchange(true)) error = std::move(why);
      if (left.fetch_sub(1) > 1) return;
      over.store(1);
      over.notify_all();
    }
  };
  std::shared_ptr<State> state_;
};

class CallsUser final : public StoreUser {
 public:
  CallsUser(const UserOptions& options, bool together)
      : client_(client_options(options)), together_(together) {}
  ~CallsUser() override { client_.leave(std::chrono::milliseconds(1000)); }

  void make(std::size_t keys, std::size_t bytes) override {
    memory_.resize(keys, bytes);
    numbers_.clear();
    clocks_.assign(keys, 0);
    for (std::size_t i = 0; i < keys; ++i) {
      Call call{
          .request = {
              .kind = Kind::init, .has_value = true, .dtype = DType::u8, .text = std::to_string(next_++)}};
      call.payload.bytes = memory_.value(i);
      numbers_.push_back(client_.call(0, std::move(call)).key);
    }
  }

  std::span<std::byte> value(std::size_t key) override { return memory_.value(key); }
  std::span<std::byte> result(std::size_t key) override { return memory_.result(key); }

  void push() override {
    submit_all([this](std::size_t i) { return push_call(i); });
  }
  void pull() override {
    submit_all([this](std::size_t i) { return pull_call(i); });
  }

  void push_pull() override {
    if (together_) return push_pull_together();
    if (memory_.keys() == 1) {
      client_.call(0, push_call(0));
      client_.call(0, pull_call(0));
      return;
    }
    Flight flight(memory_.keys());
    for (std::size_t i = 0; i < memory_.keys(); ++i) {
      Call call = push_call(i);
      call.done = [this, flight, i](const Reply&, std::exception_ptr error) mutable {
        if (error) return flight.landed(std::move(error));
        submit(flight, pull_call(i));
      };
      client_.submit(0, std::move(call));
    }
    flight.wait(client_);
  }

 private:
  void push_pull_together() {
    Flight flight(2 * memory_.keys());
    for (std::size_t i = 0; i < memory_.keys(); ++i) {
      std::array<kv_detail::ServerCall, 2> calls{{{0, push_call(i)}, {0, pull_call(i)}}};
      for (auto& one : calls) one.call.done = flight.landing();
      client_.submit(calls);
    }
    flight.wait(client_);
  }

  template <class Make> void submit_all(Make&& make) {
    Flight flight(memory_.keys());
    for (std::size_t i = 0; i < memory_.keys(); ++i) submit(flight, make(i));
    flight.wait(client_);
  }

  void submit(Flight flight, Call call) {
    call.done = flight.landing();
    client_.submit(0, std::move(call));
  }

  Call push_call(std::size_t i) {
    Call call{.request = {.kind = Kind::push,
                          .dtype = DType::u8,
                          .key = numbers_[i],
                          .clock = ++clocks_[i],
                          .lr = std::numeric_limits<double>::quiet_NaN()}};
    call.payload.bytes = memory_.value(i);
    return call;
  }

  Call pull_call(std::size_t i) {
    Call call{.request = {.kind = Kind::pull, .key = numbers_[i], .clock = clocks_[i]}};
    call.into = memory_.result(i);
    return call;
  }

  UserMemory memory_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint64_t> clocks_;
  std::uint64_t next_ = 0;
  kv_detail::Client client_;
  const bool together_;
};

}  // namespace

std::unique_ptr<StoreUser> make_store_user(const UserOptions& options, bool lists) {
  return std::make_unique<EngineUser>(options, lists);
}

std::unique_ptr<StoreUser> make_calls_user(const UserOptions& options, bool together) {
  return std::make_unique<CallsUser>(options, together);
}

}  // namespace heddle::bench
