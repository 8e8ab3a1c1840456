#include "server/replica/replica_receiver.h"

#include <utility>

namespace heddle::kv_detail {

void ReplicaReceiver::disconnect() {
  if (peer_ != 0) owner_.close(std::exchange(peer_, 0));
}

void ReplicaReceiver::answer(ReplicaKind kind, std::uint64_t number) {
  const ReplicaMessage message{.kind = kind, .shard = shard_, .epoch = copy_, .log = log_, .number = number};
  owner_.transport().send(peer_, {encode(message)});
}

void ReplicaReceiver::greeted(Peer peer, const ReplicaMessage& hello) {
  disconnect();
  peer_ = peer;
  if (hello.log != log_) complete_ = false;
  if (!complete_) loader_ = nullptr, core_ = nullptr, log_ = 0, applied_ = 0;
  answer(ReplicaKind::welcome, applied_);
  log_ = hello.log;
}

void ReplicaReceiver::begin_state() {
  complete_ = false;
  loader_ = nullptr;
  core_ =
      std::make_unique<ServerCore>(core_options(owner_, shard_), owner_.incarnation(), owner_.memory_used());
  core_->follow();
  loader_ = std::make_unique<StateLoader>(*core_);
}

std::span<std::byte> ReplicaReceiver::memory_for(const ReplicaMessage& message, std::size_t bytes) {
  if (message.kind == ReplicaKind::state) return {};
  if (message.kind != ReplicaKind::record || !complete_)
    throw MalformedMessage("a payload where none belongs");
  try {
    return core_->memory_for(decode_record(message.inner, bytes), bytes);
  } catch (const std::exception& error) {
    throw ReplicaDiverged(error.what());
  }
}

void ReplicaReceiver::received(const ReplicaMessage& message, std::span<const std::byte> payload,
                               Clock::time_point now) {
  switch (message.kind) {
    case ReplicaKind::state_begin:
      return begin_state();
    case ReplicaKind::state:
      if (!loader_) throw MalformedMessage("a part of a state that has not begun");
      return loader_->add(message.inner, payload);
    case ReplicaKind::state_end:
      if (!loader_ || !loader_->complete()) throw MalformedMessage("a state that is not complete");
      loader_ = nullptr;
      former_ = nullptr;
      complete_ = true;
      applied_ = message.number;
      return answer(ReplicaKind::applied, applied_);
    case ReplicaKind::record:
      return apply(message, payload.size(), now);
    case ReplicaKind::beat:
      lease_end_ = now + kLease;
      return answer(ReplicaKind::beat, message.number);
    default:
      throw MalformedMessage("a message that no primary sends");
  }
}

void ReplicaReceiver::apply(const ReplicaMessage& message, std::size_t payload, Clock::time_point now) {
  if (!complete_ || message.number != applied_ + 1)
    throw MalformedMessage("record " + std::to_string(message.number) + " after " + std::to_string(applied_));
  try {
    core_->apply(decode_record(message.inner, payload), payload, now);
    core_->take_outbox();
  } catch (const std::exception& error) {
    throw ReplicaDiverged(error.what());
  }
  applied_ = message.number;
  answer(ReplicaKind::applied, applied_);
}

}  // namespace heddle::kv_detail
