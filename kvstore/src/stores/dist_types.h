// The stores on servers, which are in a library of their own: heddle::servers.
#pragma once

#include <memory>
#include <string>

#include <heddle/kvstore.h>

// heddle::servers defines it; a program without that library has a null pointer here. The store is the caller's.
extern "C" [[gnu::weak]] heddle::KVStore* make_heddle_dist_store(const std::string& type,
                                                                 const heddle::KVStoreOptions& options);

namespace heddle {

inline bool is_dist_type(const std::string& type) { return type.starts_with("dist_"); }

}  // namespace heddle
