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

Hello hello_from(Reader& reader) {
  Hello hello;
  hello.oldest = reader.get<std::uint16_t>();
  hello.newest = reader.get<std::uint16_t>();
  hello.job = reader.get_text(kMaxJobName);
  hello.consistency = reader.get_text(kMaxName);
  hello.rank = reader.get<std::uint32_t>();
  hello.workers = reader.get<std::uint32_t>();
  hello.server = reader.get<std::uint32_t>();
  hello.servers = reader.get<std::uint32_t>();
  hello.incarnation = reader.get<std::uint64_t>();
  // A sender of a later protocol version, as `newest` says, may append fields.
  if (hello.newest <= kProtocol) reader.end();
  return hello;
}

bool is_bundle(Kind kind) { return kind == Kind::push_many || kind == Kind::pull_many; }

void read_entries(Request& request, Reader& reader) {
  const auto count = reader.get<std::uint32_t>();
  if (count == 0 || count > kMostBundled)
    throw MalformedMessage(std::to_string(count) + " keys in one message");
  request.entries.resize(count);
  std::uint64_t bytes = 0;
  for (BundleEntry& entry : request.entries) {
    entry.key = reader.get<std::uint32_t>();
    entry.bytes = reader.get<std::uint32_t>();
    entry.clock = reader.get<std::uint64_t>();
    entry.dtype = get_dtype(reader);
    bytes += entry.bytes;
  }
  if (bytes > kPieceBytes || bytes != request.bytes)
    throw MalformedMessage("values of " + std::to_string(bytes) + " bytes, which are said to be " +
                           std::to_string(request.bytes));
}

void check_bundle(const Request& request, std::size_t payload) {
  const std::uint64_t wanted = request.kind == Kind::push_many ? request.bytes : 0;
  if (request.offset != 0 || payload != wanted)
    throw MalformedMessage("a payload of " + std::to_string(payload) + " bytes instead of " +
                           std::to_string(wanted));
}

Request request_from(Kind kind, Reader& reader) {
  Request request;
  request.kind = kind;
  request.overwrite = reader.get_flag();
  request.has_value = reader.get_flag();
  request.dtype = get_dtype(reader);
  request.key = reader.get<std::uint32_t>();
  request.number = reader.get<std::uint64_t>();
  request.clock = reader.get<std::uint64_t>();
  request.offset = reader.get<std::uint64_t>();
  request.bytes = reader.get<std::uint64_t>();
  request.row_bytes = reader.get<std::uint64_t>();
  request.lr = reader.get<double>();
  request.scale = reader.get<double>();
  request.priority = reader.get<std::int32_t>();
  request.text = reader.get_text(kMaxText);
  if (is_bundle(kind)) read_entries(request, reader);
  reader.end();
  return request;
}

Reply reply_from(Kind kind, Reader& reader) {
  Reply reply;
  reply.kind = kind;
  reply.key = reader.get<std::uint32_t>();
  reply.number = reader.get<std::uint64_t>();
  reply.clock = reader.get<std::uint64_t>();
  reply.offset = reader.get<std::uint64_t>();
  reply.bytes = reader.get<std::uint64_t>();
  reply.text = reader.get_text(kMaxText);
  reader.end();
  return reply;
}

bool is_request(Kind kind) {
  return (kind >= Kind::init && kind <= Kind::leave) || is_bundle(kind) || kind == Kind::resume;
}
bool is_reply(Kind kind) { return kind >= Kind::done && kind <= Kind::failed; }

[[noreturn]] void refuse(Kind kind) {
  throw MalformedMessage("a message of the kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  Writer writer;
  writer.put(Kind::hello);
  writer.put(hello.oldest);
  writer.put(hello.newest);
  writer.put(hello.job);
  writer.put(hello.consistency);
  writer.put(hello.rank);
  writer.put(hello.workers);
  writer.put(hello.server);
  writer.put(hello.servers);
  writer.put(hello.incarnation);
  return writer.take();
}

std::vector<std::byte> encode(const Welcome& welcome) {
  Writer writer;
  writer.put(Kind::welcome);
  writer.put(welcome.protocol);
  writer.put(welcome.incarnation);
  return writer.take();
}

std::vector<std::byte> encode(const Request& request) {
  Writer writer;
  writer.put(request.kind);
  writer.put(request.overwrite);
  writer.put(request.has_value);
  writer.put(static_cast<std::uint8_t>(request.dtype));
  writer.put(request.key);
  writer.put(request.number);
  writer.put(request.clock);
  writer.put(request.offset);
  writer.put(request.bytes);
  writer.put(request.row_bytes);
  writer.put(request.lr);
  writer.put(request.scale);
  writer.put(request.priority);
  writer.put(request.text);
  if (!is_bundle(request.kind)) return writer.take();
  writer.put(static_cast<std::uint32_t>(request.entries.size()));
  for (const BundleEntry& entry : request.entries) {
    writer.put(entry.key);
    writer.put(entry.bytes);
    writer.put(entry.clock);
    writer.put(static_cast<std::uint8_t>(entry.dtype));
  }
  return writer.take();
}

std::vector<std::byte> encode(const Reply& reply) {
  Writer writer;
  writer.put(reply.kind);
  writer.put(reply.key);
  writer.put(reply.number);
  writer.put(reply.clock);
  writer.put(reply.offset);
  writer.put(reply.bytes);
  writer.put(reply.text);
  return writer.take();
}

FromWorker decode_from_worker(std::span<const std::byte> head, std::size_t payload) {
  Reader reader(head);
  const auto kind = reader.get<Kind>();
  if (kind == Kind::hello) {
    check_no_payload(payload);
    return hello_from(reader);
  }
  if (!is_request(kind)) refuse(kind);
  Request request = request_from(kind, reader);
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
    Welcome welcome;
    welcome.protocol = reader.get<std::uint16_t>();
    welcome.incarnation = reader.get<std::uint64_t>();
    reader.end();
    return welcome;
  }
  if (!is_reply(kind)) refuse(kind);
  Reply reply = reply_from(kind, reader);
  check_piece(reply.offset, reply.bytes, payload);
  return reply;
}

}  // namespace heddle::kv_detail
