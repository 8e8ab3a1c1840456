// Numbers as text for messages and files, the same in every locale.
#pragma once

#include <string>

namespace heddle {

// The shortest text that reads back as the value: "0.1", "1e-08", "inf".
std::string number_text(double value);
std::string fixed_text(double value, int places);  // `places` digits behind the point, rounded: "12.30"

}  // namespace heddle
