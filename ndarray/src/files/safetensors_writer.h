// Writes safetensors files without an op.
#pragma once

#include <string>

#include <heddle/safetensors.h>

namespace heddle::ndarray_detail {

// Writes the file of save_safetensors() on the calling thread. The arrays are contiguous, on a CPU, and not written meanwhile.
void write_safetensors(const std::string& path, const Safetensors& content, SafetensorsOptions options);

}  // namespace heddle::ndarray_detail
