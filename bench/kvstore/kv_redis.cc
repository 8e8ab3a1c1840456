// Redis through its client library hiredis: SET and GET.
#include <cstring>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include <hiredis/hiredis.h>

#include "kvstore/kv_user.h"

namespace heddle::bench {
namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Answer = std::unique_ptr<redisReply, FreeReply>;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};

constexpr std::size_t kPipeline = 10'000;  // number of requests sent before the first answer is read

class RedisUser final : public StoreUser {
 public:
  explicit RedisUser(const std::string& address) {
    const auto colon = address.rfind(':');
    context_.reset(redisConnect(address.substr(0, colon).c_str(), std::stoi(address.substr(colon + 1))));
    if (!context_ || context_->err)
      throw std::runtime_error("Redis: " + std::string(context_ ? context_->errstr : "no memory"));
    redisEnableKeepAlive(context_.get());
  }

  void make(std::size_t keys, std::size_t bytes) override {
    memory_.resize(keys, bytes);
    names_.clear();
    for (std::size_t i = 0; i < keys; ++i) names_.push_back(std::to_string(next_++));
    for (std::size_t begin = 0; begin < keys; begin += kPipeline) {
      const std::size_t end = std::min(keys, begin + kPipeline);
      for (std::size_t i = begin; i < end; ++i) set(i);
      for (std::size_t i = begin; i < end; ++i) read_done();
    }
  }

  std::span<std::byte> value(std::size_t key) override { return memory_.value(key); }
  std::span<std::byte> result(std::size_t key) override { return memory_.result(key); }

  void push() override {
    for (std::size_t i = 0; i < memory_.keys(); ++i) set(i);
    for (std::size_t i = 0; i < memory_.keys(); ++i) read_done();
  }

  void pull() override {
    for (std::size_t i = 0; i < memory_.keys(); ++i) get(i);
    for (std::size_t i = 0; i < memory_.keys(); ++i) read_value(i);
  }

  // With one key each request waits for its answer; requests of several keys are pipelined.
  void push_pull() override {
    if (memory_.keys() == 1) {
      push();
      return pull();
    }
    for (std::size_t i = 0; i < memory_.keys(); ++i) set(i), get(i);
    for (std::size_t i = 0; i < memory_.keys(); ++i) read_done(), read_value(i);
  }

 private:
  void set(std::size_t i) {
    const auto value = memory_.value(i);
    const char* words[] = {"SET", names_[i].data(), reinterpret_cast<const char*>(value.data())};
    const std::size_t lengths[] = {3, names_[i].size(), value.size()};
    redisAppendCommandArgv(context_.get(), 3, words, lengths);
  }

  void get(std::size_t i) {
    const char* words[] = {"GET", names_[i].data()};
    const std::size_t lengths[] = {3, names_[i].size()};
    redisAppendCommandArgv(context_.get(), 2, words, lengths);
  }

  Answer read() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK)
      throw std::runtime_error("Redis: " + std::string(context_->errstr));
    Answer answer(static_cast<redisReply*>(reply));
    if (answer->type == REDIS_REPLY_ERROR) throw std::runtime_error("Redis: " + std::string(answer->str));
    return answer;
  }

  void read_done() { read(); }

  void read_value(std::size_t i) {
    const Answer answer = read();
    const auto result = memory_.result(i);
    if (answer->type != REDIS_REPLY_STRING || answer->len != result.size())
      throw std::runtime_error("Redis has another value for " + names_[i]);
    std::memcpy(result.data(), answer->str, result.size());
  }

  std::unique_ptr<redisContext, FreeContext> context_;
  UserMemory memory_;
  std::vector<std::string> names_;
  std::uint64_t next_ = 0;
};

}  // namespace

bool has_redis() { return true; }

std::unique_ptr<StoreUser> make_redis_user(const UserOptions& options) {
  return std::make_unique<RedisUser>(options.address);
}

}  // namespace heddle::bench
