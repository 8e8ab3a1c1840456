#include "wire/messages.h"

#include "wire/dtype_field.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

void check_piece(std::uint64_t offset, std::uint64_t bytes, std::size_t payload) {
  if (offset <= bytes && payload <= bytes - offset) return;
  throw MalformedMessage("a piece of " + std::to_string(payload) + " bytes at " + std::to_string(offset) +
                         " of a value of " + std::to_string(bytes));
}

void check_no_payload(std::size_t payload) {
  if (payload > 0) throw MalformedMessage("a payload of " + std::to_string(payload) + " bytes");
}

void check_bundle(const Request& request, std::size_t payload) {
  const std::uint64_t wanted = request.kind == Kind::push_many ? request.bytes : 0;
  if (request.offset != 0 || payload != wanted)
    throw MalformedMessage("a payload of " + std::to_string(payload) + " bytes instead of " +
                           std::to_string(wanted));
}

bool is_request(Kind kind) {
  return (kind >= Kind::init && kind <= Kind::leave) || is_bundle(kind) || kind == Kind::resume;
}
bool is_reply(Kind kind) { return kind >= Kind::done && kind <= Kind::failed; }

[[noreturn]] void refuse(Kind kind) {
  throw MalformedMessage("a message of the kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

void BundleEntry::check() const { check_dtype(dtype); }

void Request::check() const {
  check_dtype(dtype);
  if (!is_bundle(kind)) return;
  if (entries.empty()) throw MalformedMessage("0 keys in one message");
  std::uint64_t sum = 0;
  for (const BundleEntry& entry : entries) sum += entry.bytes;
  if (sum > kPieceBytes || sum != bytes)
    throw MalformedMessage("values of " + std::to_string(sum) + " bytes, which are said to be " +
                           std::to_string(bytes));
}

std::vector<std::byte> encode(const Hello& hello) { return written(Kind::hello, hello); }
std::vector<std::byte> encode(const Welcome& welcome) { return written(Kind::welcome, welcome); }
std::vector<std::byte> encode(const Request& request) { return written(request.kind, request); }
std::vector<std::byte> encode(const Reply& reply) { return written(reply.kind, reply); }

FromWorker decode_from_worker(std::span<const std::byte> head, std::size_t payload) {
  Reader reader(head);
  const auto kind = reader.get<Kind>();
  if (kind == Kind::hello) {
    check_no_payload(payload);
    return reader.whole<Hello>();
  }
  if (!is_request(kind)) refuse(kind);
  Request request{.kind = kind};
  reader(request);
  reader.end();
  check_piece(request.offset, request.bytes, payload);
  check_rows(request);
  if (is_bundle(kind)) check_bundle(request, payload);
  return request;
}

FromServer decode_from_server(std::span<const std::byte> head, std::size_t payload) {
  Reader reader(head);
  const auto kind = reader.get<Kind>();
  if (kind == Kind::welcome) {
    check_no_payload(payload);
    return reader.whole<Welcome>();
  }
  if (!is_reply(kind)) refuse(kind);
  Reply reply{.kind = kind};
  reader(reply);
  reader.end();
  check_piece(reply.offset, reply.bytes, payload);
  return reply;
}

}  // namespace heddle::kv_detail
