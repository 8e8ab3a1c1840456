#include "base/arena.h"

namespace heddle::detail {

struct Arena::Impl {};

Arena::Arena(int) {}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) { fn(argument); }

}  // namespace heddle::detail
