// Replaces records.cc in a build without dmlc-core.
#include <heddle/data/records.h>

#include "data/input_file.h"

namespace heddle {
namespace {

[[noreturn]] void fail_without_dmlc(const char* what) { data_detail::fail_without(what, "libdmlc-dev"); }

}  // namespace

RecordWriter::RecordWriter(const std::string&) { fail_without_dmlc("RecordWriter"); }
void RecordWriter::write(std::string_view) {}
void RecordWriter::write_image(std::string_view, float, std::uint64_t) {}
void RecordWriter::close() {}

RecordFile::RecordFile(const std::string&) { fail_without_dmlc("RecordFile"); }
Example RecordFile::read(std::int64_t) const { return {}; }
std::int64_t RecordFile::length(std::int64_t) const { return 0; }
std::string RecordFile::record(std::int64_t) const { return {}; }
std::string RecordFile::title(std::int64_t) const { return {}; }

ImageRecords::ImageRecords(const std::string& path, ImageOptions options, std::int64_t labels)
    : file_(path), options_(options), labels_(labels) {}
std::vector<ExampleArray> ImageRecords::arrays() const { return {}; }
Example ImageRecords::read(std::int64_t) const { return {}; }

InputSplit::InputSplit(const std::string&, int, int, Kind) { fail_without_dmlc("InputSplit"); }
std::optional<std::string> InputSplit::next() { return std::nullopt; }
void InputSplit::restart() {}

}  // namespace heddle
