#include "wire/administration.h"

namespace heddle::kv_detail {
namespace {

template <class Message> Message admin_message(AdminKind wanted, std::span<const std::byte> head) {
  Reader reader(head);
  if (reader.get<AdminKind>() != wanted)
    throw MalformedMessage("a message that is none between a server and its administrator");
  return reader.whole<Message>();
}

template <class T> void check_one_of(T value, T last) {
  if (value == T{} || value > last)
    throw MalformedMessage("an administrator's message has " + std::to_string(static_cast<int>(value)) +
                           ", which is nothing");
}

}  // namespace

void AdminRequest::check() const { check_one_of(what, What::drain); }
void AdminAnswer::check() const { check_one_of(outcome, Outcome::refused); }

std::vector<std::byte> encode(const AdminRequest& wish) { return written(AdminKind::wish, wish); }
std::vector<std::byte> encode(const AdminAnswer& answer) { return written(AdminKind::answer, answer); }

bool is_admin_message(std::span<const std::byte> head) {
  return !head.empty() && head[0] >= static_cast<std::byte>(AdminKind::wish) &&
         head[0] <= static_cast<std::byte>(AdminKind::answer);
}

AdminRequest decode_admin_request(std::span<const std::byte> head) {
  return admin_message<AdminRequest>(AdminKind::wish, head);
}

AdminAnswer decode_admin_answer(std::span<const std::byte> head) {
  return admin_message<AdminAnswer>(AdminKind::answer, head);
}

}  // namespace heddle::kv_detail
