// Streaming JSON reader for files of any size and content. Throws BadJson with the position. The SAX parser
// of nlohmann/json takes more than twice the time, and refuses text that is not UTF-8 (docs/dependencies.md).
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace heddle::tool {

// Invalid JSON; the message has the byte offset.
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
  // Opens a file; the path "-" means stdin. Throws std::runtime_error if the file cannot be read.
  explicit JsonReader(const std::string& path);

  // Skips blanks and returns the next character without consuming it; 0 at the end of the file.
  char peek();
  bool at_end() { return peek() == '\0' && look() < 0; }
  // Skips blanks and consumes the next character, which must be `wanted`.
  void expect(char wanted);
  // Skips blanks; if `wanted` is the next character, consumes it and returns true.
  bool accept(char wanted);

  void read_string(std::string& out);  // decodes escapes to UTF-8; invalid UTF-8 is kept
  double read_number();
  void skip_value();
  // Inside an object: consumes the next key and its colon; false at the end, after consuming '}'.
  bool next_key(std::string& key, bool first);

  [[noreturn]] void fail(const std::string& why) const;
  std::uint64_t offset() const { return before_ + at_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  bool refill();
  int get();  // consumes a character; returns -1 at the end of the file
  int look();
  char take();  // consumes a character; throws EndOfFile at the end of the file
  void read_escape(std::string& out);
  unsigned read_hex();
  void skip_string();
  void skip_plain();
  void skip_container();

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> window_;
  std::size_t at_ = 0, end_ = 0;  // the next character in the window, and the window's end
  std::uint64_t before_ = 0;      // number of the file's bytes before the window
  std::string scratch_;
};

}  // namespace heddle::tool
