// Numbers as text for messages and files, the same in every locale.
#pragma once

#include <string>

namespace heddle {

std::string number_text(double value);  // as few digits as tell it from all others: "0.1", "1e-08", "inf"
std::string fixed_text(double value, int places);  // so many behind the point, rounded: "12.30"

}  // namespace heddle
