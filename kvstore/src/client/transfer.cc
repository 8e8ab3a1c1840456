#include "client/transfer.h"

#include <utility>

#include <heddle/store_error.h>

namespace heddle {

using kv_detail::Call;
using kv_detail::Kind;
using kv_detail::Reply;
using kv_detail::Request;
using kv_detail::ServerCall;

std::exception_ptr not_initialised(const std::string& key) {
  return std::make_exception_ptr(StoreError("key " + key + ": no server has it, since its init failed"));
}

void Transfer::push(const Request& request, NDArray value) {
  request_ = request;
  value_ = std::move(value);
}

void Transfer::pull(NDArray to) { out_ = std::move(to); }

std::shared_ptr<Transfer> Transfer::again() const {
  auto copy = std::make_shared<Transfer>(client_, key_);
  copy->request_ = request_;
  copy->value_ = value_;
  copy->out_ = out_;
  return copy;
}

void Transfer::start(const std::shared_ptr<Transfer>& self, Completion done) {
  if (!key_->is_known() && !(request_ && request_->kind == Kind::init))
    return done.fail(not_initialised(key_->name));
  std::vector<ServerCall> calls;
  calls.reserve(2 * key_->parts.size());
  for (ClientKeyPart& part : key_->parts) {
    if (request_) calls.push_back({part.server, push_call(self, part)});
    if (out_.defined()) calls.push_back({part.server, pull_call(self, part)});
  }
  left_.store(calls.size());
  done_.emplace(std::move(done));
  const std::shared_ptr<kv_detail::Client> client = client_;  // a copy, since the last answer resets client_
  client->submit(calls);
}

Call Transfer::push_call(const std::shared_ptr<Transfer>& self, ClientKeyPart& part) {
  Call call{.request = *request_};
  call.request.key = part.number;
  const bool compressed = request_->kind == Kind::push && !request_->text.empty();
  const std::size_t offset = compressed ? part.sent_offset : part.offset;
  call.request.bytes = compressed ? part.sent_bytes : part.bytes;
  if (request_->kind == Kind::push) call.request.clock = part.clock + 1;
  if (request_->kind == Kind::init)
    call.request.whole = {
        key_->bytes(), static_cast<std::uint32_t>(key_->row_bytes > 0 ? key_->bytes() / key_->row_bytes : 0)};
  if (value_.defined())
    call.payload = {self, std::span(value_.data<const std::byte>() + offset, call.request.bytes)};
  call.done = [self, &part](const Reply& reply, std::exception_ptr error) {
    const bool known = !error && self->request_->kind == Kind::init && !self->failed_.load();
    if (known) part.number = reply.key, part.clock = reply.clock;
    if (!error && self->request_->kind == Kind::push) ++part.clock;
    self->answered(std::move(error));
  };
  return call;
}

Call Transfer::pull_call(const std::shared_ptr<Transfer>& self, const ClientKeyPart& part) {
  Call call{.request = {.kind = Kind::pull, .key = part.number, .clock = part.clock + (request_ ? 1 : 0)}};
  call.request.priority = key_->priority;
  call.into = {out_.data<std::byte>() + part.offset, part.bytes};
  call.owner = self;
  call.done = [self](const Reply&, std::exception_ptr error) { self->answered(std::move(error)); };
  return call;
}

// The op's error is that of the call that fails first: if a push and its pull fail, that of the push. A
// failed init ends the op at once: the init of the key on another server may wait for ever for a value that
// rank 0 does not send.
void Transfer::answered(std::exception_ptr error) {
  const bool is_first = error && !failed_.exchange(true);
  if (is_first) error_ = std::move(error);
  const bool is_last = left_.fetch_sub(1) == 1, is_init = request_ && request_->kind == Kind::init;
  if (is_init && failed_.load() ? !is_first : !is_last) return;
  // A thread of ZeroMQ may be the last owner of this Transfer. It must not destroy the client, since it
  // cannot end the ZeroMQ context that it belongs to.
  client_ = nullptr;
  Completion done = std::move(*done_);
  done_.reset();
  error_ ? done.fail(std::move(error_)) : done.done();
}

}  // namespace heddle
