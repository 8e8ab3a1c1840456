// The users of Heddle's store: through the engine, and through the client below it.
#include <atomic>
#include <future>
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
  return {.servers = {options.address},
          .job = options.layer,
          .consistency = "async",
          .transport = transport_options(options.transport, options.keys)};
}

class EngineUser final : public StoreUser {
 public:
  explicit EngineUser(const UserOptions& options) : store_("dist_async", client_options(options)) {}

  void make(std::size_t keys, std::size_t bytes) override {
    values_.clear();
    results_.clear();
    first_ = next_;
    for (std::size_t i = 0; i < keys; ++i) {
      values_.emplace_back(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
      results_.emplace_back(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
      values_.back().fill(0);
      store_.init(next_++, values_.back());
    }
    current_engine().wait_all();
  }

  std::span<std::byte> value(std::size_t key) override { return memory(values_[key]); }
  std::span<std::byte> result(std::size_t key) override { return memory(results_[key]); }

  void push() override {
    for (std::size_t i = 0; i < values_.size(); ++i) store_.push(key(i), values_[i]);
    current_engine().wait_all();
  }

  void pull() override {
    for (std::size_t i = 0; i < values_.size(); ++i) store_.pull(key(i), results_[i]);
    wait_for_results();
  }

  void push_pull() override {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      store_.push(key(i), values_[i]);
      store_.pull(key(i), results_[i]);
    }
    wait_for_results();
  }

 private:
  static std::span<std::byte> memory(NDArray& array) {
    array.wait();
    return {array.data<std::byte>(), static_cast<std::size_t>(array.size())};
  }
  KVStore::Key key(std::size_t i) const { return first_ + static_cast<KVStore::Key>(i); }
  void wait_for_results() {
    for (const NDArray& result : results_) result.wait();
  }

  DistStore store_;
  KVStore::Key first_ = 0, next_ = 0;
  std::vector<NDArray> values_, results_;
};

// Calls that are under way at once. The client calls done() on its one thread.
class Flight {
 public:
  explicit Flight(std::size_t calls) : left_(calls) {}
  void landed(std::exception_ptr error) {
    if (error && !error_) error_ = std::move(error);
    if (--left_ > 0) return;
    error_ ? all_.set_exception(error_) : all_.set_value();
  }
  void wait() { all_.get_future().get(); }

 private:
  std::size_t left_;
  std::exception_ptr error_;
  std::promise<void> all_;
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
      call.done = [this, &flight, i](const Reply&, std::exception_ptr error) {
        if (error) return flight.landed(std::move(error));
        submit(flight, pull_call(i));
      };
      client_.submit(0, std::move(call));
    }
    flight.wait();
  }

 private:
  void push_pull_together() {
    Flight flight(2 * memory_.keys());
    for (std::size_t i = 0; i < memory_.keys(); ++i) {
      submit(flight, push_call(i));
      submit(flight, pull_call(i));
    }
    flight.wait();
  }

  template <class Make> void submit_all(Make&& make) {
    Flight flight(memory_.keys());
    for (std::size_t i = 0; i < memory_.keys(); ++i) submit(flight, make(i));
    flight.wait();
  }

  void submit(Flight& flight, Call call) {
    call.done = [&flight](const Reply&, std::exception_ptr error) { flight.landed(std::move(error)); };
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

std::unique_ptr<StoreUser> make_store_user(const UserOptions& options) {
  return std::make_unique<EngineUser>(options);
}

std::unique_ptr<StoreUser> make_calls_user(const UserOptions& options, bool together) {
  return std::make_unique<CallsUser>(options, together);
}

}  // namespace heddle::bench
