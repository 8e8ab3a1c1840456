// The stores on servers, which are in a library of their own: heddle::servers.
#pragma once

#include <memory>
#include <string>

#include <heddle/kvstore.h>

// Makes a store; the caller owns it. The library heddle::servers defines this function. In a program without
// that library its address is null.
extern "C" [[gnu::weak]] heddle::KVStore* make_heddle_dist_store(const std::string& type,
                                                                 const heddle::KVStoreOptions& options);

namespace heddle {

inline bool is_dist_type(const std::string& type) { return type.starts_with("dist_"); }

}  // namespace heddle
