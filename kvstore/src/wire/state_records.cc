#include "wire/state_records.h"

#include <utility>

#include "wire/dtype_field.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

// The first byte of a head: 1 + the index of the alternative in StateRecord.
enum class RecordKind : std::uint8_t { begin = 1, job, worker, collective, key, array, piece, end };

void check_size(const char* what, std::uint64_t bytes, DType type) {
  if (bytes % size_of(type) == 0) return;
  throw MalformedMessage(std::string(what) + " of " + std::to_string(bytes) + " bytes of " + name_of(type));
}

StateCollective collective_from(Reader& reader) {
  auto collective = reader.get<StateCollective>();
  FromWorker message = decode_from_worker(reader.rest(), 0);
  auto* request = std::get_if<Request>(&message);
  if (!request || (request->kind != Kind::set_optimizer && request->kind != Kind::barrier))
    throw MalformedMessage("a collective that is none");
  collective.request = std::move(*request);
  return collective;
}

StateRecord record_from(RecordKind kind, Reader& reader) {
  switch (kind) {
    case RecordKind::begin:
      return reader.get<StateBegin>();
    case RecordKind::job:
      return reader.get<StateJob>();
    case RecordKind::worker:
      return reader.get<StateWorker>();
    case RecordKind::collective:
      return collective_from(reader);
    case RecordKind::key:
      return reader.get<StateKey>();
    case RecordKind::array:
      return reader.get<StateArray>();
    case RecordKind::piece:
      return reader.get<StatePiece>();
    case RecordKind::end:
      return reader.get<StateEnd>();
  }
  throw MalformedMessage("a part of a state of the kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

void StateBegin::check() const {
  if (version >= kOldestStateVersion && version <= kStateVersion) return;
  throw MalformedMessage("a state of version " + std::to_string(version) + "; this program reads versions " +
                         std::to_string(kOldestStateVersion) + " to " + std::to_string(kStateVersion));
}

void StateJob::check() const {
  if (workers == 0 || workers > kMostWorkers)
    throw MalformedMessage("a job of " + std::to_string(workers) + " workers");
}

void StateKey::check() const {
  check_dtype(dtype);
  check_size("a key", bytes, dtype);
}

void StateArray::check() const {
  if (role > Role::optimizer) throw MalformedMessage("an array of no role");
  check_dtype(dtype);
  check_size("an array", bytes, dtype);
  if (!has_value && (role != Role::push || !overwrite || bytes > 0))
    throw MalformedMessage("an array without a value");
  if (row_bytes > 0 && role != Role::push) throw MalformedMessage("rows of what is no push");
  check_rows({.overwrite = overwrite, .bytes = bytes, .row_bytes = row_bytes});
}

std::vector<std::byte> encode(const StateRecord& record, std::uint16_t version) {
  Writer writer(version);
  writer(static_cast<std::uint8_t>(record.index() + 1));
  std::visit([&writer](const auto& one) { writer(one); }, record);
  if (const auto* collective = std::get_if<StateCollective>(&record))
    writer.bytes(encode(collective->request));
  return writer.take();
}

StateRecord decode_state_record(std::span<const std::byte> head, std::uint16_t version) {
  Reader reader(head, version);
  StateRecord record = record_from(reader.get<RecordKind>(), reader);
  reader.end();
  return record;
}

std::vector<std::byte> encode_clocks(const std::vector<std::uint64_t>& clocks,
                                     const std::vector<std::uint64_t>& missed) {
  Writer writer;
  writer.bytes(std::as_bytes(std::span(clocks)));
  writer.bytes(std::as_bytes(std::span(missed)));
  return writer.take();
}

Clocks decode_clocks(std::span<const std::byte> payload, std::size_t workers) {
  Clocks result{std::vector<std::uint64_t>(workers), std::vector<std::uint64_t>(workers)};
  Reader reader(payload);
  for (std::uint64_t& one : result.clocks) reader(one);
  for (std::uint64_t& one : result.missed) reader(one);
  reader.end();
  return result;
}

}  // namespace heddle::kv_detail
