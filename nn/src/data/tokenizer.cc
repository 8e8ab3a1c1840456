#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <heddle/data/text.h>

#include "data/input_file.h"

namespace heddle {

struct Tokenizer::Model {
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

// Runs call(), a function of SentencePiece, which may throw errors of the standard library.
template <class Call> sentencepiece::util::Status in_sentencepiece(const std::string& title, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(title + ": SentencePiece: " + error.what());
  }
}

}  // namespace

Tokenizer::Tokenizer(const std::string& path) {
  const std::string title = data_detail::title_of(path);
  const std::vector<std::byte> bytes = data_detail::read_bytes(path, std::int64_t{1} << 30);
  auto model = std::make_shared<Model>();
  const auto status = in_sentencepiece(title, [&] {
    return model->processor.LoadFromSerializedProto(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  if (!status.ok() || model->processor.GetPieceSize() == 0)
    throw Error(title + " is no model of SentencePiece: " + status.ToString());
  model_ = std::move(model);
}

void Tokenizer::train(const std::string& text_path, const std::string& prefix, std::int64_t size) {
  const std::string title = "Tokenizer: train: " + data_detail::title_of(text_path);
  if (text_path.find(',') != std::string::npos || prefix.find('\0') != std::string::npos) {
    throw InvalidArgument("Tokenizer: train: text_path '" + text_path.substr(0, text_path.find('\0')) +
                          "' or prefix '" + prefix.substr(0, prefix.find('\0')) +
                          "'; wanted a text's path without commas, and a prefix without zero bytes");
  }
  static_cast<void>(data_detail::OpenFile(text_path));  // SentencePiece would wait for a pipe's writer
  const auto status = in_sentencepiece(title, [&] {
    return sentencepiece::SentencePieceTrainer::Train({{"input", text_path},
                                                       {"model_prefix", prefix},
                                                       {"vocab_size", std::to_string(size)},
                                                       {"hard_vocab_limit", "false"},
                                                       {"minloglevel", "2"},
                                                       {"num_threads", "1"}});
  });
  if (!status.ok()) throw Error(title + ": " + status.ToString());
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = model_->processor.Encode({text.data(), text.size()}, &ids);
  if (!status.ok()) throw Error("Tokenizer: encode: " + status.ToString());
  return {ids.begin(), ids.end()};
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids) const {
  std::vector<int> narrow;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= size())
      throw InvalidArgument("Tokenizer: decode: id " + std::to_string(id) + " of " + std::to_string(size()));
    narrow.push_back(static_cast<int>(id));
  }
  std::string text;
  const auto status = model_->processor.Decode(narrow, &text);
  if (!status.ok()) throw Error("Tokenizer: decode: " + status.ToString());
  return text;
}

std::int64_t Tokenizer::size() const { return model_->processor.GetPieceSize(); }

}  // namespace heddle
