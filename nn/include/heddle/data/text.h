// Text as numbers: vocabularies, subwords, lines, and windows for language models.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/data/dataset.h>

namespace heddle {

// Tokens by their ids. A token is a byte, a character (UTF-8), or a word between spaces.
class Vocabulary {
 public:
  enum class Unit { byte, character, word };
  static Vocabulary of_bytes();  // 256 ids
  static Vocabulary of_characters(
      const std::string& text);  // those of the text, in the order of their code points
  // Words that occur at least `least` times, the most frequent first, `most` at most; equal counts in the order of words.
  static Vocabulary of_words(const std::string& text, std::int64_t least = 1, std::int64_t most = INT64_MAX);
  Vocabulary(Unit unit, std::vector<std::string> tokens);  // ids are places in the list

  // The id of a token that is not in the vocabulary is `unknown`; -1, the default: InvalidArgument, which names it.
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(const std::vector<std::int64_t>& ids) const;  // words with a space between them
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  std::int64_t unknown = -1;

 private:
  Unit unit_;
  std::vector<std::string> tokens_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

// Subwords by a model of SentencePiece (libsentencepiece-dev). Thread-safe.
class Tokenizer {
 public:
  explicit Tokenizer(const std::string& path);  // throws Error naming the file
  // Learns a model of up to `size` subwords from a text file, and writes PREFIX.model and PREFIX.vocab.
  static void train(const std::string& text_path, const std::string& prefix, std::int64_t size);
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(const std::vector<std::int64_t>& ids) const;
  std::int64_t size() const;

 private:
  struct Model;
  std::shared_ptr<const Model> model_;
};

using Encoder = std::function<std::vector<std::int64_t>(std::string_view)>;

// Reads a whole file. Throws Error naming it.
std::string read_text(const std::string& path);

// The lines of text files, mapped into memory: examples {ids i64 (kInferred)}. length() is the number of bytes.
class TextLines : public Dataset {
 public:
  // Empty lines are left out. The files must not be truncated meanwhile. Throws Error naming the file.
  TextLines(const std::vector<std::string>& paths, Encoder encoder);
  TextLines(const std::vector<std::string>& paths, Vocabulary vocabulary);
  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::vector<ExampleArray> arrays() const override { return {{DType::i64, {kInferred}}}; }
  Example read(std::int64_t index) const override;
  std::int64_t length(std::int64_t index) const override;
  std::string_view line(std::int64_t index) const;  // without its end

 private:
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const std::byte>> files_;
  struct Line {
    std::int64_t file, begin, bytes;
  };
  std::vector<Line> lines_;
  Encoder encoder_;
};

// Windows of a sequence, for language models: example i is {x[i * stride, length), the same one element later}.
class SequenceDataset : public Dataset {
 public:
  // `sequence` (n) of any dtype on cpu(); stride 0: the length. Throws InvalidArgument for no whole window.
  SequenceDataset(const NDArray& sequence, std::int64_t length, std::int64_t stride = 0,
                  Where where = Where::current());
  std::int64_t size() const override;
  std::vector<ExampleArray> arrays() const override;
  Example read(std::int64_t index) const override;
  bool gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const override;
  std::vector<NDArray> used_arrays() const override { return {sequence_}; }

 private:
  NDArray sequence_;
  std::int64_t length_, stride_;
};

}  // namespace heddle
