// NumPy's .npy files (format 1.0 to 3.0; NEP 1).
#pragma once

#include <string>

#include <heddle/ndarray.h>

namespace heddle {

// Blocks. Writes to a temporary file beside `path` and renames it. Throws Error with the path and the system's message,
// and InvalidArgument for bf16, which the format does not have.
void save_npy(const std::string& path, const NDArray& array, Where where = Where::current());

// Throws Error naming the file and what is wrong with it; checks every length in the file. Fortran order is converted.
NDArray load_npy(const std::string& path, Device device = cpu(), Where where = Where::current());

// The array on the file's own pages, which the system reads when an op touches them, on the current engine's
// cpu(0). Nothing is copied; changes stay in this process. The file must not be truncated meanwhile, which
// would kill the process.
NDArray map_npy(const std::string& path, Where where = Where::current());

}  // namespace heddle
