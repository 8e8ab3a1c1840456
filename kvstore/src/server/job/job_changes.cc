// The changes of a job's state as records: the primary makes them, its backup applies them.
#include <algorithm>

#include "server/job/job.h"
#include "server/state/state_saver.h"

namespace heddle::kv_detail {

// Records a request for the backup. A value that came in pieces is recorded when it is complete.
void Job::changed(std::uint32_t rank, const Request& request, const Payload& whole) {
  if (!changes_.wanted) {
    ++changes_.count;
    return;
  }
  Record record;
  record.kind = Record::Kind::request;
  record.job = name_;
  record.rank = rank;
  record.request = request;
  std::uint64_t& offset = record.request.offset;
  offset = 0;
  do {
    const std::size_t bytes = std::min<std::size_t>(kPieceBytes, whole.bytes.size() - offset);
    changes_.add(record, {whole.owner, whole.bytes.subspan(offset, bytes)});
    offset += bytes;
  } while (offset < whole.bytes.size());
}

// The record shares the array, which is changed only where nobody else holds it.
void Job::changed_value(std::uint32_t rank, const Request& request, const StoredKey& key) {
  if (!changes_.wanted) return changed(rank, request);
  const auto owner = std::make_shared<const NDArray>(key.incoming_memory(rank));
  changed(rank, request, {owner, {owner->data<const std::byte>(), key.incoming_bytes(rank)}});
}

void Job::copy_before_write(const StoredKey& key) {
  for (StateSaver* const one : changes_.savers) one->keep(*this, key);
}

void Job::apply(const Record& record, std::size_t payload, Clock::time_point now) {
  if (record.kind != Record::Kind::key && record.kind != Record::Kind::fail_key &&
      record.rank >= workers_.size())
    throw MalformedMessage("a record of worker " + std::to_string(record.rank) + " of " +
                           std::to_string(workers_.size()));
  switch (record.kind) {
    case Record::Kind::drop:
      return drop(record.rank);
    case Record::Kind::key:
      key_for_init(record.request);
      return;
    case Record::Kind::fail_key:
      return fail_key(key_of({.key = static_cast<std::uint32_t>(record.number)}), record.text);
    case Record::Kind::request: {
      const std::uint64_t before = changes_.count;
      received(record.rank, record.request, payload, now);
      const bool is_part = record.request.offset + payload < record.request.bytes;
      if (changes_.count == before && !is_part)
        throw MalformedMessage("a change of the primary that changes nothing here");
      return;
    }
    default:
      throw MalformedMessage("a record that is none of a job");
  }
}

void Job::promoted(Clock::time_point now) {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    Worker& worker = workers_[rank];
    worker.peer = 0;
    worker.stats.connected = false;
    forget_buffers(worker);
    worker.last_seen = now;
    drop_incoming(rank);
  }
  for (StoredKey* const key : keys_with_waiters_) take_waiting(*key);
}

}  // namespace heddle::kv_detail
