// The store's transport alone: messages of the same length as the store's, to a process that keeps the last
// value of each key.
#include <cstring>
#include <stdexcept>
#include <utility>

#include "kvstore/kv_options.h"
#include "kvstore/kv_server.h"
#include "kvstore/kv_user.h"

namespace heddle::bench {
namespace {

using net_detail::Message;
using net_detail::Peer;
using net_detail::Transport;

constexpr std::size_t kPiece = 1 << 20;  // the store's piece size
constexpr std::uint64_t kMostKeys = 1 << 20, kMostBytes = 1 << 30;

enum class What : std::uint32_t { push, pull, done, value };

// The head of a message, as long as the head of the store's requests.
struct Head {
  What what = What::push;
  std::uint32_t key = 0;
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t filler[5]{};
};
static_assert(sizeof(Head) == 64);

std::vector<std::byte> encode(const Head& head) {
  std::vector<std::byte> bytes(sizeof head);
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

Head decode(std::span<const std::byte> bytes) {
  Head head;
  if (bytes.size() != sizeof head) throw std::runtime_error("a head of another length");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.key >= kMostKeys || head.bytes > kMostBytes || head.offset > head.bytes)
    throw std::runtime_error("a head that cannot be");
  return head;
}

void send_pieces(Transport& transport, Peer peer, What what, std::uint32_t key,
                 const net_detail::Payload& all) {
  const std::size_t size = all.bytes.size();
  for (std::size_t offset = 0; offset < size; offset += kPiece) {
    transport.send(peer, {encode({.what = what, .key = key, .offset = offset, .bytes = size}),
                          {all.owner, all.bytes.subspan(offset, std::min(kPiece, size - offset))}});
  }
}

std::span<std::byte> place_of(const Head& head, std::span<std::byte> value, std::size_t bytes) {
  if (value.size() != head.bytes || bytes > head.bytes - head.offset)
    throw std::runtime_error("a piece that does not fit");
  return value.subspan(head.offset, bytes);
}

class Echo final : net_detail::Receiver {
 public:
  explicit Echo(const ServerSetup& setup)
      : transport_(net_detail::make_transport(transport_options(setup.transport, setup.keys), *this)),
        address_(transport_->listen(setup.host + ":0")) {}

  const std::string& address() const { return address_; }
  void run(const std::atomic<bool>& stop) {
    while (!stop.load()) transport_->poll(std::chrono::milliseconds(500));
  }
  void wake() { transport_->wake(); }

 private:
  using Value = std::shared_ptr<std::vector<std::byte>>;

  void connected(Peer, const std::string&) override {}
  void disconnected(Peer, const std::string&) override {}

  std::span<std::byte> memory_for(Peer, std::span<const std::byte> bytes, std::size_t length) override {
    const Head head = decode(bytes);
    if (head.key >= values_.size()) values_.resize(head.key + 1);
    Value& value = values_[head.key];
    if (!value || value->size() != head.bytes) value = std::make_shared<std::vector<std::byte>>(head.bytes);
    return place_of(head, *value, length);
  }

  void received(Peer peer, std::span<const std::byte> bytes, std::span<std::byte> payload) override {
    const Head head = decode(bytes);
    if (head.what == What::pull) {
      const Value value = values_.at(head.key);
      return send_pieces(*transport_, peer, What::value, head.key, {value, *value});
    }
    if (head.offset + payload.size() < head.bytes) return;
    transport_->send(peer, {encode({.what = What::done, .key = head.key})});
  }

  std::unique_ptr<Transport> transport_;
  std::string address_;
  std::vector<Value> values_;
};

class BareUser final : public StoreUser, net_detail::Receiver {
 public:
  explicit BareUser(const UserOptions& options)
      : transport_(net_detail::make_transport(transport_options(options.transport, options.keys), *this)),
        server_(transport_->connect(options.address)) {}

  void make(std::size_t keys, std::size_t bytes) override {
    memory_.resize(keys, bytes);
    push();
  }
  std::span<std::byte> value(std::size_t key) override { return memory_.value(key); }
  std::span<std::byte> result(std::size_t key) override { return memory_.result(key); }

  void push() override { move(true, false); }
  void pull() override { move(false, true); }
  void push_pull() override { move(true, true); }

 private:
  void move(bool push, bool pull) {
    pulls_ = push && pull;
    left_ = memory_.keys();
    for (std::size_t key = 0; key < memory_.keys(); ++key) {
      if (push)
        send_pieces(*transport_, server_, What::push, static_cast<std::uint32_t>(key),
                    {nullptr, memory_.value(key)});
      else
        ask(static_cast<std::uint32_t>(key));
    }
    while (left_ > 0) {
      transport_->poll(std::chrono::seconds(1));
      if (!failure_.empty()) throw std::runtime_error("the echo is gone: " + failure_);
    }
  }

  void ask(std::uint32_t key) { transport_->send(server_, {encode({.what = What::pull, .key = key})}); }

  void connected(Peer, const std::string&) override {}
  void disconnected(Peer, const std::string& why) override { failure_ = why; }

  std::span<std::byte> memory_for(Peer, std::span<const std::byte> bytes, std::size_t length) override {
    const Head head = decode(bytes);
    return place_of(head, memory_.result(std::min<std::size_t>(head.key, memory_.keys() - 1)), length);
  }

  void received(Peer, std::span<const std::byte> bytes, std::span<std::byte> payload) override {
    const Head head = decode(bytes);
    if (head.what == What::done && pulls_) return ask(head.key);
    if (head.what == What::value && head.offset + payload.size() < head.bytes) return;
    --left_;
  }

  UserMemory memory_;
  bool pulls_ = false;  // whether the current round pulls each key after pushing it
  std::size_t left_ = 0;
  std::string failure_;
  std::unique_ptr<Transport> transport_;
  Peer server_;
};

}  // namespace

std::unique_ptr<StoreUser> make_bare_user(const UserOptions& options) {
  return std::make_unique<BareUser>(options);
}

int run_echo(const ServerSetup& setup) {
  Echo echo(setup);
  return serve_until_input_ends(
      echo.address(), [&](const std::atomic<bool>& stop) { echo.run(stop); }, [&] { echo.wake(); });
}

}  // namespace heddle::bench
