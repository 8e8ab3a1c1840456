// Compressed values. What the encoding of a push leaves out is added to the next push of the key, so that the
// sum of all pushes lacks only what the last one left out. The answer to a pull is the difference to the
// value that this worker has.
#include <cstring>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/ops.h>

#include "client/answers.h"
#include "client/bundle_transfer.h"
#include "client/dist_store.h"

namespace heddle {

using kv_detail::Request;

// Sets no codec for small values, which travel in one message with the values of other keys.
void DistStore::set_codecs(ClientKey& entry) const {
  const EngineScope scope(engine());
  const bool gains = entry.bytes() > BundleTransfer::kMostBytes && entry.dtype == DType::f32;
  if (gains && codecs_.push) {
    entry.codec = codecs_.push;
    entry.residual = zeros(entry.shape);
  }
  if (gains && codecs_.pull) {
    entry.pull_codec = codecs_.pull;
    entry.pulled = NDArray(entry.shape);
  }
  std::size_t offset = 0;
  for (ClientKeyPart& part : entry.parts) {
    part.sent_offset = offset;
    part.sent_bytes = entry.codec ? entry.codec->encoded_bytes(part.bytes / sizeof(float)) : part.bytes;
    offset += part.sent_bytes;
  }
}

// Returns the bytes to send for the value, and sets request.text to the codec. Parts are encoded one by one.
NDArray DistStore::compressed(const KeyPtr& entry, const NDArray& value, Request& request) const {
  NDArray flat = value.contiguous();
  if (!entry->codec) return flat;
  const EngineScope scope(engine());
  const ClientKeyPart& last = entry->parts.back();
  const NDArray bytes({static_cast<std::int64_t>(last.sent_offset + last.sent_bytes)}, DType::u8);
  const NDArray scratch(flat.shape());
  request.text = entry->codec->name();
  array_push("kvstore_compress", {flat}, {entry->residual, scratch, bytes}, [entry, flat, scratch, bytes] {
    const float* const from = flat.data<const float>();
    auto* const into = bytes.data<std::byte>();
    for (const ClientKeyPart& part : entry->parts) {  // reads offsets and sizes only, which never change
      const std::size_t at = part.offset / sizeof(float), count = part.bytes / sizeof(float);
      const std::span<float> left(entry->residual.data<float>() + at, count);
      encode_with_feedback(*entry->codec, {from + at, count}, left, left, {scratch.data<float>(), count},
                           {into + part.sent_offset, part.sent_bytes});
    }
  });
  return bytes;
}

// The servers' answers to a compressed pull: the bytes of all, and version and size of each. See PullCache.
struct DistStore::Pulled {
  NDArray bytes;
  struct Part {
    std::uint32_t number = 0;
    std::size_t size = 0;
  };
  std::vector<Part> parts;

  void apply(ClientKey& key) const {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ClientKeyPart& part = key.parts[i];
      const std::size_t count = part.bytes / sizeof(float);
      const bool whole = parts[i].number <= 1;
      if (parts[i].size != (whole ? part.bytes : key.pull_codec->encoded_bytes(count)))
        throw StoreError("key " + key.name + ": a server's answer of " + std::to_string(parts[i].size) +
                         " bytes");
      float* const to = key.pulled.data<float>() + part.offset / sizeof(float);
      const std::byte* const from = bytes.data<const std::byte>() + part.offset;
      if (whole) {
        std::memcpy(to, from, part.bytes);
      } else {
        const auto change = std::make_unique_for_overwrite<float[]>(count);
        key.pull_codec->decode({from, parts[i].size}, {change.get(), count});
        for (std::size_t j = 0; j < count; ++j) to[j] += change[j];
      }
      part.pulled = parts[i].number;
    }
  }
};

// ClientKeyPart::pulled is 0 while a pull is under way. If the pull fails after a server has answered, this
// worker lacks a version that the server counts as sent. Then the 0 makes the next pull ask for the whole
// value.
void DistStore::pull_compressed(const KeyPtr& entry, const NDArray& out) {
  const EngineScope scope(engine());
  const auto pulled = std::make_shared<Pulled>();
  pulled->bytes = NDArray({static_cast<std::int64_t>(entry->bytes())}, DType::u8);
  Access access = array_access("kvstore_pull", {}, {&pulled->bytes, 1});
  access.read.add(order_);
  access.read.add(entry->var);
  access.mutate.add(entry->pulled.var());
  engine().push_async(
      [client = client_, entry, pulled](RunContext&, Completion done) {
        if (!entry->is_known()) return done.fail(not_initialised(entry->name));
        pulled->parts.resize(entry->parts.size());
        const auto answers = std::make_shared<Answers>(std::move(done), entry->parts.size());
        std::vector<kv_detail::ServerCall> calls;
        for (std::size_t i = 0; i < entry->parts.size(); ++i) {
          ClientKeyPart& part = entry->parts[i];
          kv_detail::Call call{.request = {.kind = kv_detail::Kind::pull,
                                           .key = part.number,
                                           .clock = part.clock,
                                           .bytes = std::exchange(part.pulled, 0U),
                                           .priority = entry->priority,
                                           .text = entry->pull_codec->name()}};
          call.into = {pulled->bytes.data<std::byte>() + part.offset, part.bytes};
          call.owner = pulled;
          call.done = [answers, pulled, i](const kv_detail::Reply& reply, std::exception_ptr error) {
            pulled->parts[i] = {reply.key, reply.bytes};
            answers->one(std::move(error));
          };
          calls.push_back({part.server, std::move(call)});
        }
        client->submit(calls);
      },
      access, CallSite::current());
  array_push("kvstore_decompress", {pulled->bytes}, {entry->pulled},
             [entry, pulled] { pulled->apply(*entry); });
  out.detach().assign(entry->pulled);
}

}  // namespace heddle
