#include "server/reports/metrics.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include "arguments.h"
#include "files.h"
#include "server/hand_made.h"
#include "server/http_client.h"
#include "server/http_server.h"
#include "server/reports/report.h"

using namespace heddle;
using namespace heddle::tool;
using heddle::test::hand_made;
using heddle::test::worker;

namespace {

// The lines of a metrics text that are not comments.
std::vector<std::string> samples(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#")) lines.push_back(line);
  }
  return lines;
}

std::string bad_metrics(const std::string& text) {
  try {
    snapshot_from("heddle_server_info{number=\"0\",servers=\"1\"} 1\n" + text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

constexpr std::chrono::seconds kTimeout{10};
constexpr int kRounds = test::kSanitized ? 600 : 3000;  // number of malformed metrics texts that are parsed

struct Close {
  void operator()(const int* fd) const {
    ::close(*fd);
    delete fd;
  }
};

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(new int(fd)) {}
  int fd() const { return *fd_; }
  explicit operator bool() const { return *fd_ >= 0; }

 private:
  std::unique_ptr<int, Close> fd_;
};

// Sends the bytes to the address and returns the answer; "" if nothing listens there, or no answer comes
// within some seconds.
std::string answer_on(const Descriptor& socket, const std::string& address, const std::string& bytes) {
  const timeval limit{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  std::string answer;
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    (void)!::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (!bytes.empty()) ::shutdown(socket.fd(), SHUT_WR);
    char part[4096];
    for (ssize_t count; !bytes.empty() && (count = ::recv(socket.fd(), part, sizeof part, 0)) > 0;)
      answer.append(part, static_cast<std::size_t>(count));
  }
  return answer;
}

std::string answer_to(const std::string& address, const std::string& bytes) {
  return answer_on(Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), address, bytes);
}

// Opens a connection to the address, on which nothing is sent.
Descriptor connected_to(const std::string& address) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  answer_on(socket, address, "");
  return socket;
}

}  // namespace

TEST_CASE("metrics: names and values of all numbers") {
  const std::vector<std::string> wanted = {
      R"(heddle_server_info{address="10.0.0.1:9463",number="1",servers="2",transport="net"} 1)",
      R"(heddle_server_workers{job_name="default",state="connected"} 1)",
      R"(heddle_server_workers{job_name="default",state="gone"} 1)",
      "heddle_server_uptime_seconds 3723.5",
      "heddle_server_draining 0",
      "heddle_server_jobs 1",
      "heddle_server_keys 120",
      "heddle_server_value_bytes 1610612736",
      "heddle_server_state_bytes 3221225472",
      "heddle_server_waiting_bytes 4096",
      "heddle_server_memory_used_bytes 6442450944",
      "heddle_server_memory_limit_bytes 8589934592",
      "heddle_server_pushes_total 1000",
      "heddle_server_pulls_total 990",
      "heddle_server_duplicates_total 3",
      "heddle_server_refused_total 2",
      "heddle_server_unauthorized_total 6",
      "heddle_server_rounds_total 500",
      "heddle_server_worst_staleness_clocks 4",
      "heddle_server_snapshots_total 7",
      "heddle_server_snapshots_failed_total 1",
      "heddle_server_snapshot_age_seconds 12.5",
      "heddle_server_snapshot_bytes 2048",
      "heddle_server_snapshot_duration_seconds 0.5",
      "heddle_server_workers_hidden 0",
      R"(heddle_server_worker_connected{job_name="default",worker="0"} 1)",
      R"(heddle_server_worker_connected{job_name="default",worker="1"} 0)",
      R"(heddle_server_worker_silent_seconds{job_name="default",worker="0"} 0.25)",
      R"(heddle_server_worker_silent_seconds{job_name="default",worker="1"} 61)",
      R"(heddle_server_worker_clock{job_name="default",worker="0"} 21)",
      R"(heddle_server_worker_clock{job_name="default",worker="1"} 17)",
      R"(heddle_server_worker_pulls_waiting{job_name="default",worker="0"} 1)",
      R"(heddle_server_worker_pulls_waiting{job_name="default",worker="1"} 0)",
      R"(heddle_server_worker_pushes_total{job_name="default",worker="0"} 600)",
      R"(heddle_server_worker_pushes_total{job_name="default",worker="1"} 400)",
      R"(heddle_server_worker_pulls_total{job_name="default",worker="0"} 590)",
      R"(heddle_server_worker_pulls_total{job_name="default",worker="1"} 400)",
      R"(heddle_server_worker_received_bytes_total{job_name="default",worker="0"} 5000000)",
      R"(heddle_server_worker_received_bytes_total{job_name="default",worker="1"} 3000000)",
      R"(heddle_server_worker_sent_bytes_total{job_name="default",worker="0"} 4000000)",
      R"(heddle_server_worker_sent_bytes_total{job_name="default",worker="1"} 2000000)"};
  ServerSnapshot snapshot = hand_made();
  snapshot.stats.shards.clear();  // shards and requests have test cases of their own
  snapshot.stats.requests.clear();
  snapshot.stats.snapshots = {
      .kept = true, .written = 7, .failed = 1, .age = 12.5, .bytes = 2048, .seconds = 0.5};
  CHECK(samples(metrics_text(snapshot)) == wanted);
}

