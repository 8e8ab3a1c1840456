#include "plan_report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <heddle/error.h>
#include <heddle/key.h>
#include <heddle/optimizer.h>

#include "server/reports/report.h"
#include "simulate/units.h"

namespace heddle::tool {
namespace {

using kv_detail::KeyPart;
using kv_detail::KeySize;
using nlohmann::json;

constexpr std::uint64_t kMostOfHeader = 100'000'000;  // the safetensors format's limit of a header's bytes
constexpr const char* kMetadata = "__metadata__";

struct Load {
  std::uint64_t keys = 0, bytes = 0;
};

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + " is no safetensors file: " + what);
}

std::string header_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  unsigned char digits[8];
  if (!file.read(reinterpret_cast<char*>(digits), sizeof digits)) bad(path, "it has less than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t at = sizeof digits; at-- > 0;) length = length << 8 | digits[at];
  if (length > kMostOfHeader) bad(path, "a header of " + std::to_string(length) + " bytes");
  std::string text;
  char part[65'536];
  // Reads in pieces, so that a wrong length cannot allocate more memory than the file has bytes.
  while (text.size() < length) {
    file.read(part, static_cast<std::streamsize>(std::min<std::uint64_t>(sizeof part, length - text.size())));
    if (file.gcount() == 0) bad(path, "it ends inside its header");
    text.append(part, static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

std::uint64_t size_of(const std::string& path, const std::string& name, const json& entry) {
  const auto found = entry.is_object() ? entry.find("data_offsets") : entry.end();
  const bool good = entry.is_object() && found != entry.end() && found->is_array() && found->size() == 2 &&
                    (*found)[0].is_number_unsigned() && (*found)[1].is_number_unsigned();
  if (!good) bad(path, name + " has no data_offsets");
  const auto begin = (*found)[0].get<std::uint64_t>(), end = (*found)[1].get<std::uint64_t>();
  if (begin > end) bad(path, name + " ends before it begins");
  return end - begin;
}

// The bytes of a row of an array, as a store computes them; 0 if the array has no rows.
std::uint64_t row_bytes_of(const json& entry, std::uint64_t size) {
  const auto found = entry.find("shape");
  const bool has_rows = found != entry.end() && found->is_array() && !found->empty() &&
                        (*found)[0].is_number_unsigned() && (*found)[0].get<std::uint64_t>() > 0;
  return has_rows ? size / (*found)[0].get<std::uint64_t>() : 0;
}

std::size_t state_slots(const std::string& optimizer) {
  if (optimizer == "momentum") return 1;
  const std::vector<OptimizerInfo> all = optimizers();
  const auto info =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == optimizer; });
  if (info != all.end() && !info->needs_whole) return info->state.size();
  std::string names;
  for (const std::string& name : optimizers_of_servers()) names += (names.empty() ? "" : ", ") + name;
  throw std::runtime_error("optimizer '" + optimizer + "': want one of " + names);
}

std::string bytes(std::uint64_t value) { return bytes_to_text(static_cast<double>(value)); }

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(std::max(width, text.size() + 2) - text.size(), ' ');
}

std::string parts_text(const std::vector<KeyPart>& parts) {
  std::size_t width = 5;
  for (const KeyPart& part : parts) width = std::max(width, part.key.size() + 2);
  std::string text = padded("KEY", width) + "OFFSET        SIZE          SERVER\n";
  for (const KeyPart& part : parts) {
    text += padded(printable(part.key), width) + padded(std::to_string(part.offset), 14) +
            padded(bytes(part.bytes), 14) + std::to_string(part.server) + "\n";
  }
  return text;
}

std::vector<Load> loads_of(const std::vector<KeyPart>& parts, int servers) {
  std::vector<Load> result(static_cast<std::size_t>(servers));
  for (const KeyPart& part : parts) {
    Load& load = result[static_cast<std::size_t>(part.server)];
    ++load.keys;
    load.bytes += part.bytes;
  }
  return result;
}

std::string load_text(const std::vector<Load>& loads, std::uint64_t slots, const ServerPlan& plan) {
  const auto workers = static_cast<std::uint64_t>(plan.workers);
  std::string text = "SERVER  PARTS   VALUES        STATE         RECEIVES      SENDS\n";
  for (std::size_t server = 0; server < loads.size(); ++server) {
    const Load& load = loads[server];
    const std::string traffic = bytes(load.bytes * workers);
    text += padded(std::to_string(server), 8) + padded(std::to_string(load.keys), 8) +
            padded(bytes(load.bytes), 14) + padded(bytes(load.bytes * slots), 14) + padded(traffic, 14) +
            traffic + "\n";
  }
  return text;
}

std::string balance_text(const std::vector<Load>& loads, std::uint64_t total) {
  std::uint64_t most = 0;
  for (const Load& one : loads) most = std::max(most, one.bytes);
  if (total == 0) return "";
  char text[120];
  std::snprintf(text, sizeof text, "The fullest server holds %.2f times the mean.\n",
                static_cast<double>(most) * static_cast<double>(loads.size()) / static_cast<double>(total));
  return text;
}

}  // namespace

std::vector<KeySize> safetensors_keys(const std::string& path) {
  const json header = json::parse(header_of(path), nullptr, false);
  if (!header.is_object()) bad(path, "its header is no JSON object");
  std::vector<KeySize> keys;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    const std::uint64_t size = size_of(path, name, entry);
    keys.push_back({name, size, row_bytes_of(entry, size)});
  }
  return keys;
}

std::string plan_text(const ServerPlan& plan) {
  const auto slots = static_cast<std::uint64_t>(state_slots(plan.optimizer));
  const std::vector<KeyPart> parts =
      kv_detail::place_keys(plan.keys, plan.servers, kv_detail::placement_from(plan.placement));
  const std::vector<Load> loads = loads_of(parts, plan.servers);
  std::uint64_t total = 0;
  for (const Load& one : loads) total += one.bytes;
  return plan.file + ": " + std::to_string(plan.keys.size()) + " keys, " + bytes(total) + "; " +
         std::to_string(plan.servers) + " servers, placement " + plan.placement + "\n\n" + parts_text(parts) +
         "\nEach server holds values and the state of " + plan.optimizer +
         ". In a step it receives what all workers push and sends what they pull; workers: " +
         std::to_string(plan.workers) + ".\n\n" + load_text(loads, slots, plan) + "\n" +
         balance_text(loads, total);
}

std::string placement_lines(const ServerPlan& plan) {
  std::string lines;
  auto key = plan.keys.begin();
  for (const KeyPart& part :
       kv_detail::place_keys(plan.keys, plan.servers, kv_detail::placement_from(plan.placement))) {
    while (key->key != part.key) ++key;
    if (part.bytes == key->bytes) lines += Key(part.key).text() + "=" + std::to_string(part.server) + "\n";
  }
  return lines;
}

std::string problem_with_placement(const std::string& text) {
  try {
    kv_detail::placement_from(text);
  } catch (const InvalidArgument& error) {
    return error.message();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> optimizers_of_servers() {
  std::vector<std::string> names;
  for (const OptimizerInfo& info : optimizers()) {
    if (info.needs_whole) continue;
    names.push_back(info.name);
    if (info.name == "sgd") names.push_back("momentum");
  }
  return names;
}

}  // namespace heddle::tool
