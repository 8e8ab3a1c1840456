#include "bootstrap/ancestor.h"

#include <fstream>
#include <sstream>
#include <unistd.h>

namespace heddle::comm_detail {
namespace {

struct Process {
  std::string name, start;
  long parent = 0;
};

// proc(5): "PID (NAME) STATE PPID ..."; the start time is the 22nd field. The name may contain blanks and brackets.
Process process_of(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  Process process;
  process.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string skipped;
  rest >> skipped >> process.parent;
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> process.start;
  return process;
}

}  // namespace

std::string ancestor_called(const std::string& name) {
  for (long pid = getppid(); pid > 0;) {
    const Process process = process_of(pid);
    if (process.name == name) return std::to_string(pid) + "-" + process.start;
    pid = process.parent;
  }
  return {};
}

}  // namespace heddle::comm_detail
