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

void Transfer::start(const std::shared_ptr<Transfer>& self, Completion done) {
  if (!key_->is_known() && !(request_ && request_->kind == Kind::init))
    return done.fail(not_initialised(key_->name));
  std::vector<ServerCall> calls;
  calls.reserve(2 * key_->parts.size());
  for (StoreKeyPart& part : key_->parts) {
    if (request_) calls.push_back({part.server, push_call(self, part)});
    if (out_.defined()) calls.push_back({part.server, pull_call(self, part)});
  }
  left_.store(calls.size());
  done_.emplace(std::move(done));
  client_->submit(calls);
}

Call Transfer::push_call(const std::shared_ptr<Transfer>& self, StoreKeyPart& part) {
  Call call{.request = *request_};
  call.request.key = part.number;
  call.request.bytes = part.bytes;
  if (request_->kind == Kind::push) call.request.clock = part.clock + 1;
  if (value_.defined())
    call.payload = {self, std::span(value_.data<const std::byte>() + part.offset, part.bytes)};
  call.done = [self, &part](const Reply& reply, std::exception_ptr error) {
    if (!error && self->request_->kind == Kind::init) part.number = reply.key, part.clock = reply.clock;
    if (!error && self->request_->kind == Kind::push) ++part.clock;
    self->answered(std::move(error));
  };
  return call;
}

Call Transfer::pull_call(const std::shared_ptr<Transfer>& self, const StoreKeyPart& part) {
  Call call{.request = {.kind = Kind::pull, .key = part.number, .clock = part.clock + (request_ ? 1 : 0)}};
  call.request.priority = key_->priority;
  call.into = {out_.data<std::byte>() + part.offset, part.bytes};
  call.owner = self;
  call.done = [self](const Reply&, std::exception_ptr error) { self->answered(std::move(error)); };
  return call;
}

// The error of the op is that of the call that fails first: of a push, whose pull fails because of it.
void Transfer::answered(std::exception_ptr error) {
  if (error && !failed_.exchange(true)) error_ = std::move(error);
  if (left_.fetch_sub(1) > 1) return;
  Completion done = std::move(*done_);
  done_.reset();
  error_ ? done.fail(std::move(error_)) : done.done();
}

}  // namespace heddle
