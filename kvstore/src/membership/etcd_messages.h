// Requests and replies of etcd's JSON gateway. In JSON, keys and values are base64, and 64-bit numbers are
// strings.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membership/consensus_store.h"

namespace heddle::kv_detail {

std::string get_request(const std::string& key);
std::string put_if_request(const std::vector<StoreCondition>& conditions, const std::string& key,
                           const std::string& value, std::int64_t lease);
std::string grant_request(std::chrono::seconds time);
std::string lease_request(std::int64_t lease);  // body of the request that renews or revokes a lease

// The functions below parse replies. They throw MalformedMessage for a text that is no such reply.
std::optional<StoreEntry> entry_from(std::string_view reply);
// Revision of the change that a conditional put has made; empty: a condition is not met.
std::optional<std::int64_t> revision_from(std::string_view reply);
StoreLease lease_from(std::string_view reply);
// Time that is left of a renewed lease. Throws Error if the reply reports an error.
std::chrono::seconds renewed_from(std::string_view reply);
std::string error_from(std::string_view reply);  // the error that the reply reports; empty: none

}  // namespace heddle::kv_detail
