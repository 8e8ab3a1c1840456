// Compressed requests: pushes whose payload a codec has encoded, and pulls whose answer a codec is to encode.
// Request::text names the codec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <heddle/compression.h>
#include <heddle/dtype.h>

#include "wire/messages.h"

namespace heddle::kv_detail {

bool is_compressed(const Request& request);
// The codec of a push or a pull; null: it is not compressed. Throws InvalidArgument for an unknown codec.
std::shared_ptr<const Codec> codec_of(const Request& request);
// Why a key with `size` elements of this dtype cannot have this compressed push or pull; empty: it can.
std::string codec_problem(const Request& request, std::int64_t size, DType dtype);

}  // namespace heddle::kv_detail
