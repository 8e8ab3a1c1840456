// Conversion of numbers with units from and to text.
#pragma once

#include <string>

namespace heddle::tool {

// Each of the _from functions refuses other texts and negative numbers: it throws std::runtime_error that
// shows the given text and an example.
double seconds_from(const std::string& text);         // parses a time: "20us", "1.5ms", "300ns", "2s"
double seconds_a_byte_from(const std::string& text);  // parses a rate: "25Gbit/s", "3.1GB/s", "100Mbit/s"
double bytes_from(const std::string& text);           // parses a size: "4096", "1MiB", "64KiB", "2MB"

std::string seconds_to_text(double seconds);      // a text such as "12.3 ms"
std::string rate_to_text(double seconds_a_byte);  // a text such as "25 Gbit/s"
std::string bytes_to_text(double bytes);          // a text such as "64 MiB"

}  // namespace heddle::tool