TEST_CASE("metrics: what the server has of each part of the keys, and of its copies") {
  ServerSnapshot snapshot = hand_made();
  snapshot.stats.shards = {
      {.shard = 0, .epoch = 7, .primary = true, .synced = true, .unconfirmed_bytes = 4096},
      {.shard = 1, .epoch = 3, .backup = true}};
  std::vector<std::string> found;
  for (const std::string& line : samples(metrics_text(snapshot))) {
    if (line.starts_with("heddle_server_shard_")) found.push_back(line);
  }
  const std::vector<std::string> wanted = {R"(heddle_server_shard_epoch{shard="0"} 7)",
                                           R"(heddle_server_shard_epoch{shard="1"} 3)",
                                           R"(heddle_server_shard_primary{shard="0"} 1)",
                                           R"(heddle_server_shard_primary{shard="1"} 0)",
                                           R"(heddle_server_shard_backup{shard="0"} 0)",
                                           R"(heddle_server_shard_backup{shard="1"} 1)",
                                           R"(heddle_server_shard_synced{shard="0"} 1)",
                                           R"(heddle_server_shard_synced{shard="1"} 0)",
                                           R"(heddle_server_shard_unconfirmed_bytes{shard="0"} 4096)",
                                           R"(heddle_server_shard_unconfirmed_bytes{shard="1"} 0)"};
  CHECK(found == wanted);
}

TEST_CASE("metrics: times of requests are histograms with buckets from 50 us to 60 s") {
  const std::string text = metrics_text(hand_made());
  const auto has = [&](const std::string& line) {
    return text.find("\n" + line + "\n") != std::string::npos;
  };
  const std::string pulls = R"({request="pull"})";
  CHECK(has("heddle_server_request_duration_seconds_count" + pulls + " 990"));
  CHECK(has("heddle_server_request_duration_seconds_sum" + pulls + " 17.25"));
  CHECK(has("heddle_server_request_server_seconds_sum" + pulls + " 0.25"));
  CHECK(has("heddle_server_request_wait_seconds_sum" + pulls + " 17"));
  CHECK(has(R"(heddle_server_request_wait_seconds_bucket{request="pull",le="5e-05"} 495)"));
  CHECK(has(R"(heddle_server_request_wait_seconds_bucket{request="pull",le="0.025"} 495)"));
  CHECK(has(R"(heddle_server_request_wait_seconds_bucket{request="pull",le="0.05"} 990)"));
  CHECK(has(R"(heddle_server_request_wait_seconds_bucket{request="pull",le="60"} 990)"));
  CHECK(has(R"(heddle_server_request_wait_seconds_bucket{request="pull",le="+Inf"} 990)"));
  CHECK(has(R"(heddle_server_request_server_seconds_bucket{request="push",le="0.00025"} 950)"));
  ServerSnapshot slow = hand_made();
  slow.stats.requests[0].total.counts.back() = 3;
  CHECK(snapshot_from(metrics_text(slow)).stats.requests[0].total.counts.back() == 3);
}

TEST_CASE("metrics: each has its type, and the page describes it") {
  const std::string text = metrics_text(hand_made());
  const std::string page = heddle::test::read_file(HEDDLE_METRICS_PAGE);
  std::istringstream in(text);
  int families = 0;
  for (std::string word, name, type; in >> word;) {
    if (word != "TYPE") continue;
    in >> name >> type;
    ++families;
    CAPTURE(name);
    const bool of_requests = name.starts_with("heddle_server_request_");
    CHECK(type == (of_requests ? "histogram" : name.ends_with("_total") ? "counter" : "gauge"));
    CHECK(page.find("| `" + name) != std::string::npos);
  }
  CHECK(families == 40);
}

