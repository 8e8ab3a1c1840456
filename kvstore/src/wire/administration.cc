#include "wire/administration.h"

namespace heddle::kv_detail {
namespace {

void begin(Reader& reader, AdminKind wanted) {
  if (reader.get<AdminKind>() != wanted)
    throw MalformedMessage("a message that is none between a server and its administrator");
}

template <class T> T one_of(Reader& reader, T last) {
  const auto value = reader.get<std::uint8_t>();
  if (value == 0 || value > static_cast<std::uint8_t>(last))
    throw MalformedMessage("an administrator's message has " + std::to_string(value) + ", which is nothing");
  return static_cast<T>(value);
}

}  // namespace

std::vector<std::byte> encode(const AdminRequest& wish) {
  Writer writer;
  writer.put(AdminKind::wish);
  writer.put(wish.oldest);
  writer.put(wish.newest);
  writer.put(wish.what);
  return writer.take();
}

std::vector<std::byte> encode(const AdminAnswer& answer) {
  Writer writer;
  writer.put(AdminKind::answer);
  writer.put(answer.protocol);
  writer.put(answer.outcome);
  writer.put(answer.text.substr(0, kMaxAdminText));
  return writer.take();
}

bool is_admin_message(std::span<const std::byte> head) {
  return !head.empty() && head[0] >= static_cast<std::byte>(AdminKind::wish) &&
         head[0] <= static_cast<std::byte>(AdminKind::answer);
}

AdminRequest decode_admin_request(std::span<const std::byte> head) {
  Reader reader(head);
  begin(reader, AdminKind::wish);
  AdminRequest wish;
  wish.oldest = reader.get<std::uint16_t>();
  wish.newest = reader.get<std::uint16_t>();
  wish.what = one_of(reader, AdminRequest::What::drain);
  // A sender of a later protocol version, as `newest` says, may append fields.
  if (wish.newest <= kProtocol) reader.end();
  return wish;
}

AdminAnswer decode_admin_answer(std::span<const std::byte> head) {
  Reader reader(head);
  begin(reader, AdminKind::answer);
  AdminAnswer answer;
  answer.protocol = reader.get<std::uint16_t>();
  answer.outcome = one_of(reader, AdminAnswer::Outcome::refused);
  answer.text = reader.get_text(kMaxAdminText);
  reader.end();
  return answer;
}

}  // namespace heddle::kv_detail
