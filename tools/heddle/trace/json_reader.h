// Reads JSON piece by piece, from a file of any size in little memory. Whatever the file holds, the outcome is a value
// or a BadJson that says where.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace heddle::tool {

// Not JSON; the message says at which byte.
class BadJson : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The file ends in the middle of a value.
class EndOfFile : public BadJson {
 public:
  using BadJson::BadJson;
};

class JsonReader {
 public:
  // "-" is stdin. Throws std::runtime_error if the file cannot be read.
  explicit JsonReader(const std::string& path);

  // The next character that is no blank, left where it is; 0 at the end of the file.
  char peek();
  bool at_end() { return peek() == '\0' && look() < 0; }
  // Takes it.
  void expect(char wanted);
  // If it is the next one, takes it and says true.
  bool accept(char wanted);

  void read_string(std::string& out);  // into UTF-8; what is no UTF-8 stays as it is
  double read_number();
  void skip_value();
  // After '{': the next key, with its colon; false after the last, with the '}'.
  bool next_key(std::string& key, bool first);

  [[noreturn]] void fail(const std::string& why) const;
  std::uint64_t offset() const { return before_ + at_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  bool refill();
  int get();  // -1 at the end
  int look();
  char take();  // throws EndOfFile
  void read_escape(std::string& out);
  unsigned read_hex();
  void skip_string();
  void skip_plain();
  void skip_container();

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> window_;
  std::size_t at_ = 0, end_ = 0;  // in the window
  std::uint64_t before_ = 0;      // bytes before the window
  std::string scratch_;
};

}  // namespace heddle::tool