TEST_CASE("metrics: a reader gets back what was written") {
  ServerSnapshot all = hand_made();
  all.stats.draining = true;
  all.stats.pushes = (std::uint64_t{1} << 53) - 1;
  all.stats.workers[1].job = "a \"job\" \\ of\nmany {lines}, x=1";
  const ServerSnapshot read = snapshot_from(metrics_text(all));
  CHECK(read.address == "10.0.0.1:9463");
  CHECK(read.number == 1);
  CHECK(read.servers == 2);
  CHECK(read.memory_limit == all.memory_limit);
  CHECK(read.stats.draining);
  CHECK(read.stats.uptime == 3723.5);
  REQUIRE(read.stats.workers.size() == 2);
  CHECK(std::any_of(read.stats.workers.begin(), read.stats.workers.end(), [&](const WorkerStats& one) {
    return one.job == all.stats.workers[1].job && one.rank == 1;
  }));
  CHECK(metrics_text(read) == metrics_text(all));
}

TEST_CASE("metrics: of very many workers the connected ones have series, the rest is counted") {
  ServerSnapshot all = hand_made();
  all.stats.workers.clear();
  const int count = static_cast<int>(kMostWorkers) + 10;
  for (int rank = 0; rank < count; ++rank) all.stats.workers.push_back(worker("j", rank, rank, rank >= 20));
  const ServerSnapshot read = snapshot_from(metrics_text(all));
  CHECK(read.workers_hidden == 10);
  REQUIRE(read.stats.workers.size() == kMostWorkers);
  const auto shown = [&read](int rank) {
    return std::any_of(read.stats.workers.begin(), read.stats.workers.end(),
                       [rank](const WorkerStats& one) { return one.rank == rank; });
  };
  CHECK(shown(count - 1));
  CHECK(shown(9));
  CHECK_FALSE(shown(10));
  CHECK(metrics_text(all).find(R"(heddle_server_workers{job_name="j",state="gone"} 20)") !=
        std::string::npos);
}

TEST_CASE("metrics: a reader skips what it does not know and refuses what is no metrics") {
  CHECK(bad_metrics("heddle_server_request_wait_seconds_bucket{request=\"pull\",le=\"7\"} 1\n") == "");
  CHECK(bad_metrics("other 1\nheddle_server_new{x=\"y\", z=\"\"} 1e3 1700000000\n\n# EOF\n") == "");
  CHECK_THROWS_AS(snapshot_from(""), std::runtime_error);
  CHECK_THROWS_AS(snapshot_from("heddle_server_keys 1\n"), std::runtime_error);
  for (const char* text : {"<html>",
                           "a{",
                           "a{b",
                           "a{b=",
                           "a{b=\"",
                           "a{b=\"c",
                           "a{b=\"\\",
                           "a{b=\"c\"",
                           "a{b=\"c\"} ",
                           "a",
                           "a ",
                           "a x",
                           "a{b=\"c\"x=\"d\"}",
                           "heddle_server_keys -1",
                           "heddle_server_keys NaN",
                           "heddle_server_keys +Inf",
                           "heddle_server_uptime_seconds NaN",
                           "heddle_server_uptime_seconds -1",
                           "heddle_server_worker_silent_seconds{worker=\"1\"} +Inf",
                           "heddle_server_keys 1e30",
                           "heddle_server_request_wait_seconds_sum -1",
                           "heddle_server_request_wait_seconds_bucket{request=\"pull\"} 1",
                           "heddle_server_request_wait_seconds_bucket{le=\"x\"} 1",
                           "heddle_server_request_wait_seconds_bucket{le=\"1\"} -1",
                           "heddle_server_worker_clock 1",
                           "heddle_server_worker_clock{worker=\"x\"} 1",
                           "heddle_server_worker_clock{worker=\"1\"} 1e19",
                           "heddle_server_worker_clock{worker=\"99999999999\"} 1"}) {
    CAPTURE(text);
    CHECK(bad_metrics(text) != "");
  }
}

