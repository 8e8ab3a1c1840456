#include "text.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

using namespace heddle;

namespace {

// Cuts into examples of `length` characters, and those one further on.
void cut(const std::vector<std::int64_t>& numbers, std::int64_t length, NDArray& now, NDArray& next) {
  const std::int64_t examples = (static_cast<std::int64_t>(numbers.size()) - 1) / length;
  const NDArray all = array(numbers, {static_cast<std::int64_t>(numbers.size())});
  now = all.slice(0, {0, examples * length}).reshape(examples, length);
  next = all.slice(0, {1, examples * length + 1}).reshape(examples, length);
}

double entropy_of(const std::vector<std::int64_t>& numbers, std::size_t alphabet) {
  std::vector<double> counts(alphabet);
  for (std::int64_t number : numbers) ++counts[static_cast<std::size_t>(number)];
  double sum = 0;
  for (double count : counts) {
    if (count > 0) sum -= count * std::log2(count / static_cast<double>(numbers.size()));
  }
  return sum / static_cast<double>(numbers.size());
}

}  // namespace

Text read_text(const std::string& path, std::int64_t length, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (most > 0 && content.size() > most) content.resize(most);
  const std::size_t end = content.size() - content.size() / 10;
  if (content.size() - end <= static_cast<std::size_t>(length)) {
    throw std::runtime_error(path + ": " + std::to_string(content.size()) +
                             " characters, too few for examples of " + std::to_string(length));
  }
  Text text;
  const std::set<char> alphabet(content.begin(), content.end());
  text.alphabet.assign(alphabet.begin(), alphabet.end());
  std::vector<std::int64_t> numbers;
  for (char c : content) numbers.push_back(static_cast<std::int64_t>(text.alphabet.find(c)));
  const std::vector<std::int64_t> first(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(end));
  const std::vector<std::int64_t> last(numbers.begin() + static_cast<std::ptrdiff_t>(end), numbers.end());
  cut(first, length, text.train, text.train_next);
  cut(last, length, text.test, text.test_next);
  text.letters_alone = entropy_of(last, text.alphabet.size());
  std::printf("%zu characters, of %zu kinds; %lld examples, %lld more are held out\n", content.size(),
              text.alphabet.size(), static_cast<long long>(text.train.size(0)),
              static_cast<long long>(text.test.size(0)));
  return text;
}

NDArray Text::numbers(const std::string& characters) const {
  std::vector<std::int64_t> numbers;
  for (char c : characters) {
    const std::size_t place = alphabet.find(c);
    if (place == std::string::npos)
      throw std::runtime_error("the text has no character '" + std::string(1, c) + "'");
    numbers.push_back(static_cast<std::int64_t>(place));
  }
  return array(numbers, {1, static_cast<std::int64_t>(numbers.size())});
}

std::string Text::characters(const NDArray& numbers) const {
  std::string result;
  for (std::int64_t number : numbers.reshape(-1).to_vector<std::int64_t>()) {
    result += alphabet.at(static_cast<std::size_t>(number));
  }
  return result;
}

std::string write_on(const Text& text, const std::string& start, int count, double temperature,
                     Generator& generator, const std::function<NDArray(const NDArray& numbers)>& next) {
  const NoGrad no_grad;
  std::vector<NDArray> written{text.numbers(start)};
  for (int i = 0; i < count; ++i) {
    written.push_back(categorical(next(written.back()) / temperature, {}, generator).reshape(1, 1));
  }
  return text.characters(concat(written, 1));
}

std::vector<std::string> write_samples(
    const Text& text, int count, std::uint64_t seed,
    const std::function<std::function<NDArray(const NDArray&)>()>& writer) {
  std::vector<std::string> lines;
  Generator generator(seed);
  for (double temperature : {0.5, 0.8, 1.0}) {
    char head[40];
    std::snprintf(head, sizeof head, "--- temperature %.1f", temperature);
    lines.emplace_back(head);
    std::string line;
    for (char c : write_on(text, "The ", count, temperature, generator, writer()) + "\n") {
      if (c != '\n') line += c;
      if ((c == '\n' && !line.empty()) || line.size() >= 90) lines.push_back(std::exchange(line, {}));
    }
  }
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return lines;
}

bool report_bits(const Text& text, double bits, double wanted) {
  std::printf(
      "held out: %.3f bits a character, perplexity %.2f; %.3f bits by the frequency of letters alone\n", bits,
      std::exp2(bits), text.letters_alone);
  std::printf("wanted: at most %.3f bits\n", wanted);
  return bits <= wanted;
}
