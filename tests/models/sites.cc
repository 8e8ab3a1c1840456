#include "sites.h"

#include <cstring>
#include <map>
#include <string_view>
#include <tuple>

namespace model {

bool sites_matter = false;

namespace {

// A recorded site as plain data, kept in a static array: sites are recorded during a schedule, and Relacy
// tracks all allocations of a schedule.
struct Raw {
  const char* file;
  const char* function;
  unsigned line, column;
  Kind kind;
  rl::memory_order order;
};
constexpr std::size_t kMostSites = 512;
Raw collected[kMostSites];
std::size_t collected_count = 0;
bool collecting = false;
Raw weak{};
bool weakening = false;

bool same(const Raw& site, Kind kind, const std::source_location& at) {
  return site.line == at.line() && site.column == at.column() && site.kind == kind &&
         std::strcmp(site.file, at.file_name()) == 0;
}

void collect(rl::memory_order order, Kind kind, const std::source_location& at) {
  for (std::size_t i = 0; i < collected_count; ++i) {
    if (same(collected[i], kind, at)) return;
  }
  if (collected_count == kMostSites) return;
  collected[collected_count++] = {at.file_name(), at.function_name(), at.line(), at.column(), kind, order};
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"load", "store", "exchange", "fetch_add", "fetch_sub", "compare_exchange",
                                    "fence"};
  return kNames[static_cast<int>(kind)];
}

// The short name of a function: "bool heddle::detail::WorkerSlots::take(heddle::detail::WorkerSlot*)" becomes
// "WorkerSlots::take".
std::string short_name(std::string_view function) {
  function = function.substr(0, function.find('('));
  function = function.substr(function.rfind(' ') + 1);
  while (!function.empty() && (function[0] == '*' || function[0] == '&')) function.remove_prefix(1);
  for (std::string_view scope : {"heddle::", "detail::", "{anonymous}::"}) {
    if (function.starts_with(scope)) function.remove_prefix(scope.size());
  }
  return std::string(function);
}

std::string file_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

}  // namespace

std::string Site::name() const { return function + " " + name_of(kind); }

std::vector<rl::memory_order> weaker(rl::memory_order order, Kind kind) {
  using namespace rl;
  const bool loads = kind != Kind::store, stores = kind != Kind::load;
  std::vector<memory_order> orders;
  if (order == mo_seq_cst && loads && stores) orders.push_back(mo_acq_rel);
  if ((order == mo_seq_cst || order == mo_acq_rel) && loads) orders.push_back(mo_acquire);
  if ((order == mo_seq_cst || order == mo_acq_rel) && stores) orders.push_back(mo_release);
  if (order != mo_relaxed) orders.push_back(mo_relaxed);
  return orders;
}

rl::memory_order order_at(rl::memory_order order, Kind kind, const std::source_location& at) {
  if (collecting) collect(order, kind, at);
  return weakening && same(weak, kind, at) ? weak.order : order;
}

Collector::Collector() {
  collected_count = 0;
  collecting = sites_matter = true;
}
Collector::~Collector() { collecting = sites_matter = false; }

std::vector<Site> Collector::sites() const {
  std::map<std::tuple<std::string, unsigned, unsigned>, Site> sorted;
  for (std::size_t i = 0; i < collected_count; ++i) {
    const Raw& raw = collected[i];
    if (std::string_view(raw.file).find("/product/") == std::string_view::npos) continue;
    Site site{raw.file, short_name(raw.function), raw.line, raw.column, raw.kind, raw.order};
    sorted.emplace(std::tuple(file_name(raw.file), raw.line, raw.column), std::move(site));
  }
  std::vector<Site> sites;
  for (auto& [place, site] : sorted) sites.push_back(std::move(site));
  return sites;
}

Weakening::Weakening(const Site& site, rl::memory_order to) {
  static std::string file;
  file = site.file;
  weak = {file.c_str(), "", site.line, site.column, site.kind, to};
  weakening = sites_matter = true;
}
Weakening::~Weakening() { weakening = sites_matter = false; }

}  // namespace model
