#include "table.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

std::vector<std::string> most_frequent(const std::map<std::string, int>& counts, int least) {
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [word, count] : counts) {
    if (count >= least) sorted.emplace_back(-count, word);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> words;
  for (auto& [count, word] : sorted) words.push_back(std::move(word));
  return words;
}

}  // namespace

Table read_table(const std::string& path, std::size_t columns) {
  std::ifstream file(path);
  Table rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> row;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      row.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    if (row.size() < columns) {
      throw std::runtime_error(path + ":" + std::to_string(rows.size() + 2) + ": " +
                               std::to_string(row.size()) + " columns, wanted " + std::to_string(columns));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> split(const std::string& text, bool at_spaces) {
  std::vector<std::string> words(1);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (at_spaces ? c != ' ' : std::isalnum(byte) != 0) {
      words.back() += static_cast<char>(std::tolower(byte));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

Vocabulary::Vocabulary(const Table& rows, const std::vector<Column>& columns, std::size_t most) {
  std::map<std::string, int> counts;
  for (const auto& row : rows) {
    for (const Column& column : columns) {
      for (const std::string& word : split(row[column.index], column.at_spaces)) ++counts[word];
    }
  }
  for (const std::string& word : most_frequent(counts, 2)) {
    if (numbers_.size() < most) numbers_.emplace(word, size());
  }
}

NDArray Vocabulary::numbers(const Table& rows, const Column& column) const {
  std::vector<std::int64_t> all;
  for (const auto& row : rows) {
    std::vector<std::string> words = split(row[column.index], column.at_spaces);
    words.resize(static_cast<std::size_t>(column.length));
    for (const std::string& word : words) {
      const auto found = numbers_.find(word);
      all.push_back(word.empty() ? 0 : found == numbers_.end() ? 1 : found->second);
    }
  }
  return array(all, {static_cast<std::int64_t>(rows.size()), column.length});
}

Classes::Classes(const Table& rows, std::size_t of_column) : column(of_column) {
  std::map<std::string, int> counts;
  for (const auto& row : rows) ++counts[row[of_column]];
  names = most_frequent(counts, 1);
}

NDArray Classes::labels(const Table& rows) const {
  std::vector<std::int64_t> all;
  for (const auto& row : rows) {
    const auto found = std::find(names.begin(), names.end(), row[column]);
    all.push_back(found == names.end() ? -1 : found - names.begin());
  }
  return array(all, {static_cast<std::int64_t>(all.size())});
}

std::vector<double> Classes::counts(const Table& rows) const {
  std::vector<double> counts(names.size());
  for (std::int64_t label : labels(rows).to_vector<std::int64_t>()) {
    if (label >= 0) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}
