// English text for models of characters: examples to learn from, how many bits a character takes, and writing on.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <heddle/heddle.h>

// Each example is `length` characters; the characters to predict are those one further on. Numbers (i64) stand for
// characters: their places in the alphabet.
struct Text {
  std::string alphabet;         // the characters that occur, sorted
  heddle::NDArray train, test;  // (examples, length); the last tenth of the text is held out
  heddle::NDArray train_next, test_next;
  double letters_alone = 0;  // bits a character of a model that knows how frequent each one is, and no more

  heddle::NDArray numbers(const std::string& characters) const;  // (1, characters)
  std::string characters(const heddle::NDArray& numbers) const;  // waits
};

// Throws std::runtime_error for a file with fewer characters than two examples. most: 0 for all characters.
Text read_text(const std::string& path, std::int64_t length, std::size_t most);

// The mean cross entropy of logits (batch, length, alphabet), in nats, for fit().
inline heddle::NDArray text_loss(const heddle::NDArray& logits, const heddle::NDArray& next) {
  return heddle::cross_entropy(logits.reshape(-1, logits.size(-1)), next.reshape(-1));
}
inline double bits(double nats) { return nats / std::log(2.0); }

// `next` takes further characters (1, any) of a text, remembers them, and gives the logits (1, alphabet) of the character
// behind them. Each character is drawn from these, divided by the temperature: below 1 the text is more usual. Nothing waits before
// the text is complete.
std::string write_on(const Text& text, const std::string& start, int count, double temperature,
                     heddle::Generator& generator,
                     const std::function<heddle::NDArray(const heddle::NDArray& numbers)>& next);

// Has `writer` make a `next` for each of three temperatures; prints what they write and returns it in lines for a picture.
std::vector<std::string> write_samples(
    const Text& text, int count, std::uint64_t seed,
    const std::function<std::function<heddle::NDArray(const heddle::NDArray&)>()>& writer);

// Prints the result and returns whether it is as good as wanted: at most so many bits.
bool report_bits(const Text& text, double bits, double wanted);
