// The messages between workers and servers of a key-value store: the heads, whose payloads are the bytes of values.
//
// A worker says hello, and the server answers with welcome or failed. From then on each request of the worker has a number,
// and one reply at least with that number: done, failed, or a value in pieces. A worker that has lost its connection says
// hello again and repeats the requests that have no reply yet, in their old order. No request does harm when it is
// repeated: a push counts the pushes of its key, so the server knows one that it has had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <heddle/dtype.h>

#include "wire/bytes.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

constexpr std::size_t kMaxKeyText = 1 << 10, kMaxText = 32 << 10;
constexpr std::uint32_t kMostWorkers = 1 << 16;  // of a job
constexpr std::size_t kPieceBytes = 1
                                    << 20;  // of a value, in one message: a more urgent one waits for no more

enum class Kind : std::uint8_t {
  hello = 1,
  welcome,
  init,           // of a key; rank 0's has the value. done: the server's number of the key
  push,           // adds to a key, or overwrites it. done: the server has it
  pull,           // value: once enough pushes of the other workers have come
  set_optimizer,  // done: all workers have asked for it
  barrier,        // done: all workers have come. failed: one of them had a text, which says why it gives up
  get_state,      // value: the optimizer's state of a key, see wire/state_blob.h
  set_state,
  clear_errors,
  ping,   // done: the server is at work. A worker sends it every second or so, whatever else it waits for
  leave,  // no more requests of this worker
  done,
  value,
  failed,
  push_many,  // small values of several keys, one behind the other. done: all count. failed: a byte each, 1: it counts
  pull_many,  // value: those of all keys, one behind the other, once each could be pulled
  resume      // the first request of a worker that has connected again. It has no number and no reply
};

struct Hello {
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  std::string job;          // a name; its workers, and no others, share keys
  std::string consistency;  // "sync", "async", "ssp:3", "sync, placement greedy": see wire/job_terms.h
  std::uint32_t rank = 0, workers = 1;
  std::uint32_t server = 0, servers = 1;  // which one the worker takes this server for
  std::uint64_t incarnation = 0;          // of the worker's process: a random number
};

struct Welcome {
  std::uint16_t protocol = kProtocol;  // that both speak from now on
  std::uint64_t incarnation = 0;       // of the server's state: another number means that the state is lost
};

// One of the keys of a push_many or a pull_many; the fields are those of a push or a pull.
struct BundleEntry {
  std::uint32_t key = 0, bytes = 0;
  std::uint64_t clock = 0;
  DType dtype = DType::f32;
};
constexpr std::size_t kMostBundled = 2048;  // keys of one message, with kPieceBytes of values at most

// Of a ping, whose answer nobody waits for. A server that is busy for long sends such answers without being asked.
constexpr std::uint64_t kPingNumber = ~0ull;

// A request of a worker. Which fields a kind uses is written beside them; the others are 0.
struct Request {
  Kind kind = Kind::push;
  bool overwrite = false;    // push: the value replaces what is stored
  bool has_value = false;    // init, push that overwrites: of rank 0
  DType dtype = DType::f32;  // init, push
  std::uint32_t key =
      0;  // the server's number of the key. init: the rows of the value on all servers; 0: it has none
  std::uint64_t number = 0;
  // push: 1 for the worker's first of the key. pull: its pushes so far. init: the bytes of the value on all servers.
  // set_optimizer: a digest of what the keys are, the same on all workers; 0: not known. resume: the largest Reply::clock of a
  // ping, a set_state or a call that all workers make; `bytes` is the largest Reply::bytes.
  std::uint64_t clock = 0;
  std::uint64_t offset = 0;  // of the payload in all bytes of the value
  // The size of the whole value on this server; of the payload if row_bytes is set or the push is compressed. A compressed
  // pull has here the number of the value that the worker has, 0: none.
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // push, pull: of a row, if rows are meant, see wire/rows.h. set_state
  double lr = 0, scale = 1;     // push; lr NaN: the optimizer's own
  std::int32_t priority =
      0;  // of the value in a reply. init: minus the keys that the worker has named before
  std::string
      text{};  // init: the key. set_optimizer: name and parameters. barrier: as above. push, pull: the codec; empty: none
  std::vector<BundleEntry> entries{};  // push_many, pull_many; their `bytes` are the sum
};

// A value of which a server has a part, or all.
struct WholeValue {
  std::uint64_t bytes = 0;  // 0: it is not known
  std::uint32_t rows = 0;   // its first dimension; 0: it has none
};

struct Reply {
  Kind kind = Kind::done;  // done, value or failed
  std::uint32_t key = 0;   // init. value, of a compressed pull: see SentValues
  std::uint64_t number = 0;
  // init: the pushes that the server has had from this worker. value: rounds that are in it. failed, to a hello: 1 if it is
  // worth another try. done, to other requests: what has been set for the optimizer so far, on this server.
  std::uint64_t clock = 0;
  // value: as in Request. done: `bytes` are 1 and the calls so far that all workers make.
  std::uint64_t offset = 0, bytes = 0;
  std::string
      text{};  // failed; of a push_many with a payload. done, to a ping: who waits for whom, if nothing moves
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Request& request);
std::vector<std::byte> encode(const Reply& reply);

// What a worker may send, and a server. All throw MalformedMessage. Payloads are checked too: `payload` bytes at `offset` lie
// within `bytes`.
using FromWorker = std::variant<Hello, Request>;
FromWorker decode_from_worker(std::span<const std::byte> head, std::size_t payload);
using FromServer = std::variant<Welcome, Reply>;
FromServer decode_from_server(std::span<const std::byte> head, std::size_t payload);

}  // namespace heddle::kv_detail
