// Sets a locale of the process whose decimal point is a comma.
#pragma once

#include <clocale>
#include <cstdlib>
#include <locale>
#include <string>

#include "files.h"

namespace heddle::test {

// Sets the locale for C and C++, as a program does at its start. Converts to false if the system cannot
// create it.
class CommaLocale {
 public:
  CommaLocale() {
    const std::string command =
        "localedef -i de_DE -f UTF-8 '" + folder_.file("de_DE.UTF-8") + "' >/dev/null 2>&1";
    [[maybe_unused]] const int status = std::system(command.c_str());
    ::setenv("LOCPATH", folder_.path.c_str(), 1);
    made_ = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
    if (made_) std::locale::global(std::locale("de_DE.UTF-8"));
  }
  ~CommaLocale() {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;
  explicit operator bool() const { return made_; }

 private:
  TemporaryDirectory folder_;
  bool made_ = false;
};

}  // namespace heddle::test
