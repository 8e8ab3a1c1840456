// The log of the process, see <heddle/log.h>.
#pragma once

#include <string>

namespace heddle::detail {

void log(const std::string& text) noexcept;

}  // namespace heddle::detail
