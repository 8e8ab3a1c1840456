#include "server/job/compression.h"

#include "server/job/job.h"

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

void Job::send_compressed(const WaitingRequest& waiting, const StoredKey& key) {
  Worker& worker = workers_[waiting.rank];
  const std::uint64_t before = worker.sent.bytes();
  std::string why;
  // No copy is kept for a worker that is gone: it asks again when it is back.
  const bool room = worker.peer != 0 && memory_.has_room(key.bytes(), why);
  const auto has = static_cast<std::uint32_t>(waiting.request.bytes);
  PullCache::Answer answer;
  try {
    answer = worker.sent.answer(key, *codec_of(waiting.request), has, room);
  } catch (const std::bad_alloc&) {
    worker.sent.clear();
    answer = {key.value().owner, key.value().bytes, 0};
  }
  memory_.use(static_cast<std::int64_t>(worker.sent.bytes()) - static_cast<std::int64_t>(before));
  send_value(waiting, key.rounds(), {answer.owner, answer.bytes}, answer.number);
}

void Job::forget_sent(Worker& worker) {
  memory_.use(-static_cast<std::int64_t>(worker.sent.bytes()));
  worker.sent.clear();
}

}  // namespace heddle::kv_detail
