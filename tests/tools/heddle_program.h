// Runs the program `heddle` as its users do, and makes files for it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::test {

// A file in the system's temporary directory, removed after the test.
class File {
 public:
  explicit File(const std::string& text = "") {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("heddle_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    write(text);
  }
  ~File() { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Outcome {
  int status;
  std::string out, error;
};

// Runs the program `heddle` with arguments; the status is -1 if a signal ended it.
inline Outcome run_heddle(const std::string& arguments) {
  const File out, error;
  const std::string command =
      std::string("'") + HEDDLE_PROGRAM + "' " + arguments + " >" + out.path() + " 2>" + error.path();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.text(), error.text()};
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace heddle::test
