// Pushes whose payload a codec has made, and pulls whose answer is to be made by one: its name is the text of the request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <heddle/compression.h>
#include <heddle/dtype.h>

#include "wire/messages.h"

namespace heddle::kv_detail {

bool is_compressed(const Request& request);
// Null: the value is as it is. Throws InvalidArgument for a codec that there is not.
std::shared_ptr<const Codec> codec_of(const Request& request);
// Why a key of so many elements cannot have this compressed push or pull; empty: it can.
std::string codec_problem(const Request& request, std::int64_t size, DType dtype);

}  // namespace heddle::kv_detail
