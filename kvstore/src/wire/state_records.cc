#include "wire/state_records.h"

#include "wire/dtype_field.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kMaxArrayName = 64;

// The first byte of a head: 1 + the index of the alternative in StateRecord.
enum class RecordKind : std::uint8_t { begin = 1, job, worker, collective, key, array, piece, end };

std::string cut(const std::string& text) { return text.substr(0, kMaxText); }

void put(Writer& writer, const StateBegin& begin) {
  writer.put(begin.version);
  writer.put(begin.number);
  writer.put(begin.servers);
  for (const std::uint64_t one : {begin.incarnation, begin.jobs_begun, begin.pushes, begin.pulls,
                                  begin.duplicates, begin.refused, begin.rounds, begin.worst_staleness})
    writer.put(one);
}

void put(Writer& writer, const StateJob& job) {
  writer.put(job.name);
  writer.put(job.consistency);
  writer.put(job.rule);
  writer.put(job.incarnation);
  writer.put(job.workers);
  writer.put(job.servers);
  writer.put(job.restored);
  writer.put(job.generation);
}

void put(Writer& writer, const StateWorker& worker) {
  for (const bool flag : {worker.greeted, worker.left, worker.dropped, worker.rejoined})
    writer.put(static_cast<std::uint8_t>(flag));
  for (const std::uint64_t one : {worker.incarnation, worker.collective_done, worker.pushes, worker.pulls,
                                  worker.bytes_received, worker.bytes_sent})
    writer.put(one);
  writer.put(worker.clock);
  writer.put(cut(worker.collective_failure));
}

void put(Writer& writer, const StateCollective& collective) {
  writer.put(collective.rank);
  writer.put(encode(collective.request));
}

void put(Writer& writer, const StateKey& key) {
  writer.put(key.name);
  writer.put(static_cast<std::uint8_t>(key.dtype));
  writer.put(key.number);
  writer.put(key.bytes);
  writer.put(key.rounds);
  writer.put(key.whole_bytes);
  writer.put(key.whole_rows);
  writer.put(cut(key.failure));
  if (key.place != StateKey::kNoIndex) writer.put(key.place);  // optional: older versions have no place
}

// Writes the fields of a key that version 3 has added.
void put_failures(Writer& writer, const StateKey& key) {
  if (key.place == StateKey::kNoIndex) writer.put(key.place);
  writer.put(static_cast<std::uint32_t>(key.failures.size()));
  for (const StateKey::Failure& one : key.failures) {
    writer.put(one.rank);
    writer.put(cut(one.why));
  }
}

void put(Writer& writer, const StateArray& array) {
  writer.put(array.role);
  writer.put(static_cast<std::uint8_t>(array.overwrite));
  writer.put(static_cast<std::uint8_t>(array.has_value));
  writer.put(static_cast<std::uint8_t>(array.dtype));
  writer.put(array.rank);
  writer.put(array.bytes);
  writer.put(array.row_bytes);
  writer.put(array.lr);
  writer.put(array.scale);
  writer.put(array.name);
}

void put(Writer&, const StatePiece&) {}
void put(Writer& writer, const StateEnd& end) { writer.put(end.messages); }

void check_size(const char* what, std::uint64_t bytes, DType type) {
  if (bytes % size_of(type) == 0) return;
  throw MalformedMessage(std::string(what) + " of " + std::to_string(bytes) + " bytes of " + name_of(type));
}

StateBegin begin_from(Reader& reader) {
  const auto version = reader.get<std::uint16_t>();
  if (version < kOldestStateVersion || version > kStateVersion) {
    throw MalformedMessage("a state of version " + std::to_string(version) +
                           "; this program reads versions " + std::to_string(kOldestStateVersion) + " to " +
                           std::to_string(kStateVersion));
  }
  StateBegin begin{.version = version};
  begin.number = reader.get<std::uint32_t>();
  begin.servers = reader.get<std::uint32_t>();
  for (std::uint64_t* one : {&begin.incarnation, &begin.jobs_begun, &begin.pushes, &begin.pulls,
                             &begin.duplicates, &begin.refused, &begin.rounds, &begin.worst_staleness})
    *one = reader.get<std::uint64_t>();
  return begin;
}

StateJob job_from(Reader& reader, std::uint16_t version) {
  StateJob job;
  job.name = reader.get_text(kMaxJobName);
  job.consistency = reader.get_text(kMaxName);
  job.rule = reader.get_text(kMaxText);
  job.incarnation = reader.get<std::uint64_t>();
  job.workers = reader.get<std::uint32_t>();
  job.servers = reader.get<std::uint32_t>();
  job.restored = reader.get_text(kMaxName);
  job.generation = reader.get<std::uint8_t>();
  if (version >= 2) job.weights = reader.get<std::uint64_t>();
  if (version >= 3) job.settings = reader.get<std::uint64_t>();
  if (version >= 3) job.collectives = reader.get<std::uint64_t>();
  if (job.workers == 0 || job.workers > kMostWorkers)
    throw MalformedMessage("a job of " + std::to_string(job.workers) + " workers");
  return job;
}