TEST_CASE("metrics: a reader takes what a faulty server sends or says that it does not") {
  const std::string good = metrics_text(hand_made());
  std::mt19937 random(1);
  int taken = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = good;
    for (unsigned change = random() % 4 + 1; change > 0; --change) {
      const std::size_t at = random() % text.size();
      constexpr std::string_view kOften = "{}\"\\\n ,=-+.0123456789eE#NaIf\0";
      text[at] = random() % 4 ? kOften[random() % kOften.size()] : static_cast<char>(random() % 256);
      if (random() % 8 == 0) text.erase(at, random() % 64);
      if (text.empty()) text = "\n";
    }
    try {
      const ServerSnapshot read = snapshot_from(text);
      CHECK(snapshot_from(metrics_text(read)).stats.workers.size() == read.stats.workers.size());
      CHECK_FALSE(status_text(read, nullptr).empty());
      ++taken;
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  CHECK(taken > kRounds / 30);
  CHECK(refused > kRounds / 30);
}

TEST_CASE("pages: metrics, health and life over HTTP") {
  std::atomic<bool> ready = true;
  Pages pages("127.0.0.1:0",
              {.metrics = [] { return metrics_text(hand_made()); }, .ready = [&] { return ready.load(); }});
  CHECK(pages.address() != "127.0.0.1:0");
  const HttpAnswer metrics = http_get(pages.address(), "/metrics", kTimeout);
  CHECK(metrics.status == 200);
  CHECK(metrics.text == metrics_text(hand_made()));
  CHECK(http_get("http://" + pages.address() + "/metrics", "/ignored", kTimeout).text == metrics.text);
  CHECK(http_get(pages.address(), "/healthz", kTimeout).status == 200);
  CHECK(http_get(pages.address(), "/healthz", kTimeout).text == "ok\n");
  ready = false;
  CHECK(http_get(pages.address(), "/healthz", kTimeout).status == 503);
  CHECK(http_get(pages.address(), "/healthz", kTimeout).text == "draining\n");
  CHECK(http_get(pages.address(), "/livez", kTimeout).status == 200);
  CHECK(http_get(pages.address(), "/", kTimeout).status == 404);
  CHECK(http_get(pages.address(), "/metrics/more", kTimeout).status == 404);
}

TEST_CASE("pages: whatever is asked, and however, is answered or refused") {
  const Pages pages("127.0.0.1:0",
                    {.metrics = [] { return metrics_text(hand_made()); }, .ready = [] { return true; }});
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "PROPPATCH",
                                   "MKCOL", "LOCK", "UNLOCK", "COPY", "MOVE", "REPORT", "TRACE", "SEARCH"}) {
    CAPTURE(method);
    const std::string line = std::string(method) + " /metrics HTTP/1.1\r\nHost: a\r\n";
    CHECK(answer_to(pages.address(), line + "Content-Length: 2\r\n\r\n{}").find("200 OK") ==
          std::string::npos);
    CHECK(answer_to(pages.address(), line + "\r\n").find("200 OK") == std::string::npos);
  }
  const std::string get = "GET /metrics HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& text :
       {std::string("\x16\x03\x01\x02\0\x01", 6), std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
        "GET /" + std::string(7000, '/') + " HTTP/1.1\r\n\r\n",
        get + "A: " + std::string(20'000, 'b') + "\r\n\r\n",
        get + "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: YQ==\r\n\r\n",
        std::string("GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"),
        std::string("GET /a?b HTTP/9.9\r\n\r\n"),
        get + "Authorization: Digest a=b\r\nRange: bytes=0-\r\nExpect: 100-continue\r\n\r\n"}) {
    CAPTURE(text);
    answer_to(pages.address(), text);
    CHECK(http_get(pages.address(), "/livez", kTimeout).status == 200);
  }
}

TEST_CASE("pages: who asks while they are being made is answered, or finds nobody") {
  const PageHandlers handlers{.metrics = [] { return std::string("m\n"); }, .ready = [] { return true; }};
  auto pages = std::make_unique<Pages>("127.0.0.1:0", handlers);
  const std::string address = pages->address();
  std::atomic<bool> stopping{false};
  std::atomic<int> wrong{0};
  std::thread asks([&] {
    while (!stopping) {
      const std::string answer = answer_to(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
      wrong += !answer.empty() && answer.find("200 OK") == std::string::npos;
    }
  });
  for (int i = 0; i < 20; ++i) {
    pages.reset();
    pages = std::make_unique<Pages>(address, handlers);
  }
  stopping = true;
  asks.join();
  CHECK(wrong == 0);
  CHECK(http_get(address, "/metrics", kTimeout).text == "m\n");
}

TEST_CASE("pages: a server that cannot answer is an error of that request") {
  Pages pages("127.0.0.1:0", {.metrics = []() -> std::string { throw std::runtime_error("gone"); },
                              .ready = []() -> bool { throw std::runtime_error("gone"); }});
  CHECK(http_get(pages.address(), "/metrics", kTimeout).status == 500);
  CHECK(http_get(pages.address(), "/healthz", kTimeout).text == "gone\n");
  CHECK(http_get(pages.address(), "/livez", kTimeout).status == 500);
}

// If such connections kept a liveness probe from its answer, a healthy server would be restarted.
TEST_CASE("pages: connections that are idle, or send half a request, keep nobody from an answer") {
  const Pages pages("127.0.0.1:0",
                    {.metrics = [] { return std::string("m\n"); }, .ready = [] { return true; }});
  std::vector<Descriptor> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(connected_to(pages.address()));
    REQUIRE(idle.back());
    const std::string half = "GET /livez HTTP/1.1\r\nX: a";
    if (i % 2 == 0) CHECK(::send(idle.back().fd(), half.data(), half.size(), MSG_NOSIGNAL) > 0);
    if (i % 20 == 0) CHECK(http_get(pages.address(), "/livez", kTimeout).status == 200);
  }
  for (const char* const page : {"/livez", "/readyz", "/metrics"})
    CHECK(http_get(pages.address(), page, kTimeout).status == 200);
  // The pages have closed the oldest connections in favour of newer ones.
  char byte = 0;
  CHECK(::recv(idle.front().fd(), &byte, 1, 0) <= 0);
}

