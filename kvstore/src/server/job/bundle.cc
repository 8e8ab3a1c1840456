// push_many and pull_many: several small pushes or pulls, done one by one in order, with one reply.
#include <algorithm>
#include <cstring>

#include "server/job/job.h"

namespace heddle::kv_detail {
namespace {

Request single(Kind kind, const Request& request, const BundleEntry& entry) {
  return {.kind = kind,
          .dtype = entry.dtype,
          .key = entry.key,
          .number = request.number,
          .clock = entry.clock,
          .bytes = entry.bytes,
          .lr = request.lr,
          .scale = request.scale,
          .priority = request.priority};
}

}  // namespace

// True if the request is part of the push_many that is being handled, whose replies become one. Requests that
// waited for its pushes are answered as usual.
bool Job::is_bundled(std::uint32_t rank, const Request& request) const {
  return bundle_ && bundle_->rank == rank && bundle_->number == request.number;
}

// A repeated bundle, whose reply was lost, changes nothing: its pushes have been counted.
void Job::push_many(std::uint32_t rank, const Request& request) {
  Bundle bundle{.rank = rank, .number = request.number};
  bundle.counted.assign(request.entries.size(), std::byte{1});
  const std::span<const std::byte> values(workers_[rank].bundle);
  struct Handled {
    Bundle*& bundle;
    ~Handled() { bundle = nullptr; }
  } const handled{bundle_};
  bundle_ = &bundle;
  std::size_t offset = 0;
  for (const BundleEntry& entry : request.entries) {
    push_one(rank, single(Kind::push, request, entry), values.subspan(offset, entry.bytes));
    offset += entry.bytes;
    ++bundle.at;
  }
  bundle_ = nullptr;
  if (bundle.why.empty()) return done(rank, request);
  Reply reply{.kind = Kind::failed, .number = request.number, .bytes = bundle.counted.size()};
  reply.text = bundle.why.substr(0, kMaxText);
  const auto counted = std::make_shared<const std::vector<std::byte>>(std::move(bundle.counted));
  out_.push_back(reply_to(request, workers_[rank].peer, std::move(reply), {counted, *counted}));
}

// A fast path for pushes without an optimizer and without a backup, at a tenth of the cost. False: it cannot
// be taken, and nothing has been done.
bool Job::replace_at_once(std::uint32_t rank, const Request& request, std::span<const std::byte> value,
                          StoredKey& key) {
  std::string why;
  const bool may = !changes_.wanted && job_settings_.consistency.mode != Consistency::Mode::sync &&
                   rule_.kind == UpdateRule::Kind::replace && request.clock == key.clock(rank) + 1 &&
                   !value.empty() && value.size() == key.bytes() && request.dtype == key.dtype() &&
                   !key.failures.has(rank) && !key.is_incoming(rank) && memory_.has_room(key.bytes(), why);
  if (!may) return false;
  copy_before_write(key);
  if (!key.replace(rank, value)) return false;
  ++changes_.count;
  count_push(rank, request);
  answer_waiting(key);
  return true;
}

void Job::push_one(std::uint32_t rank, const Request& request, std::span<const std::byte> value) {
  if (const std::string why = lost(rank, request); !why.empty()) return fail(rank, request, why);
  StoredKey& key = key_of(request);
  if (replace_at_once(rank, request, value, key)) return;
  if (!value.empty() && request.clock > key.clock(rank)) {
    if (!begin_push(rank, request, key, value.size())) return;
    std::memcpy(key.incoming(rank, 0), value.data(), value.size());
  }
  push(rank, request, value.size());
}

void Job::pull_many(std::uint32_t rank, Request request) {
  for (const BundleEntry& entry : request.entries) {
    const std::string why = lost(rank, single(Kind::pull, request, entry));
    if (!why.empty()) return fail(rank, request, why);
    const StoredKey& key = key_of({.key = entry.key});
    if (entry.clock > key.clock(rank))
      return fail(rank, request, "key " + key.name() + ": the push before the pull has failed");
    if (entry.bytes != key.bytes())
      return fail(rank, request,
                  "key " + key.name() + ": it has " + std::to_string(key.bytes()) + " bytes, not " +
                      std::to_string(entry.bytes));
  }
  request.offset = request.entries.size();  // entries [0, offset) are not known to be ready
  answer_bundle(nullptr, {rank, std::move(request)});
}

// Answers a pull_many, or lets it wait for one key after the other, the last one first: most often that is
// the last to be pushed. A key that is ready stays ready. False: the request still waits for `key`.
bool Job::answer_bundle(const StoredKey* key, const WaitingRequest& waiting) {
  const std::uint32_t rank = waiting.rank;
  const std::vector<BundleEntry>& entries = waiting.request.entries;
  std::uint64_t bytes = 0, worst = 0;
  for (std::size_t i = waiting.request.offset; i-- > 0;) {
    StoredKey& one = key_of({.key = entries[i].key});
    if (one.failures.has(rank)) return fail(rank, waiting.request, one.failures.text(rank)), true;
    if (one.lead(rank, entries[i].clock, job_settings_.consistency, pushing_)) continue;
    if (&one == key) return false;
    if (!key) check_waiting(one, rank);
    WaitingRequest later = waiting;
    later.request.offset = i + 1;
    add_waiting(one, std::move(later));
    return true;
  }
  for (const BundleEntry& entry : entries) {
    const StoredKey& one = key_of({.key = entry.key});
    if (one.failures.has(rank)) return fail(rank, waiting.request, one.failures.text(rank)), true;
    worst = std::max(worst, one.lead(rank, entry.clock, job_settings_.consistency, pushing_).value_or(0));
    bytes += one.bytes();
  }
  const auto values = std::make_shared<std::vector<std::byte>>();
  values->reserve(bytes);
  for (const BundleEntry& entry : entries) {
    const StoredKey& one = key_of({.key = entry.key});
    const Payload value = one.value();
    values->insert(values->end(), value.bytes.begin(), value.bytes.end());
  }
  counters_.held.add(values, bytes);
  counters_.pulls += entries.size();
  workers_[rank].stats.pulls += entries.size();
  counters_.worst_staleness = std::max(counters_.worst_staleness, worst);
  send_value(waiting, 0, {values, *values});
  return true;
}

}  // namespace heddle::kv_detail
