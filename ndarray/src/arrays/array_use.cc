#include <algorithm>
#include <utility>

#include <heddle/array_use.h>

namespace heddle {

thread_local constinit ArrayUse* ArrayUse::current_ = nullptr;

ArrayUse::ArrayUse() : outer_(std::exchange(current_, this)), site_(CallSite::counting()) {}
ArrayUse::~ArrayUse() { current_ = outer_; }

void ArrayUse::note(const NDArray& array, std::vector<NDArray>& list) {
  if (CallSite::counting() != site_ || made_.count(array.storage().get())) return;
  const auto noted = [&](const NDArray& other) { return other.storage() == array.storage(); };
  if (std::none_of(list.begin(), list.end(), noted)) list.push_back(array);
}

}  // namespace heddle
