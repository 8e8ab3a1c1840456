#include "algorithms/tuning.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include <heddle/error.h>

namespace heddle {
namespace {

// A number of a tuning file: its name, where it is stored, and the unit in the file.
struct Entry {
  const char* name;
  double* value;
  double unit;
};

constexpr int kEntries = 5;
constexpr double kMicro = 1e-6, kNano = 1e-9, kMaxNumber = 1e9;
constexpr char kBad = '!';  // first character of a text that is an error, not a tuning

void entries_of(NetworkCost& network, Entry (&entries)[kEntries]) {
  const Entry all[kEntries] = {{"local_alpha_us", &network.local.alpha, kMicro},
                               {"local_beta_ns", &network.local.beta, kNano},
                               {"remote_alpha_us", &network.remote.alpha, kMicro},
                               {"remote_beta_ns", &network.remote.beta, kNano},
                               {"gamma_ns", &network.gamma, kNano}};
  std::copy(std::begin(all), std::end(all), entries);
}

std::string names() {
  NetworkCost network;
  Entry entries[kEntries];
  entries_of(network, entries);
  std::string text;
  for (const Entry& entry : entries) text += (text.empty() ? "" : ", ") + std::string(entry.name);
  return text;
}

double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= kMaxNumber)) {
    throw InvalidArgument("'" + text + "' is no number of 0 to 1e9");
  }
  return value;
}

// Reads one line into the entry that it names. Throws InvalidArgument, whose text does not name the file and line.
void read_line(const std::string& line, Entry (&entries)[kEntries], bool (&seen)[kEntries]) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string name, number, more;
  if (!(words >> name)) return;
  for (int i = 0; i < kEntries; ++i) {
    if (name != entries[i].name) continue;
    if (seen[i]) throw InvalidArgument(name + " stands here for the second time");
    if (!(words >> number) || words >> more) throw InvalidArgument("want '" + name + " NUMBER'");
    *entries[i].value = number_of(number) * entries[i].unit;
    seen[i] = true;
    return;
  }
  throw InvalidArgument("there is no '" + name + "'; there is " + names());
}

}  // namespace

NetworkCost tuning_from_text(const std::string& text, const std::string& file) {
  NetworkCost network;
  Entry entries[kEntries];
  bool seen[kEntries] = {};
  entries_of(network, entries);
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      read_line(line, entries, seen);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(file + ':' + std::to_string(number) + ": " + error.message());
    }
  }
  return network;
}

NetworkCost tuning_from_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) throw InvalidArgument(file + ": cannot be read, or is empty");
  return tuning_from_text(text.str(), file);
}

std::string tuning_to_text(const NetworkCost& network) {
  NetworkCost copy = network;
  Entry entries[kEntries];
  entries_of(copy, entries);
  std::string text;
  for (const Entry& entry : entries) {
    char digits[32];
    char* const end = std::to_chars(std::begin(digits), std::end(digits), *entry.value / entry.unit,
                                    std::chars_format::general, 9)
                          .ptr;
    text += entry.name + (" " + std::string(std::begin(digits), end)) + "\n";
  }
  return text;
}

namespace comm_detail {

NetworkCost agreed_tuning(Rendezvous& rendezvous, const std::string& file) {
  std::string mine;
  if (rendezvous.rank() == 0) {
    try {
      mine = tuning_to_text(file.empty() ? NetworkCost{} : tuning_from_file(file));
    } catch (const InvalidArgument& error) {
      mine = kBad + std::string("HEDDLE_COMM_TUNING: ") + error.message();
    }
  }
  const std::string text = rendezvous.all_gather(mine)[0];
  if (text.starts_with(kBad)) throw InvalidArgument(text.substr(1));
  return tuning_from_text(text, "rank 0's tuning");
}

}  // namespace comm_detail
}  // namespace heddle
