// NumPy's .npz files: zip archives of .npy files.
#pragma once

#include <map>
#include <string>

#include <heddle/ndarray.h>

namespace heddle {

struct NpzOptions {
  bool compressed = false;  // true: deflate, as numpy.savez_compressed
};

// Blocks. The same content gives the same bytes. One op copies all arrays, which belong to one engine. The
// new file replaces the old one when it is complete; no arrays make an archive without entries. Throws Error
// with the path and the reason, rethrows the error that poisons an array, and throws InvalidArgument for
// bf16, which the format does not have.
void save_npz(const std::string& path, const std::map<std::string, NDArray>& arrays, NpzOptions options = {},
              Where where = Where::current());

// The arrays by their names, without ".npy". Throws Error that names the file, the array and what is wrong; checks lengths and
// checksums. Fortran order is converted.
std::map<std::string, NDArray> load_npz(const std::string& path, Device device = cpu(),
                                        Where where = Where::current());

}  // namespace heddle
