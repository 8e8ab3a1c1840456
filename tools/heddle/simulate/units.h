// Conversion of numbers with units from and to text.
#pragma once

#include <string>

namespace heddle::tool {

// All throw std::runtime_error showing the given text and an example. Negative numbers are refused.
double seconds_from(const std::string& text);         // "20us", "1.5ms", "300ns", "2s"
double seconds_a_byte_from(const std::string& text);  // from a rate: "25Gbit/s", "3.1GB/s", "100Mbit/s"
double bytes_from(const std::string& text);           // "4096", "1MiB", "64KiB", "2MB"

std::string seconds_to_text(double seconds);      // "12.3 ms"
std::string rate_to_text(double seconds_a_byte);  // "25 Gbit/s"
std::string bytes_to_text(double bytes);          // "64 MiB"

}  // namespace heddle::tool
