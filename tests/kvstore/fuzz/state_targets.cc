// A server's state: snapshot files, streams, and messages from a primary to its backup.
//
// An input is a sequence of messages, each after the lengths of its head and payload, 2 bytes each.
#include <algorithm>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/ops.h>

#include "fuzz/fuzz_target.h"
#include "server/replica/replica_receiver.h"
#include "server/state/state_stream.h"
#include "snapshot/merged_job.h"
#include "snapshot/snapshot_index.h"
#include "transport/frame.h"
#include "wire/replication.h"
#include "wire/state_records.h"

namespace heddle::fuzz {
namespace {

using namespace kv_detail;
using namespace heddle::net_detail;

struct Parts {
  Bytes head, payload;
};

std::vector<Parts> messages_in(Source source) {
  std::vector<Parts> all;
  while (!source.empty()) {
    const std::size_t head = source.get<std::uint16_t>(), payload = source.get<std::uint16_t>();
    const Input first = source.take(head), second = source.take(payload);
    all.push_back({{first.begin(), first.end()}, {second.begin(), second.end()}});
  }
  return all;
}

void append_message(Bytes& to, const Bytes& head, Input payload) {
  append_value(to, static_cast<std::uint16_t>(head.size()));
  append_value(to, static_cast<std::uint16_t>(payload.size()));
  append(to, Input(head)), append(to, payload);
}

// Makes an engine with the naive scheduler the current engine, as a server does.
struct CoreEngine {
  CoreEngine() : scope(engine()) {}
  static Engine& engine() {
    static Engine naive{{.scheduler = Scheduler::naive}};
    return naive;
  }
  EngineScope scope;
};

const ServerOptions kOptions{.memory_limit = 1 << 20};

// A core with two workers, values, waiting pushes, and optimizer state of a whole value and of rows.
std::unique_ptr<ServerCore> some_core(const std::string& consistency) {
  auto core = std::make_unique<ServerCore>(kOptions, 42);
  std::uint64_t number = 0;
  const auto send = [&](Peer peer, Request request, const Bytes& payload = {}) {
    request.number = ++number;
    if (!payload.empty()) request.bytes = payload.size();
    const Bytes head = encode(request);
    if (!payload.empty()) {
      const auto memory = core->memory_for(peer, head, payload.size());
      std::copy(payload.begin(), payload.end(), memory.begin());
    }
    core->received(peer, head, payload.size(), {});
  };
  for (const Peer peer : {1, 2}) {
    const auto rank = static_cast<std::uint32_t>(peer - 1);
    core->connected(peer, "");
    const Hello hello{
        .job = "job", .consistency = consistency, .rank = rank, .workers = 2, .incarnation = 7 + rank};
    core->received(peer, encode(hello), 0, {});
  }
  for (const Peer peer : {1, 2}) send(peer, {.kind = Kind::set_optimizer, .text = "sgd lr=0.5 momentum=0.5"});
  const Bytes value(16, std::byte{1});
  for (const char* key : {"whole", "rows"})
    send(1,
         {.kind = Kind::init,
          .has_value = true,
          .priority = key[0] == 'r' ? -1 : 0,
          .text = key,
          .whole = {16, 2}},
         value);
  Bytes row;
  append_value(row, std::int64_t{1}), append_value(row, 0.5), row.resize(16);
  for (const std::uint64_t clock : {1, 2}) {
    for (const Peer peer : {1, 2}) {
      // Worker 2 lacks the second push, so in synchronous rounds worker 1's waits for it.
      if (clock == 2 && peer == 2) break;
      send(peer, {.kind = Kind::push, .key = 0, .clock = clock}, value);
      send(peer, {.kind = Kind::push, .key = 1, .clock = clock, .row_bytes = 8}, row);
    }
  }
  send(2, {.kind = Kind::barrier});
  return core;
}

template <class Sink> void save_some_core(const std::string& consistency, const Sink& sink) {
  save_state(*some_core(consistency),
             [&](const Bytes& head, const Payload& payload) { sink(head, payload.bytes); });
}

constexpr const char* kConsistencies[] = {"sync", "async", "ssp:1, placement greedy"};

// --- streams

// The core's state as a stream of messages. A core that loads the stream saves the same one.
Bytes saved(const ServerCore& core) {
  Bytes all;
  save_state(core,
             [&](const Bytes& head, const Payload& payload) { append_message(all, head, payload.bytes); });
  return all;
}

bool load(ServerCore& core, Input input) {
  StateLoader loader(core, {});
  for (const Parts& one : messages_in(Source(input))) loader.add(one.head, one.payload);
  return loader.complete();
}

bool run_stream(Input input) {
  const CoreEngine engine;
  ServerCore core(kOptions, 1), same(kOptions, 2);
  try {
    if (!load(core, input)) return false;
  } catch (const Error&) {
    return false;
  }
  const Bytes again = saved(core);
  try {
    want(load(same, again), "a state that was saved is not complete");
  } catch (const Error& error) {
    want(false, error.what());
  }
  want(saved(same) == again, "a state that changes");
  return true;
}

std::vector<Bytes> stream_seeds() {
  const CoreEngine engine;
  std::vector<Bytes> all;
  for (const char* consistency : kConsistencies) all.push_back(saved(*some_core(consistency)));
  return all;
}

// --- snapshot files

// Builds a snapshot file as SnapshotWriter does, with correct checksums, from a header and messages.
class Sealed {
 public:
  explicit Sealed(Input header) : bytes_(header.begin(), header.end()) {
    bytes_.resize(44);
    seal(0);
  }
  void add(const Parts& message) {
    const WirePreamble preamble = encode(preamble_of(message.head, message.payload));
    Bytes both;
    append_value(both, chain_);
    append(both, Input(preamble).first(kPreambleBytes - sizeof chain_));
    chain_ = checksum(both);
    ++messages_;
    append(bytes_, preamble), append(bytes_, message.head), append(bytes_, message.payload);
  }
  Bytes take() {
    const std::uint64_t begin = bytes_.size();
    append(bytes_, bytes_from("HDDSEND1"));
    append_value(bytes_, messages_), append_value(bytes_, begin), append_value(bytes_, chain_);
    seal(begin);
    return std::move(bytes_);
  }

