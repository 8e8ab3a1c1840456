// For builds without hiredis.
#include "kvstore/kv_user.h"

namespace heddle::bench {

bool has_redis() { return false; }
std::unique_ptr<StoreUser> make_redis_user(const UserOptions&) { return nullptr; }

}  // namespace heddle::bench
