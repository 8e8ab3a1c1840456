// A request of a worker to a server: its kind, and what each kind has in which field.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <heddle/dtype.h>

namespace heddle::kv_detail {

constexpr std::size_t kMaxKeyText = 1 << 10, kMaxText = 32 << 10;
constexpr std::uint32_t kMostWorkers = 1 << 16;  // most workers of a job
// Most bytes of a value in one message: a message of higher priority waits for no more than that.
constexpr std::size_t kPieceBytes = 1 << 20;

enum class Kind : std::uint8_t {
  hello = 1,
  welcome,
  init,           // creates a key; rank 0 sends its value. done: the server's number of the key
  push,           // adds to a key, or overwrites it. done: the server has the push
  pull,           // answered with value, once enough pushes of the other workers have come
  set_optimizer,  // done: all workers have sent it
  barrier,  // done: all workers have sent it. failed: one of them had a text, the error for which it gives up
  get_state,  // answered with value: the optimizer's state of a key, see wire/state_blob.h
  set_state,
  clear_errors,
  ping,   // sent every second or so, whatever else the worker waits for. done: the server is at work
  leave,  // the worker sends no more requests
  done,
  value,
  failed,
  push_many,  // pushes of small values in one payload. done: all count. failed: a byte each, 1: it counts
  pull_many,  // answered with one value, those of all keys in sequence, once each can be pulled
  resume      // the first request after a reconnect: what has been answered before. No number, no reply
};

// One of the keys of a push_many or a pull_many. The fields have the meaning that they have in a Request.
struct BundleEntry {
  std::uint32_t key = 0, bytes = 0;
  std::uint64_t clock = 0;
  DType dtype = DType::f32;

  static void fields(auto& archive, auto& self) { archive(self.key, self.bytes, self.clock, self.dtype); }
  void check() const;
};
constexpr std::size_t kMostBundled = 2048;  // most keys of one message, whose values have kPieceBytes at most

// Request::number of pings, whose answers no call waits for. A busy server sends such answers unasked, too.
constexpr std::uint64_t kPingNumber = ~0ull;

inline bool is_bundle(Kind kind) { return kind == Kind::push_many || kind == Kind::pull_many; }

// Size of a whole value, of which a server may have only a part.
struct WholeValue {
  std::uint64_t bytes = 0;  // 0: not known
  std::uint32_t rows = 0;   // first dimension; 0: the value has none
};

// A request of a worker. A field's comment names the kinds that use it; for the other kinds it is 0.
struct Request {
  Kind kind = Kind::push;
  bool overwrite = false;    // push: the value replaces the stored one, whatever the rule
  bool has_value = false;    // init, overwriting push: true on rank 0, which sends the value
  DType dtype = DType::f32;  // init, push
  std::uint32_t key = 0;     // the server's number of the key; init: none is sent
  std::uint64_t number = 0;
  // push: its number among the worker's pushes of the key, from 1. pull: the worker's pushes of the key so far.
  std::uint64_t clock = 0;
  std::uint64_t offset = 0;  // offset of the payload in the value
  // Size of the value on this server; size of the payload if row_bytes is set or the push is compressed. A
  // compressed pull has here the version of the value that the worker has (see PullCache), 0: none.
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // push, pull of rows (wire/rows.h); set_state: bytes of a row
  double lr = 0, scale = 1;     // push; lr NaN: the optimizer's own rate
  // Priority of the request and of the value in the reply. init: minus the number of keys that the worker
  // initialised before.
  std::int32_t priority = 0;
  // init: the key's name. set_optimizer: name and parameters. barrier: the error for which the worker gives
  // up. push, pull: the codec; empty: not compressed.
  std::string text{};
  std::vector<BundleEntry> entries{};  // push_many, pull_many; Request::bytes is the sum of their bytes
  WholeValue whole{};                  // init: the value on all servers
  // set_optimizer: a digest of all keys with shapes and dtypes, the same on all workers; 0: not known.
  std::uint64_t keys_digest = 0;
  // resume: the largest counts that the worker had with an answer of this server, see Reply::clock and Reply::bytes.
  std::uint64_t settings = 0, collectives = 0;
  // When it has arrived. The server sets it, for statistics; it is not part of the message.
  std::chrono::steady_clock::time_point arrived{};

  // The kind is before them. A message has the same slots for all kinds: an init has Request::whole in those of
  // key and clock, a set_optimizer its digest in that of clock, and a resume its counts in those of clock and
  // bytes.
  static void fields(auto& archive, auto& self) {
    const bool inits = self.kind == Kind::init, resumes = self.kind == Kind::resume;
    auto& clock = inits ? self.whole.bytes
                  : resumes ? self.settings
                  : self.kind == Kind::set_optimizer ? self.keys_digest
                                                     : self.clock;
    archive(self.overwrite, self.has_value, self.dtype, inits ? self.whole.rows : self.key, self.number, clock,
            self.offset, resumes ? self.collectives : self.bytes, self.row_bytes, self.lr, self.scale,
            self.priority);
    archive.text(self.text, kMaxText);
    if (is_bundle(self.kind)) archive.list(self.entries, kMostBundled, "", " keys in one message");
  }
  void check() const;
};

}  // namespace heddle::kv_detail
