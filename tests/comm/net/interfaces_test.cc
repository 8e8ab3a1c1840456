#include "connection/interfaces.h"

#include <algorithm>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>

using namespace heddle;
using namespace heddle::net_detail;

namespace {

const Interface kLo{"lo", "127.0.0.1", true, true, false};
const Interface kDocker{"docker0", "172.17.0.1", false, true, false};
const Interface kSix{"eth0", "2001:db8::1", false, true, true};
const Interface kEth{"eth0", "10.0.0.5", false, true, true};
const Interface kInfiniBand{"ib0", "10.9.0.5", false, true, false};
const Interface kDown{"eth1", "10.1.0.5", false, false, true};

std::string complaint(auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("this host has a loopback interface that is up") {
  const auto all = interfaces();
  CHECK(std::any_of(all.begin(), all.end(), [](const Interface& one) {
    return one.is_loopback && one.is_up && is_loopback_address(one.address);
  }));
}

TEST_CASE("ranks on one host meet on loopback, those on several where the default route leads") {
  const std::vector<Interface> all{kLo, kDown, kDocker, kInfiniBand, kSix, kEth};
  CHECK(choose_address("", true, all) == "127.0.0.1");
  CHECK(choose_address("", false, all) == "10.0.0.5");
}

TEST_CASE("virtual interfaces, link-local and IPv6 addresses are taken if there is nothing better") {
  const Interface link_local{"eth0", "169.254.3.4", false, true, true};
  CHECK(choose_address("", false, {kLo, kDocker, kInfiniBand}) == "10.9.0.5");
  CHECK(choose_address("", false, {kLo, kDocker, kSix}) == "2001:db8::1");
  CHECK(choose_address("", false, {kLo, link_local, kDocker}) == "172.17.0.1");
  CHECK(choose_address("", false, {kLo, link_local}) == "169.254.3.4");
}

TEST_CASE("an interface is wanted by its name or its address") {
  const std::vector<Interface> all{kLo, kDown, kInfiniBand, kSix, kEth};
  CHECK(choose_address("ib0", false, all) == "10.9.0.5");
  CHECK(choose_address("ib0", true, all) == "10.9.0.5");
  CHECK(choose_address("eth0", false, all) == "10.0.0.5");
  CHECK(choose_address("2001:db8::1", false, all) == "2001:db8::1");
  CHECK(choose_address("lo", false, all) == "127.0.0.1");
}

TEST_CASE("a name that does not exist or is down is refused, naming what there is") {
  const std::string text = complaint([] { choose_address("eth1", false, {kLo, kDown, kEth}); });
  CHECK(holds(text, "'eth1'"));
  CHECK(holds(text, "eth1 (10.1.0.5, down)"));
  CHECK(holds(text, "eth0 (10.0.0.5)"));
  CHECK_THROWS_AS(choose_address("gone", true, {kLo, kEth}), InvalidArgument);
  CHECK_THROWS_AS(choose_address("", false, {kLo, kDown}), CommError);
}

TEST_CASE("loopback addresses are told from others") {
  for (const char* yes : {"127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"})
    CHECK(is_loopback_address(yes));
  for (const char* no :
       {"10.0.0.1", "128.0.0.1", "::2", "0.0.0.0", "::", "::ffff:10.0.0.1", "localhost", ""}) {
    CHECK_FALSE(is_loopback_address(no));
  }
}

TEST_CASE("ports are given as a range or as one") {
  CHECK(parse_port_range("20000-20010").count() == 11);
  CHECK(parse_port_range("65535").first == 65535);
  CHECK(parse_port_range("65535").last == 65535);
  for (const char* bad : {"", "-", "0", "5-4", "1-65536", "1-", "-5", "1-2-3", "1 - 2", "a", "99999999999"}) {
    CHECK(holds(complaint([&] { parse_port_range(bad); }), "HEDDLE_COMM_PORTS"));
  }
}