 private:
  void seal(std::size_t begin) { append_value(bytes_, checksum(Input(bytes_).subspan(begin))); }
  Bytes bytes_;
  std::uint64_t messages_ = 0;
  std::uint32_t chain_ = 0;
};

constexpr std::size_t kHeaderFields = 44;

// A file in memory that has a path, so that it can be opened like a file on disk.
struct MemoryFile {
  MemoryFile() : descriptor(::memfd_create("snapshot", MFD_CLOEXEC)) {}
  void set(Input bytes) const {
    const bool written = ::ftruncate(descriptor, 0) == 0 &&
                         ::pwrite(descriptor, bytes.data(), bytes.size(), 0) == std::ssize(bytes);
    want(written, "a file that cannot be written");
  }
  const int descriptor;
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
};

bool index_file(const MemoryFile& file) {
  try {
    const SnapshotIndex index = index_snapshot(file.path);
    for (const bool newest : {false, true}) {
      try {
        merge_jobs({index}, newest);
      } catch (const Error&) {
      }
    }
    return true;
  } catch (const SnapshotError&) {
    return false;
  }
}

// If the input's first byte is odd, the rest is a snapshot file. If it is even, the rest is a header and
// messages, from which Sealed makes a file.
bool run_snapshot(Input input) {
  static const MemoryFile file;
  Source source(input);
  if (source.get<std::uint8_t>() % 2 == 1) {
    file.set(source.rest());
  } else {
    Sealed sealed(source.take(kHeaderFields));
    for (const Parts& one : messages_in(source)) sealed.add(one);
    file.set(sealed.take());
  }
  return index_file(file);
}

std::vector<Bytes> snapshot_seeds() {
  const CoreEngine engine;
  Bytes header = bytes_from("HDDSHOT1");
  append_value(header, std::uint32_t{1});  // the format version; the fields after it are 0 unless set below
  header.resize(kHeaderFields);
  header[16] = std::byte{1};  // number of servers
  std::vector<Bytes> all;
  for (const char* consistency : kConsistencies) {
    Bytes messages{std::byte{0}}, whole{std::byte{1}};
    append(messages, Input(header));
    Sealed sealed(header);
    save_some_core(consistency, [&](const Bytes& head, Input payload) {
      append_message(messages, head, payload);
      sealed.add({head, {payload.begin(), payload.end()}});
    });
    append(whole, Input(sealed.take()));
    all.insert(all.end(), {messages, whole});
  }
  return all;
}

// --- messages from a primary to its backup

class NoTransport : public Transport {
 public:
  std::string listen(const std::string& address) override { return address; }
  Peer connect(const std::string&) override { return 0; }
  void send(Peer, Message message) override {
    want(encode(decode_replica_message(message.head)) == message.head, "an answer that is none");
  }
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}
};

class NoOwner : public ShardOwner {
 public:
  Transport& transport() override { return transport_; }
  Latencies& latencies() override { return latencies_; }
  const ServerOptions& options() const override { return kOptions; }
  std::uint64_t incarnation() const override { return 9; }
  std::uint64_t secret() const override { return 0; }
  const std::shared_ptr<std::uint64_t>& memory_used() const override { return memory_used_; }
  Peer connect_to_backup(std::uint32_t, const std::string&) override { return 0; }
  void close(Peer) override {}
  void synced(std::uint32_t, std::uint64_t) override {}
  void backup_lost(std::uint32_t, std::uint64_t) override {}
  void log(ServerEvent::Level, const char*, std::vector<std::pair<std::string, std::string>>) override {}

