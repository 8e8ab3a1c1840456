// Pictures in the PNG format (ISO/IEC 15948).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::nn_detail {

// Pixels of 8 bits, row by row; 1 channel is grey, 3 are red, green and blue, a fourth is alpha.
struct Picture {
  std::int64_t height = 0, width = 0;
  int channels = 1;
  std::vector<std::uint8_t> pixels{};
};
std::string to_png(const Picture& picture);

}  // namespace heddle::nn_detail
