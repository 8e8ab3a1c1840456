#include "client/bundle_transfer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "client/transfer.h"

namespace heddle {

using kv_detail::Call;
using kv_detail::Kind;
using kv_detail::Reply;
using kv_detail::Request;
using kv_detail::ServerCall;

void BundleTransfer::start(const std::shared_ptr<BundleTransfer>& self, Completion done) {
  for (const BundledKey& one : keys_) {
    if (!one.key->is_known()) return done.fail(not_initialised(one.key->name));
  }
  shares_.resize(client_->servers());
  for (BundledKey& one : keys_) shares_[one.key->parts[0].server].keys.push_back(&one);
  std::vector<ServerCall> calls;
  for (std::size_t server = 0; server < shares_.size(); ++server) {
    if (!shares_[server].keys.empty()) send(self, server, calls);
  }
  left_.store(calls.size());
  done_.emplace(std::move(done));
  const std::shared_ptr<kv_detail::Client> client = client_;  // a copy, since the last answer resets client_
  client->submit(calls);
}

// The request has the priority of its most urgent key.
Request BundleTransfer::request_for(Kind kind, const Share& share) const {
  Request request = push_.value_or(Request{});
  request.kind = kind;
  request.priority = std::numeric_limits<std::int32_t>::min();
  request.bytes = 0;
  request.entries.reserve(share.keys.size());
  for (const BundledKey* one : share.keys) {
    const ClientKeyPart& part = one->key->parts[0];
    request.priority = std::max(request.priority, one->key->priority);
    request.bytes += part.bytes;
    request.entries.push_back({.key = part.number,
                               .bytes = static_cast<std::uint32_t>(part.bytes),
                               .clock = part.clock + (push_ ? 1 : 0),
                               .dtype = one->key->dtype});
  }
  return request;
}

void BundleTransfer::send(const std::shared_ptr<BundleTransfer>& self, std::size_t server,
                          std::vector<ServerCall>& calls) {
  Share& share = shares_[server];
  if (push_) {
    Call call{.request = request_for(Kind::push_many, share)};
    share.values.reserve(call.request.bytes);
    for (const BundledKey* one : share.keys) {
      const auto* const begin = one->value.data<const std::byte>();
      share.values.insert(share.values.end(), begin, begin + one->key->bytes());
    }
    call.payload = {self, share.values};
    call.collect = &share.counted;
    call.done = [self, &share](const Reply&, std::exception_ptr error) { self->pushed(share, error); };
    calls.push_back({server, std::move(call)});
  }
  if (keys_[0].out.defined()) {
    Call call{.request = request_for(Kind::pull_many, share)};
    share.results.resize(call.request.bytes);
    for (const BundledKey* one : share.keys) share.into.push_back(one->out.data<std::byte>());
    call.into = share.results;
    call.owner = self;
    call.done = [self, &share](const Reply&, std::exception_ptr error) { self->pulled(share, error); };
    calls.push_back({server, std::move(call)});
  }
}

void BundleTransfer::pushed(Share& share, std::exception_ptr error) {
  const bool is_told = share.counted.size() == share.keys.size();
  for (std::size_t i = 0; i < share.keys.size(); ++i) {
    if (!error || (is_told && share.counted[i] == std::byte{1})) ++share.keys[i]->key->parts[0].clock;
  }
  answered(std::move(error));
}

void BundleTransfer::pulled(Share& share, std::exception_ptr error) {
  const std::byte* from = share.results.data();
  for (std::size_t i = 0; i < share.keys.size(); ++i) {
    const std::size_t bytes = share.keys[i]->key->bytes();
    if (!error && bytes > 0) std::memcpy(share.into[i], from, bytes);
    from += bytes;
  }
  answered(std::move(error));
}

void BundleTransfer::answered(std::exception_ptr error) {
  if (error && !failed_.exchange(true)) error_ = std::move(error);
  if (left_.fetch_sub(1) > 1) return;
  client_ = nullptr;  // Transfer::answered() says why
  Completion done = std::move(*done_);
  done_.reset();
  error_ ? done.fail(std::move(error_)) : done.done();
}

}  // namespace heddle