 private:
  NoTransport transport_;
  Latencies latencies_;
  const std::shared_ptr<std::uint64_t> memory_used_ = std::make_shared<std::uint64_t>(0);
};

// Gives the backup a message as a server does. Throws if the server would close the connection, or if the
// backup would end.
void deliver(ReplicaReceiver& receiver, Parts& one) {
  const ReplicaMessage message = decode_replica_message(one.head);
  // Not compared for a later version, whose messages may have more fields at their end.
  want(message.version > kProtocol || encode(message) == one.head, "a message that changes");
  if (message.kind == ReplicaKind::record) {
    const Record record = decode_record(message.inner, one.payload.size());
    const Bytes again = encode(record);
    want(encode(decode_record(again, one.payload.size())) == again, "a record that changes");
  }
  if (message.kind == ReplicaKind::hello) return receiver.greeted(1, message);
  if (receiver.peer() == 0) return;
  Input payload = one.payload;
  if (!payload.empty()) {
    const auto memory = receiver.memory_for(message, payload.size());
    want(memory.empty() || memory.size() >= payload.size(), "too little memory for a payload");
    if (!memory.empty()) {
      std::copy(payload.begin(), payload.end(), memory.begin());
      payload = memory.first(payload.size());
    }
  }
  receiver.received(message, payload, {});
}

bool run_replica(Input input) {
  const CoreEngine engine;
  static NoOwner owner;
  ReplicaReceiver receiver(owner, 0, 1, nullptr);
  for (Parts& one : messages_in(Source(input))) {
    try {
      deliver(receiver, one);
    } catch (const ReplicaDiverged&) {
      return false;
    } catch (const Error&) {
      receiver.disconnected();
    }
  }
  return receiver.is_complete();
}

std::vector<Bytes> replica_seeds() {
  const CoreEngine engine;
  std::vector<Bytes> all;
  for (const char* consistency : kConsistencies) {
    Bytes bytes;
    std::uint64_t number = 0;
    const auto put = [&](ReplicaKind kind, Input inner = {}, Input payload = {}) {
      append_message(
          bytes, encode(ReplicaMessage{.kind = kind, .epoch = 1, .log = 3, .number = number, .inner = inner}),
          payload);
    };
    const auto record = [&](const Record& one, Input payload = {}) {
      ++number;
      put(ReplicaKind::record, encode(one), payload);
    };
    put(ReplicaKind::hello), put(ReplicaKind::state_begin);
    save_some_core(consistency,
                   [&](const Bytes& head, Input payload) { put(ReplicaKind::state, head, payload); });
    put(ReplicaKind::state_end), put(ReplicaKind::beat);
    const Hello hello{.job = "job", .consistency = consistency, .rank = 1, .workers = 2, .incarnation = 99};
    record({.kind = Record::Kind::join, .job = "job", .rank = 1, .number = 42, .hello = hello});
    const Bytes value(16, std::byte{1});
    record({.kind = Record::Kind::request,
            .job = "job",
            .rank = 1,
            .request = {.kind = Kind::push, .number = 9, .clock = 2, .bytes = 16}},
           value);
    record({.kind = Record::Kind::key,
            .job = "job",
            .request = {.kind = Kind::init, .bytes = 16, .priority = -2, .text = "new", .whole = {16, 2}}});
    record({.kind = Record::Kind::fail_key, .job = "job", .number = 1, .text = "why"});
    record({.kind = Record::Kind::drop, .job = "job", .rank = 1});
    record({.kind = Record::Kind::end_job, .job = "job"});
    all.push_back(bytes);
  }
  return all;
}

}  // namespace

const Target kStateStream{"state_stream", run_stream, stream_seeds, 10};
const Target kSnapshot{"snapshot", run_snapshot, snapshot_seeds, 10};
const Target kReplica{"replica", run_replica, replica_seeds, 20};

}  // namespace heddle::fuzz