TEST_CASE("pages: a request may come in pieces, and the answer be read slowly") {
  const std::string text(4'000'000, 'm');
  const Pages pages("127.0.0.1:0", {.metrics = [&] { return text; }, .ready = [] { return true; }});
  const Descriptor slow = connected_to(pages.address());
  for (const char one : std::string("GET /metrics?a=b HTTP/1.1\r\nHost: a\r\n\r\n"))
    CHECK(::send(slow.fd(), &one, 1, MSG_NOSIGNAL) == 1);
  CHECK(http_get(pages.address(), "/livez", kTimeout).status == 200);
  std::string answer;
  char part[10'000];
  for (ssize_t count; (count = ::recv(slow.fd(), part, sizeof part, 0)) > 0;)
    answer.append(part, static_cast<std::size_t>(count));
  CHECK(answer.ends_with("\r\n\r\n" + text));
}

TEST_CASE("pages: without descriptors for anything else the probes are answered") {
  const Pages pages("127.0.0.1:0",
                    {.metrics = [] { return std::string("m\n"); }, .ready = [] { return true; }});
  // The pages accept this connection before they answer the next one.
  const Descriptor client = connected_to(pages.address());
  CHECK(http_get(pages.address(), "/livez", kTimeout).status == 200);
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<Descriptor> all;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256), .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all.emplace_back(fd);
  const std::string answer = answer_on(probe, pages.address(), "GET /livez HTTP/1.1\r\n\r\n");
  all.clear();
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(answer.find("200 OK") != std::string::npos);
}

TEST_CASE("pages: they are served at IPv6 addresses and at all of the host, too") {
  const PageHandlers handlers{.metrics = [] { return std::string("m\n"); }, .ready = [] { return true; }};
  const Pages everywhere("0.0.0.0:0", handlers);
  const std::string port = everywhere.address().substr(everywhere.address().rfind(':'));
  CHECK(http_get("127.0.0.1" + port, "/livez", kTimeout).status == 200);
  std::unique_ptr<Pages> six;
  try {
    six = std::make_unique<Pages>("[::1]:0", handlers);
  } catch (const std::runtime_error& error) {  // the pages cannot listen if this host has no IPv6
    CHECK(std::string(error.what()).find("ddress") != std::string::npos);
    return;
  }
  CHECK(six->address().starts_with("[::1]:"));
  CHECK(http_get(six->address(), "/livez", kTimeout).status == 200);
}

TEST_CASE("pages: an address that is in use is named") {
  const PageHandlers handlers{.metrics = [] { return std::string(); }, .ready = [] { return true; }};
  const Pages first("127.0.0.1:0", handlers);
  const std::string wanted = "cannot serve metrics at " + first.address();
  try {
    const Pages second(first.address(), handlers);
    FAIL("two servers listen at one address");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).starts_with(wanted));
  }
}

TEST_CASE("http client: nobody there, other protocols, too much") {
  std::string address;
  {
    const Pages pages("127.0.0.1:0", {.metrics = [] { return std::string((16u << 20) + 1, 'x'); },
                                      .ready = [] { return true; }});
    address = pages.address();
    CHECK_THROWS_AS(http_get(address, "/metrics", kTimeout), std::runtime_error);
  }
  CHECK_THROWS_AS(http_get(address, "/metrics", kTimeout), std::runtime_error);
  CHECK_THROWS_AS(http_get("file:///etc/hostname", "", kTimeout), std::runtime_error);
}
