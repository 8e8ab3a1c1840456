#include "server/job/replies.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace heddle::kv_detail {

BundleReply* Replies::bundle_of(std::uint32_t rank, const Request& request) const {
  const bool is_part = bundle_ && bundle_->rank_ == rank && bundle_->request_.number == request.number;
  return is_part ? bundle_ : nullptr;
}

void Replies::done(std::uint32_t rank, const Request& request, const std::string& text) {
  if (bundle_of(rank, request)) return;
  out_.push_back(reply_to(request, workers_[rank].peer,
                          {.kind = Kind::done,
                           .key = request.key,
                           .number = request.number,
                           .clock = counts_.settings,
                           .bytes = counts_.collectives,
                           .text = text}));
}

void Replies::fail(std::uint32_t rank, const Request& request, const std::string& why) {
  if (BundleReply* const bundle = bundle_of(rank, request)) return bundle->failed(why);
  out_.push_back(reply_to(request, workers_[rank].peer,
                          {.kind = Kind::failed, .number = request.number, .text = why.substr(0, kMaxText)}));
}

void Replies::initialised(const WaitingRequest& init, std::uint64_t clock) {
  const Request& request = init.request;
  out_.push_back(
      reply_to(request, workers_[init.rank].peer,
               {.kind = Kind::done, .key = request.key, .number = request.number, .clock = clock}));
}

void Replies::value(const WaitingRequest& pull, std::uint64_t rounds, const Payload& value,
                    std::uint32_t number) {
  const std::span<const std::byte> bytes = value.bytes;
  workers_[pull.rank].stats.bytes_sent += bytes.size();
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(kPieceBytes, bytes.size() - offset);
    Reply reply{.kind = Kind::value,
                .key = number,
                .number = pull.request.number,
                .clock = rounds,
                .offset = offset,
                .bytes = bytes.size()};
    out_.push_back({workers_[pull.rank].peer,
                    std::move(reply),
                    {value.owner, bytes.subspan(offset, piece)},
                    pull.request.priority});
    offset += piece;
  } while (offset < bytes.size());
  out_.back().request = pull.request.kind;
  out_.back().arrived = pull.request.arrived;
}

BundleReply::BundleReply(Replies& replies, std::uint32_t rank, const Request& request)
    : replies_(replies), rank_(rank), request_(request), counted_(request.entries.size(), std::byte{1}) {
  replies_.bundle_ = this;
}

void BundleReply::failed(const std::string& why) {
  if (why_.empty()) why_ = why;
  counted_[at_] = std::byte{0};
}

void BundleReply::send() {
  replies_.bundle_ = nullptr;
  if (why_.empty()) return replies_.done(rank_, request_);
  Reply reply{.kind = Kind::failed, .number = request_.number, .bytes = counted_.size()};
  reply.text = why_.substr(0, kMaxText);
  const auto counted = std::make_shared<const std::vector<std::byte>>(std::move(counted_));
  replies_.out_.push_back(
      reply_to(request_, replies_.workers_[rank_].peer, std::move(reply), {counted, *counted}));
}

}  // namespace heddle::kv_detail
