#include "security/base64.h"

#include <random>
#include <string>

#include <doctest/doctest.h>

using namespace heddle::net_detail;

TEST_CASE("base64: the examples of RFC 4648") {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
}

TEST_CASE("base64: all bytes survive") {
  std::mt19937_64 random(2);
  for (std::size_t length = 0; length < 200; ++length) {
    std::string bytes;
    while (bytes.size() < length) bytes += static_cast<char>(random());
    CHECK(from_base64(to_base64(bytes)) == bytes);
  }
  const std::string large(3 << 20, '\xfb');
  CHECK(from_base64(to_base64(large)) == large);
}

TEST_CASE("base64: what is none is refused") {
  for (const std::string wrong :
       {"Z",        "Zm9",      " Zm9v", "Zm9v\n",   " mg==",   "Zm9=v",    "Zm=v",
        "=m9v",     "Zm9 ",     "====",  "==",       "Z===",    " Zm9v   ", "Zm9v\n\n\n\n",
        "Zm9v----", "Zm9v AAA", "Zm-_",  "Zm9v=AAA", "Zm\xff=", "Zm9v===="}) {
    CAPTURE(wrong);
    CHECK_FALSE(from_base64(wrong));
  }
  CHECK_FALSE(from_base64(std::string(4, '\0')));
}
