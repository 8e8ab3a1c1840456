// Fuzzes the parser of `heddle server`'s configuration files: with files as users and orchestrators write
// them, and random changes of these.
//
//     config_fuzz [INPUTS]
//
// libFuzzer calls LLVMFuzzerTestOneInput (tools/fuzz).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>

#include "server/config_file.h"
#include "server/settings.h"

namespace {

using namespace heddle;

void want(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "config_fuzz: %s, of:\n%s\n", what, text.c_str());
  std::abort();
}

// Parses the configuration; returns whether any line is valid.
bool read(const std::string& text) {
  tool::SettingSources sources;
  sources.file = "file";
  sources.lines = tool::parse_config(text);
  bool good = false;
  int last = 0;
  for (const tool::ConfigLine& line : sources.lines) {
    want(line.line > last, "lines in disorder", text);
    want(line.problem.empty() != line.name.empty(), "a line that is good and bad", text);
    last = line.line;
    good = good || line.problem.empty();
  }
  const tool::FoundSettings found = tool::find_settings(sources);
  want(found.values.size() == tool::server_settings().size(), "a setting is missing", text);
  want(!tool::settings_table(found).empty(), "a table of nothing", text);
  return good;
}

constexpr const char* kGood[] = {
    "listen = \"127.0.0.1:9463\"\nservers = 3\nnumber = 'hostname'  # comment\n\n",
    "memory-limit = 8GiB\nworker-timeout = 30s\nlog-level = debug\nlog-format = json\n",
    "# only\nkeys = \"a\\\\b\\n\\t\\\"\"\ntransport=zmq\nmetrics = off\njob-memory-limit = 1e9\n",
};

std::string changed(std::mt19937_64& random) {
  std::string text = kGood[random() % std::size(kGood)];
  for (auto count = random() % 5; count > 0; --count) {
    const std::size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, 1, "=\"'#\\\n[] 9"[random() % 10]);
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 2:
        text.erase(at, 1 + random() % 9);
        break;
      default:
        text.insert(at, text.substr(random() % (text.size() + 1), random() % 40));
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read({reinterpret_cast<const char*>(data), size});
  return 0;
}

int main(int argc, char** argv) {
  const long long inputs = argc > 1 ? std::atoll(argv[1]) : 100'000;
  for (const char* text : kGood) want(read(text), "a good file is refused", text);
  std::mt19937_64 random(1);
  long long accepted = 0;
  for (long long i = 0; i < inputs; ++i) accepted += read(changed(random));
  std::printf("config %lld inputs, %lld accepted\n", inputs, accepted);
  return 0;
}
