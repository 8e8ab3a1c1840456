#include "server/job/job_log.h"

#include <algorithm>
#include <memory>

#include "server/state/state_saver.h"

namespace heddle::kv_detail {

Recorded JobLog::add(Record record) {
  record.job = job_;
  return changes_.add(record);
}

Recorded JobLog::join(const Hello& hello, std::uint64_t incarnation) {
  Record record{.kind = Record::Kind::join, .number = incarnation, .hello = hello};
  // The backup does not use the hello's versions.
  record.hello.oldest = record.hello.newest = kOldestProtocol;
  return changes_.add(record);
}

Recorded JobLog::drop(std::uint32_t rank) { return add({.kind = Record::Kind::drop, .rank = rank}); }

Recorded JobLog::fail_key(std::uint32_t number, const std::string& why) {
  return add({.kind = Record::Kind::fail_key, .number = number, .text = why});
}

Recorded JobLog::key(const Request& init) {
  return add({.kind = Record::Kind::key,
              .request = {.kind = Kind::init,
                          .dtype = init.dtype,
                          .bytes = init.bytes,
                          .priority = init.priority,
                          .text = init.text,
                          .whole = init.whole}});
}

Recorded JobLog::request(std::uint32_t rank, const Request& request, const Payload& whole) {
  if (!changes_.wanted) return changes_.count_only();
  Record record;
  record.kind = Record::Kind::request;
  record.job = job_;
  record.rank = rank;
  record.request = request;
  std::uint64_t& offset = record.request.offset;
  offset = 0;
  for (;;) {
    const std::size_t bytes = std::min<std::size_t>(kPieceBytes, whole.bytes.size() - offset);
    const Recorded recorded = changes_.add(record, {whole.owner, whole.bytes.subspan(offset, bytes)});
    offset += bytes;
    if (offset >= whole.bytes.size()) return recorded;
  }
}

// The record shares the array of the value instead of a copy: an array is changed in place only if nobody
// else holds it.
Recorded JobLog::request(std::uint32_t rank, const Request& request, const Incoming& value) {
  if (!changes_.wanted) return changes_.count_only();
  const auto owner = std::make_shared<const NDArray>(value.memory());
  return this->request(rank, request, Payload{owner, {owner->data<const std::byte>(), value.bytes()}});
}

void JobLog::copy_for_savers(const KeyTable& keys, const JobKey& key) const noexcept {
  for (StateSaver* const one : changes_.savers) one->keep(keys, key);
}

}  // namespace heddle::kv_detail
