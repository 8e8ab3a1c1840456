// A mapped file, whose pages the system reads when they are accessed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace heddle::ndarray_detail {

struct MappedFile {
  std::shared_ptr<std::byte> memory;  // private mapping: writes stay in this process
  std::size_t bytes;
};

// Throws Error that names the file.
MappedFile map_file(const std::string& path);

}  // namespace heddle::ndarray_detail
