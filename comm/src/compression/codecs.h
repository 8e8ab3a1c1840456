// Makes the codecs: one function for each of them.
#pragma once

#include <memory>

#include <heddle/compression.h>

namespace heddle::comm_detail {

std::shared_ptr<const Codec> make_fp16();
std::shared_ptr<const Codec> make_bf16();
std::shared_ptr<const Codec> make_one_bit();
std::shared_ptr<const Codec> make_two_bit(float threshold);
std::shared_ptr<const Codec> make_top_k(double ratio);

// The shortest decimal text that parses as this number.
std::string shortest(double number);

}  // namespace heddle::comm_detail
