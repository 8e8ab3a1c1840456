#include "membership/etcd_messages.h"

#include <charconv>
#include <system_error>

#include <nlohmann/json.hpp>

#include "security/base64.h"
#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

using nlohmann::json;

constexpr std::int64_t kMostSeconds = 1'000'000'000;  // most seconds that the time of a lease may have

[[noreturn]] void malformed_reply(const std::string& problem) {
  throw MalformedMessage("a reply of etcd: " + problem);
}

json parsed_reply(std::string_view reply) {
  try {
    return json::parse(reply);
  } catch (const json::parse_error& error) {
    malformed_reply("it is no JSON from byte " + std::to_string(error.byte) + " on");
  } catch (const json::out_of_range&) {
    malformed_reply("it has a number beyond the range of double");
  }
}

// A member of a JSON object; null if it is missing. etcd leaves out numbers that are 0, empty texts and
// lists, and false.
const json& member_of(const json& object, const char* name) {
  static const json& null = *new json;
  if (!object.is_object())
    malformed_reply(std::string("want an object with ") + name + ", not a value of type " +
                    object.type_name());
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string text_member(const json& object, const char* name) {
  const json& text = member_of(object, name);
  if (text.is_null()) return "";
  if (!text.is_string())
    malformed_reply(std::string(name) + " is of type " + text.type_name() + ", want a string");
  return text.get<std::string>();
}

std::int64_t number_member(const json& object, const char* name) {
  const std::string text = text_member(object, name);
  std::int64_t value = 0;
  if (text.empty()) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    malformed_reply(std::string(name) + " is '" + text + "', want a number");
  return value;
}

std::chrono::seconds time_member(const json& object) {
  const std::int64_t seconds = number_member(object, "TTL");
  if (seconds < 0 || seconds > kMostSeconds)
    malformed_reply("TTL is " + std::to_string(seconds) + ", want at most " + std::to_string(kMostSeconds));
  return std::chrono::seconds(seconds);
}

std::string bytes_member(const json& object, const char* name) {
  std::optional<std::string> bytes = from_base64(text_member(object, name));
  if (!bytes) malformed_reply(std::string(name) + " is no base64");
  return *std::move(bytes);
}

// The error in a reply; empty: none. It is a text in "error" or "message". The reply to a renewal is a
// stream, in which "error" is an object.
std::string error_of_reply(const json& reply) {
  const json& error = member_of(reply, "error");
  if (error.is_object()) return text_member(error, "message");
  const std::string message = text_member(reply, "message");
  return message.empty() ? text_member(reply, "error") : message;
}

json json_condition(const StoreCondition& one) {
  const bool created = one.what == StoreCondition::What::created;
  return {{"target", created ? "CREATE" : "MOD"},
          {"result", "EQUAL"},
          {"key", to_base64(one.key)},
          {created ? "create_revision" : "mod_revision", std::to_string(one.revision)}};
}

}  // namespace

std::string get_request(const std::string& key) { return json{{"key", to_base64(key)}}.dump(); }

std::string put_if_request(const std::vector<StoreCondition>& conditions, const std::string& key,
                           const std::string& value, std::int64_t lease) {
  json compare = json::array();
  for (const StoreCondition& one : conditions) compare.push_back(json_condition(one));
  const json put = {{"key", to_base64(key)}, {"value", to_base64(value)}, {"lease", std::to_string(lease)}};
  const json success = json::array({json{{"request_put", put}}});
  return json{{"compare", compare}, {"success", success}}.dump();
}

std::string grant_request(std::chrono::seconds time) {
  return json{{"TTL", std::to_string(time.count())}}.dump();
}

std::string lease_request(std::int64_t lease) { return json{{"ID", std::to_string(lease)}}.dump(); }

std::optional<StoreEntry> entry_from(std::string_view reply) {
  const json parsed = parsed_reply(reply);
  const json& entries = member_of(parsed, "kvs");
  if (entries.empty()) return std::nullopt;
  if (!entries.is_array()) malformed_reply(std::string("kvs is of type ") + entries.type_name());
  const json& entry = entries[0];
  return StoreEntry{.value = bytes_member(entry, "value"),
                    .created = number_member(entry, "create_revision"),
                    .modified = number_member(entry, "mod_revision"),
                    .lease = number_member(entry, "lease")};
}

std::optional<std::int64_t> revision_from(std::string_view reply) {
  const json parsed = parsed_reply(reply);
  const json& succeeded = member_of(parsed, "succeeded");
  if (!succeeded.is_null() && !succeeded.is_boolean())
    malformed_reply(std::string("succeeded is of type ") + succeeded.type_name());
  if (succeeded != true) return std::nullopt;
  return number_member(member_of(parsed, "header"), "revision");
}

StoreLease lease_from(std::string_view reply) {
  const json parsed = parsed_reply(reply);
  return {number_member(parsed, "ID"), time_member(parsed)};
}

std::chrono::seconds renewed_from(std::string_view reply) {
  const json parsed = parsed_reply(reply);
  if (const std::string error = error_of_reply(parsed); !error.empty()) throw Error("etcd: " + error);
  return time_member(member_of(parsed, "result"));
}

std::string error_from(std::string_view reply) { return error_of_reply(parsed_reply(reply)); }

}  // namespace heddle::kv_detail
