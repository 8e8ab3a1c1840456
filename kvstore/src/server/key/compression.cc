#include "server/key/compression.h"

namespace heddle::kv_detail {

bool is_compressed(const Request& request) { return request.kind == Kind::push && !request.text.empty(); }

std::shared_ptr<const Codec> codec_of(const Request& request) {
  const bool may_be = request.kind == Kind::push || request.kind == Kind::pull;
  return may_be && !request.text.empty() ? make_codec(request.text) : nullptr;
}

std::string codec_problem(const Request& request, std::int64_t size, DType dtype) {
  if (request.overwrite || request.row_bytes > 0) return "compressed rows or a compressed overwrite";
  const std::string what = request.kind == Kind::push ? "a push" : "a pull";
  if (dtype != DType::f32) return "compressed " + std::string(name_of(dtype)) + "; want f32";
  try {
    const std::shared_ptr<const Codec> codec = codec_of(request);
    if (!codec) return what + " compressed by nothing";
    if (request.kind == Kind::pull) return {};
    const std::size_t bytes = codec->encoded_bytes(static_cast<std::size_t>(size));
    if (bytes == request.bytes) return {};
    return std::to_string(request.bytes) + " bytes of " + codec->name() + "; " + std::to_string(size) +
           " values take " + std::to_string(bytes);
  } catch (const InvalidArgument& error) {
    return what + " compressed by " + error.what();
  }
}

}  // namespace heddle::kv_detail
