#include "kvstore/kv_user.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "support/support.h"

namespace heddle::bench {
namespace {

std::unique_ptr<StoreUser> make_user(const UserOptions& options) {
  if (options.layer == "store" || options.layer == "cluster") return make_store_user(options, false);
  if (options.layer == "lists") return make_store_user(options, true);
  if (options.layer == "calls") return make_calls_user(options, false);
  if (options.layer == "together") return make_calls_user(options, true);
  if (options.layer == "bare") return make_bare_user(options);
  if (options.layer == "tcp") return make_tcp_user(options);
  if (options.layer == "redis") return make_redis_user(options);
  throw std::runtime_error("there is no layer " + options.layer);
}

// The test data at one position of a key's value: a word that differs for every run, key and position.
std::uint32_t word_of(std::uint32_t run, std::size_t key, std::size_t place) {
  return run * 2654435761u + static_cast<std::uint32_t>(key) * 40503u + static_cast<std::uint32_t>(place);
}

// Executes commands on a user: makes keys, and times rounds of pushes and pulls of all keys.
class Runner {
 public:
  explicit Runner(const UserOptions& options) : user_(make_user(options)) {}

  std::string answer(const std::string& command) {
    std::istringstream words(command);
    std::string what;
    std::size_t keys = 0, bytes = 0;
    long rounds = 0, wrong = 0;
    if (!(words >> what >> keys >> bytes >> rounds)) throw std::runtime_error("no command: " + command);
    if (what == "make" || keys != keys_ || bytes != bytes_) user_->make(keys, bytes);
    keys_ = keys;
    bytes_ = bytes;
    const double seconds = what == "make" ? 0 : run(what == "push", rounds, wrong);
    std::ostringstream text;
    text << "ok " << seconds << ' ' << wrong;
    return text.str();
  }

 private:
  double run(bool push_only, long rounds, long& wrong) {
    fill();
    const double start = now();
    for (long round = 0; round < rounds; ++round) push_only ? user_->push() : user_->push_pull();
    const double seconds = now() - start;
    if (push_only) user_->pull();
    wrong = count_wrong();
    return seconds;
  }

  void fill() {
    ++runs_;
    for (std::size_t key = 0; key < keys_; ++key) {
      const auto value = user_->value(key), result = user_->result(key);
      for (std::size_t at = 0; at + 4 <= bytes_; at += 4) {
        const std::uint32_t word = word_of(runs_, key, at);
        std::memcpy(value.data() + at, &word, sizeof word);
      }
      std::memset(result.data(), 0, bytes_);
    }
  }

  long count_wrong() {
    long wrong = 0;
    for (std::size_t key = 0; key < keys_; ++key) {
      const auto result = user_->result(key);
      for (std::size_t at = 0; at + 4 <= bytes_; at += 4) {
        const std::uint32_t word = word_of(runs_, key, at);
        wrong += std::memcmp(result.data() + at, &word, sizeof word) != 0;
      }
    }
    return wrong;
  }

  std::unique_ptr<StoreUser> user_;
  std::size_t keys_ = 0, bytes_ = 0;
  std::uint32_t runs_ = 0;
};

}  // namespace

void UserMemory::resize(std::size_t keys, std::size_t bytes) {
  keys_ = keys;
  bytes_ = bytes;
  values_.assign(keys * bytes, std::byte{0});
  results_.assign(keys * bytes, std::byte{0});
}

int run_user(const UserOptions& options) {
  if (options.layer == "rows") return run_rows_user(options);
  std::string line;
  std::unique_ptr<Runner> runner;
  while (std::getline(std::cin, line)) {
    std::string answer;
    try {
      if (!runner) runner = std::make_unique<Runner>(options);
      answer = runner->answer(line);
    } catch (const std::exception& error) {
      answer = std::string("error ") + error.what();
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace heddle::bench
