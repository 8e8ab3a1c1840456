// Requests and replies of etcd's JSON gateway. Keys and values are base64, numbers of 64 bits strings.
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
std::string lease_request(std::int64_t lease);  // renews or revokes it

// All of these throw MalformedMessage for what is no such reply.
std::optional<StoreEntry> entry_from(std::string_view reply);
std::optional<std::int64_t> revision_from(
    std::string_view reply);  // of the put; empty: a condition is not met
StoreLease lease_from(std::string_view reply);
std::chrono::seconds renewed_from(std::string_view reply);  // the time left; throws Error if etcd reports one
std::string error_from(std::string_view reply);             // the error that etcd reports; empty: none

}  // namespace heddle::kv_detail
