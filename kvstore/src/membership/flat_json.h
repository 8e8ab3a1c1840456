// JSON read into a map from paths to values: {"kvs":[{"key":"a"}]} has "a" at "kvs.0.key". That is enough for
// etcd's replies, which are small and of known shape.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace heddle::kv_detail {

// Strings are without quotes, other values as they are written; null and empty objects are left out. Throws
// MalformedMessage, also for more than 16 levels.
std::map<std::string, std::string> flat_json(std::string_view text);

std::string json_string(std::string_view text);  // adds quotes and escapes
std::string base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws MalformedMessage

}  // namespace heddle::kv_detail
