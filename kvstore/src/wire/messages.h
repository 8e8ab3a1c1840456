// Heads of the messages between workers and servers of a key-value store. Their payloads are bytes of values.
//
// A worker says hello, and the server answers with welcome or failed. From then on each request of the worker
// has a number, and gets one reply at least with that number: done, failed, or a value in pieces. A worker
// that has lost its connection says hello again and repeats its unanswered requests in their old order.
// Requests are idempotent: a push has its number among the worker's pushes of the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transport/bytes.h"
#include "wire/protocol.h"
#include "wire/request.h"

namespace heddle::kv_detail {

using namespace net_detail;

struct Hello {
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  std::string job;          // name of the job; only its own workers share its keys
  std::string consistency;  // "sync", "async", "ssp:3", "sync, placement greedy": see wire/job_settings.h
  std::uint32_t rank = 0, workers = 1;
  std::uint32_t server = 0, servers = 1;  // number of the addressed server, and count of servers
  std::uint64_t incarnation = 0;          // random number of the worker's process

  static void fields(auto& archive, auto& self) {
    archive(self.oldest, self.newest);
    archive.text(self.job, kMaxJobName);
    archive.text(self.consistency, kMaxName);
    archive(self.rank, self.workers, self.server, self.servers, self.incarnation);
    archive.open_end(self.newest > kProtocol);
  }
};

struct Welcome {
  std::uint16_t protocol = kProtocol;  // protocol version of all later messages of both sides
  std::uint64_t incarnation = 0;       // number of the server's state; it changes if the state is lost

  static void fields(auto& archive, auto& self) { archive(self.protocol, self.incarnation); }
};

struct Reply {
  Kind kind = Kind::done;  // done, value or failed
  // Answer to an init: number of the key. Answer to a compressed pull: version of the value, see PullCache.
  std::uint32_t key = 0;
  std::uint64_t number = 0;
  // Answer to an init: number of pushes of the key that the server has had from this worker. Kind `value`:
  // number of rounds that are in the value. Kind `failed`, in answer to a hello: 1 if a retry may succeed.
  // Kind `done`, in answer to other requests: JobCounts::settings of the server.
  std::uint64_t clock = 0;
  // Kind `value`: as in Request. Kind `done`: `bytes` is JobCounts::collectives, which is 1 + the number of
  // completed barriers and set_optimizers.
  std::uint64_t offset = 0, bytes = 0;
  // Kind `failed`: the error. Kind `done`, in answer to a ping: which workers wait for which, if the job
  // makes no progress.
  std::string text{};

  // The fields that follow the kind in a message.
  static void fields(auto& archive, auto& self) {
    archive(self.key, self.number, self.clock, self.offset, self.bytes);
    archive.text(self.text, kMaxText);
  }
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Request& request);
std::vector<std::byte> encode(const Reply& reply);

// FromWorker: messages to a server. FromServer: messages to a worker. `payload`: size of the message's
// payload. The decoders throw MalformedMessage, also if the payload, at the head's `offset`, ends behind its
// `bytes`.
using FromWorker = std::variant<Hello, Request>;
FromWorker decode_from_worker(std::span<const std::byte> head, std::size_t payload);
using FromServer = std::variant<Welcome, Reply>;
FromServer decode_from_server(std::span<const std::byte> head, std::size_t payload);

}  // namespace heddle::kv_detail
