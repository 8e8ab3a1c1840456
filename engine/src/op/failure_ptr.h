// A shared handle on an error that ops leave on vars.
#pragma once

#include <memory>

namespace heddle::detail {

struct Failure;
using FailurePtr = std::shared_ptr<const Failure>;  // null: no error

}  // namespace heddle::detail
