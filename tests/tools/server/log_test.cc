#include "server/reports/log.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <heddle/log.h>

#include "files.h"

using namespace heddle;
using namespace heddle::tool;
using heddle::test::read_file;
using heddle::test::TemporaryDirectory;

namespace {

using Level = ServerEvent::Level;

const std::chrono::system_clock::time_point kTime =
    std::chrono::sys_days{std::chrono::year{2026} / 11 / 23} + std::chrono::milliseconds(14'706'007);

std::string logfmt(const std::string& value) {
  const std::string line = log_line({Level::info, "e", {{"f", value}}}, kTime, LogFormat::logfmt);
  const std::string before = "time=2026-11-23T04:05:06.007Z level=info event=e f=";
  REQUIRE(line.starts_with(before));
  REQUIRE(line.ends_with("\n"));
  return line.substr(before.size(), line.size() - before.size() - 1);
}

nlohmann::ordered_json json(const ServerEvent& event) {
  const std::string line = log_line(event, kTime, LogFormat::json);
  CHECK(line.find('\n') == line.size() - 1);
  return nlohmann::ordered_json::parse(line);
}

}  // namespace

TEST_CASE("log: time is RFC 3339 with milliseconds, before 1970 too") {
  using std::chrono::milliseconds;
  const std::chrono::system_clock::time_point epoch;
  CHECK(rfc3339(kTime) == "2026-11-23T04:05:06.007Z");
  CHECK(rfc3339(epoch) == "1970-01-01T00:00:00.000Z");
  CHECK(rfc3339(epoch - milliseconds(1)) == "1969-12-31T23:59:59.999Z");
  CHECK(rfc3339(epoch + std::chrono::microseconds(999'999)) == "1970-01-01T00:00:00.999Z");
}

TEST_CASE("log: a line of logfmt") {
  const ServerEvent event{
      Level::warning, "worker_left", {{"job", "default"}, {"worker", "3"}, {"after", "12.5s"}}};
  CHECK(log_line(event, kTime, LogFormat::logfmt) ==
        "time=2026-11-23T04:05:06.007Z level=warning event=worker_left job=default worker=3 after=12.5s\n");
}

TEST_CASE("log: logfmt quotes what would be read as something else") {
  CHECK(logfmt("plain-1.5/s:[x]") == "plain-1.5/s:[x]");
  CHECK(logfmt("") == R"("")");
  CHECK(logfmt("two words") == R"("two words")");
  CHECK(logfmt("a=b") == R"("a=b")");
  CHECK(logfmt(R"(say "hi")") == R"("say \"hi\"")");
  CHECK(logfmt(R"(C:\keys)") == R"("C:\\keys")");
  CHECK(logfmt("one\nlevel=error event=forged") == R"("one\nlevel=error event=forged")");
  CHECK(logfmt("tab\tcr\r") == R"("tab\tcr\r")");
  CHECK(logfmt(std::string("nul\0esc\x1b\x7f", 9)) == R"("nul\u0000esc\u001b\u007f")");
  CHECK(logfmt("Gr\xC3\xBC\xC3\x9F"
               "e") ==
        "Gr\xC3\xBC\xC3\x9F"
        "e");
}

TEST_CASE("log: bytes that are no UTF-8 are replaced in both formats") {
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(logfmt("a\xFFz") == "a" + bad + "z");
  CHECK(logfmt("\xC0\xAF") == bad + bad);                      // an overlong encoding of '/'
  CHECK(logfmt("\xED\xA0\x80") == bad + bad + bad);            // a surrogate, U+D800
  CHECK(logfmt("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // a code point above U+10FFFF
  CHECK(logfmt("\xE2\x82") == bad + bad);                      // the first two bytes of a three-byte sequence
  CHECK(logfmt("\xE2\x82\xAC\xF0\x9F\x98\x80") == "\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(json({Level::info, "e", {{"f", "a\xFFz"}}})["f"] == "a" + bad + "z");
}

TEST_CASE("log: a long value is cut between characters") {
  CHECK(logfmt(std::string(kMostOfValue, 'x')) == std::string(kMostOfValue, 'x'));
  CHECK(logfmt(std::string(kMostOfValue + 1, 'x')) == std::string(kMostOfValue, 'x') + "...");
  CHECK(logfmt(std::string(kMostOfValue - 1, 'x') + "\xC3\xBC") ==
        std::string(kMostOfValue - 1, 'x') + "...");
}

TEST_CASE("log: a line of JSON holds the fields in their order") {
  const auto line = json({Level::error, "failed", {{"reason", "a \"quoted\"\nline"}, {"again", "no"}}});
  CHECK(line.dump() == R"({"time":"2026-11-23T04:05:06.007Z","level":"error","event":"failed",)"
                       R"("reason":"a \"quoted\"\nline","again":"no"})");
}

TEST_CASE("log: a field cannot pass for the time, the level or the event, nor break a line by its name") {
  const ServerEvent event{Level::info, "e", {{"level", "error"}, {"two words=", "1"}, {"", "2"}}};
  CHECK(log_line(event, kTime, LogFormat::logfmt) ==
        "time=2026-11-23T04:05:06.007Z level=info event=e level_=error two_words_=1 _=2\n");
  CHECK(json(event)["level"] == "info");
  CHECK(json(event)["level_"] == "error");
}

TEST_CASE("log: events below the level are left out; a file that was moved is made anew") {
  const TemporaryDirectory directory;
  const std::string file = directory.file("log"), moved = directory.file("log.1");
  Log log({.level = Level::warning, .file = file});
  log.write({Level::info, "quiet", {}});
  log.write({Level::warning, "first", {}});
  std::filesystem::rename(file, moved);
  log.write({Level::error, "second", {}});
  CHECK(log.reopen());
  log.write({Level::error, "third", {}});
  const std::string old = read_file(moved), fresh = read_file(file);
  CHECK(old.find("quiet") == std::string::npos);
  CHECK(old.find("event=first") != std::string::npos);
  CHECK(old.find("event=second") != std::string::npos);
  CHECK(fresh.find("event=third") != std::string::npos);
  CHECK(fresh.find("second") == std::string::npos);
}

TEST_CASE("log: a pipe that nobody reads holds up nobody, and the lines that it lost are counted") {
  const TemporaryDirectory directory;
  const std::string file = directory.file("pipe");
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  const int reader = ::open(file.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  Log log({.file = file});
  const auto read_all = [&] {
    std::string all(1 << 20, '\0');
    std::size_t got = 0;
    for (ssize_t now = 0; (now = ::read(reader, all.data() + got, all.size() - got)) > 0;)
      got += static_cast<std::size_t>(now);
    return all.substr(0, got);
  };
  // Lines with such a long value fill the pipe soon, so that some write ends within a line.
  const std::string value(kMostOfValue, 'x');
  const ServerEvent event{
      Level::info, "long", {{"a", value}, {"b", value}, {"c", value}, {"d", value}, {"e", value}}};
  constexpr int kLines = 1000;
  for (int i = 0; i < kLines; ++i) log.write(event);
  const std::string before = read_all();
  log.write({Level::info, "after", {}});
  const std::string after = read_all();
  const auto whole = std::count(before.begin(), before.end(), '\n');
  CHECK(whole > 0);
  CHECK(whole < kLines);
  const auto at = after.find("event=log_lines_lost lines=" + std::to_string(kLines - whole) + "\n");
  REQUIRE(at != std::string::npos);
  CHECK((before + after).rfind("\ntime=", before.size() + at) != std::string::npos);
  CHECK(after.find("event=after\n", at) != std::string::npos);
  ::close(reader);
}

TEST_CASE("log: names of levels and formats") {
  for (const Level level : {Level::debug, Level::info, Level::warning, Level::error})
    CHECK(level_from(level_name(level)) == level);
  CHECK_THROWS_WITH_AS(level_from("loud"), "'loud': want debug, info, warning or error", std::runtime_error);
  CHECK(log_format_from("json") == LogFormat::json);
  CHECK_THROWS_WITH_AS(log_format_from("xml"), "'xml': want logfmt or json", std::runtime_error);
  CHECK_THROWS_AS(Log({.file = "/nowhere/at/all"}), std::runtime_error);
}

TEST_CASE("log: what the library has to say is an event, as a key file that is wrong") {
  const TemporaryDirectory directory;
  const std::string file = directory.file("log");
  Log log({.format = LogFormat::json, .file = file});
  {
    const LibraryLog library(log);
    write_log("comm.allowed: no key");
  }
  const auto line = nlohmann::json::parse(read_file(file));
  CHECK(line["event"] == "message");
  CHECK(line["level"] == "warning");
  CHECK(line["text"] == "comm.allowed: no key");
}
