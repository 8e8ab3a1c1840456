// JSON read into a map from paths to values: {"kvs":[{"key":"a"}]} has "a" at "kvs.0.key". It is what a reply of etcd needs,
// which is small and of known shape.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace heddle::kv_detail {

// Strings without quotes, all else as it is written; null and empty objects are left out. Throws MalformedMessage, also for
// more than 16 levels.
std::map<std::string, std::string> flat_json(std::string_view text);

std::string json_string(std::string_view text);  // with quotes
std::string base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws MalformedMessage

}  // namespace heddle::kv_detail