StateWorker worker_from(Reader& reader, std::uint16_t version) {
  StateWorker worker;
  for (bool* one : {&worker.greeted, &worker.left, &worker.dropped, &worker.rejoined})
    *one = reader.get_flag();
  for (std::uint64_t* one : {&worker.incarnation, &worker.collective_done, &worker.pushes, &worker.pulls,
                             &worker.bytes_received, &worker.bytes_sent})
    *one = reader.get<std::uint64_t>();
  worker.clock = reader.get<std::int64_t>();
  worker.collective_failure = reader.get_text(kMaxText);
  if (version >= 2) worker.state_set = reader.get<std::uint64_t>();
  if (version >= 3) worker.passed = reader.get<std::uint64_t>();
  if (version >= 3) worker.lost_settings = reader.get<std::uint64_t>();
  return worker;
}

StateCollective collective_from(Reader& reader) {
  StateCollective collective;
  collective.rank = reader.get<std::uint32_t>();
  const FromWorker message = decode_from_worker(reader.get_bytes(reader.left()), 0);
  const auto* request = std::get_if<Request>(&message);
  if (!request || (request->kind != Kind::set_optimizer && request->kind != Kind::barrier))
    throw MalformedMessage("a collective that is none");
  collective.request = *request;
  return collective;
}

StateKey key_from(Reader& reader, std::uint16_t version) {
  StateKey key;
  key.name = reader.get_text(kMaxKeyText);
  key.dtype = get_dtype(reader);
  key.number = reader.get<std::uint32_t>();
  key.bytes = reader.get<std::uint64_t>();
  key.rounds = reader.get<std::uint64_t>();
  key.whole_bytes = reader.get<std::uint64_t>();
  key.whole_rows = reader.get<std::uint32_t>();
  key.failure = reader.get_text(kMaxText);
  if (reader.left() > 0) key.place = reader.get<std::uint32_t>();
  if (version >= 3) {
    for (auto count = reader.get<std::uint32_t>(); count > 0; --count) {
      StateKey::Failure& one = key.failures.emplace_back();
      one.rank = reader.get<std::uint32_t>();
      one.why = reader.get_text(kMaxText);
    }
  }
  check_size("a key", key.bytes, key.dtype);
  return key;
}

StateArray array_from(Reader& reader) {
  StateArray array;
  array.role = reader.get<StateArray::Role>();
  if (array.role > StateArray::Role::optimizer) throw MalformedMessage("an array of no role");
  array.overwrite = reader.get_flag();
  array.has_value = reader.get_flag();
  array.dtype = get_dtype(reader);
  array.rank = reader.get<std::uint32_t>();
  array.bytes = reader.get<std::uint64_t>();
  array.row_bytes = reader.get<std::uint64_t>();
  array.lr = reader.get<double>();
  array.scale = reader.get<double>();
  array.name = reader.get_text(kMaxArrayName);
  check_size("an array", array.bytes, array.dtype);
  if (!array.has_value && (array.role != StateArray::Role::push || !array.overwrite || array.bytes > 0))
    throw MalformedMessage("an array without a value");
  if (array.row_bytes > 0 && array.role != StateArray::Role::push)
    throw MalformedMessage("rows of what is no push");
  check_rows({.overwrite = array.overwrite, .bytes = array.bytes, .row_bytes = array.row_bytes});
  return array;
}

StateRecord record_from(RecordKind mark, Reader& reader, std::uint16_t version) {
  switch (mark) {
    case RecordKind::begin:
      return begin_from(reader);
    case RecordKind::job:
      return job_from(reader, version);
    case RecordKind::worker:
      return worker_from(reader, version);
    case RecordKind::collective:
      return collective_from(reader);
    case RecordKind::key:
      return key_from(reader, version);
    case RecordKind::array:
      return array_from(reader);
    case RecordKind::piece:
      return StatePiece{};
    case RecordKind::end:
      return StateEnd{reader.get<std::uint64_t>()};
  }
  throw MalformedMessage("a part of a state of the kind " + std::to_string(static_cast<int>(mark)));
}

}  // namespace

std::vector<std::byte> encode(const StateRecord& record, std::uint16_t version) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(record.index() + 1));
  std::visit([&writer](const auto& one) { put(writer, one); }, record);
  std::vector<std::uint64_t> later;  // what version 2 has added (the first one), and version 3
  if (const auto* worker = std::get_if<StateWorker>(&record))
    later = {worker->state_set, worker->passed, worker->lost_settings};
  if (const auto* job = std::get_if<StateJob>(&record))
    later = {job->weights, job->settings, job->collectives};
  if (const auto* key = std::get_if<StateKey>(&record); key && version >= 3) put_failures(writer, *key);
  for (std::size_t i = 0; i < later.size() && version >= (i == 0 ? 2 : 3); ++i) writer.put(later[i]);
  return writer.take();
}

StateRecord decode_state_record(std::span<const std::byte> head, std::uint16_t version) {
  Reader reader(head);
  const auto mark = reader.get<RecordKind>();
  StateRecord record = record_from(mark, reader, version);
  reader.end();
  return record;
}

std::vector<std::byte> encode_clocks(const std::vector<std::uint64_t>& clocks,
                                     const std::vector<std::uint64_t>& missed) {
  Writer writer;
  writer.put(std::as_bytes(std::span(clocks)));
  writer.put(std::as_bytes(std::span(missed)));
  return writer.take();
}

Clocks decode_clocks(std::span<const std::byte> payload, std::size_t workers) {
  Clocks result{std::vector<std::uint64_t>(workers), std::vector<std::uint64_t>(workers)};
  Reader reader(payload);
  for (std::uint64_t& one : result.clocks) one = reader.get<std::uint64_t>();
  for (std::uint64_t& one : result.missed) one = reader.get<std::uint64_t>();
  reader.end();
  return result;
}

}  // namespace heddle::kv_detail
