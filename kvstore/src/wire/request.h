// The request of a worker to a server, and the meaning that its fields have for each kind of request.
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
// Most bytes of a value in one message. A large value is sent in such pieces, so that a message of higher
// priority waits for one piece at most.
constexpr std::size_t kPieceBytes = 1 << 20;

enum class Kind : std::uint8_t {
  hello = 1,
  welcome,
  init,           // creates a key; rank 0 sends its value. Answer `done`: has the server's number of the key
  push,           // adds to a key's value, or overwrites it. Answer `done`: the server has the push
  pull,           // answered with `value`, once enough pushes of the other workers have come
  set_optimizer,  // answered with `done`, once all workers have sent it
  barrier,        // answered with `done`, once all workers have sent it; `failed` if one sent Request::text
  get_state,      // answered with `value`: the optimizer's state of a key, see wire/state_blob.h
  set_state,
  clear_errors,
  ping,   // sent every second or so, whatever else the worker waits for. Answer `done`: the server is alive
  leave,  // the worker sends no more requests
  done,
  value,
  failed,
  // Pushes of small values, which are concatenated in the payload. Answer `done`: all pushes count. Answer
  // `failed`: its payload has a byte for each push, 1 if that push counts.
  push_many,
  pull_many,  // answered with `value`, the values of all keys in sequence, once each key can be pulled
  resume      // first request after a reconnect: tells the counts that former answers had. It gets no reply
};

// One of the keys of a push_many or a pull_many. The fields have the meaning that they have in a Request.
struct BundleEntry {
  std::uint32_t key = 0, bytes = 0;
  std::uint64_t clock = 0;
  DType dtype = DType::f32;

  static void fields(auto& archive, auto& self) { archive(self.key, self.bytes, self.clock, self.dtype); }
  void check() const;
};
// Most keys of one push_many or pull_many. The values together have kPieceBytes at most.
constexpr std::size_t kMostBundled = 2048;

// Request::number of pings, whose answers no call waits for. A busy server sends answers with this number
// unasked.
constexpr std::uint64_t kPingNumber = ~0ull;

inline bool is_bundle(Kind kind) { return kind == Kind::push_many || kind == Kind::pull_many; }

// Size of a whole value, of which a server may have only a part.
struct WholeValue {
  std::uint64_t bytes = 0;  // size of the value; 0: not known
  std::uint32_t rows = 0;   // first dimension of the value; 0: the value has no rows
};

// A request of a worker. A field's comment names the kinds that use it; for the other kinds it is 0.
struct Request {
  Kind kind = Kind::push;
  bool overwrite = false;    // push: the pushed value replaces the stored one, whatever the update rule is
  bool has_value = false;    // init, overwriting push: true on rank 0, which sends the value
  DType dtype = DType::f32;  // init, push: dtype of the value
  std::uint32_t key = 0;     // the server's number of the key; init: none is sent
  std::uint64_t number = 0;
  // push: number of this push among the worker's pushes of the key, from 1. pull: number of pushes of the key
  // that the worker has sent so far.
  std::uint64_t clock = 0;
  std::uint64_t offset = 0;  // offset in the value at which this message's payload begins
  // Size of the value on this server; size of the payload if row_bytes is set or the push is compressed. A
  // compressed pull has here the version of the value that the worker has (see PullCache), 0: none.
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // push and pull of rows (wire/rows.h), set_state: bytes of a row of the value
  double lr = 0, scale = 1;     // push: learning rate, NaN for the optimizer's own one, and grad_scale
  // Priority of the request and of the value in the reply. init: minus the number of keys that the worker has
  // initialised before this key.
  std::int32_t priority = 0;
  // init: the key's name. set_optimizer: name and parameters. barrier: the error for which the worker gives
  // up. push, pull: the codec; empty: not compressed.
  std::string text{};
  std::vector<BundleEntry> entries{};  // push_many, pull_many; Request::bytes is the sum of their bytes
  WholeValue whole{};                  // init: the value on all servers
  // set_optimizer: a digest of all keys with shapes and dtypes, the same on all workers; 0: not known.
  std::uint64_t keys_digest = 0;
  // resume: the largest Reply::clock and Reply::bytes (counts of the server) that answers have told the
  // worker.
  std::uint64_t settings = 0, collectives = 0;
  // Time at which the request has arrived. The server sets it, for statistics. The message does not have it.
  std::chrono::steady_clock::time_point arrived{};

  // The fields that follow the kind in a message. Messages of all kinds have the same layout: an init has its
  // `whole` in place of `key` and `clock`, a set_optimizer its keys_digest in place of `clock`, and a resume
  // its counts in place of `clock` and `bytes`.
  static void fields(auto& archive, auto& self) {
    const bool inits = self.kind == Kind::init, resumes = self.kind == Kind::resume;
    auto& clock = inits                              ? self.whole.bytes
                  : resumes                          ? self.settings
                  : self.kind == Kind::set_optimizer ? self.keys_digest
                                                     : self.clock;
    archive(self.overwrite, self.has_value, self.dtype, inits ? self.whole.rows : self.key, self.number,
            clock, self.offset, resumes ? self.collectives : self.bytes, self.row_bytes, self.lr, self.scale,
            self.priority);
    archive.text(self.text, kMaxText);
    if (is_bundle(self.kind)) archive.list(self.entries, kMostBundled, "", " keys in one message");
  }
  void check() const;
};

}  // namespace heddle::kv_detail
