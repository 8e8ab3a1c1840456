#include "stores/agreement.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <heddle/call_tag.h>

#include "transport/fnv1a.h"

namespace heddle {
namespace {

// Size of the texts that ranks exchange: kHas and the rank's setting, or kRefuses and its error.
constexpr std::int64_t kTextBytes = 1024;

std::string text_of(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  return {digits, end};
}

bool follows(Key before, Key key, std::int64_t step) {
  std::int64_t next = 0;
  return before.is_number() && key.is_number() && !__builtin_add_overflow(before.number(), step, &next) &&
         next == key.number();
}

// Text of a key in a list of keys. A key that is a name is quoted, since the name may have commas.
std::string quoted(Key key) { return key.is_number() ? key.text() : "'" + key.text() + "'"; }

// The keys as text. Consecutive numbers, rising or falling, are a range: "7..0".
std::string text_of_keys(const std::vector<PushedKey>& pushes) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < pushes.size(); begin = end) {
    end = begin + 1;
    const Key first = pushes[begin].key;
    const auto follow = [&](std::int64_t step) {
      std::size_t at = begin + 1;
      while (at < pushes.size() && follows(pushes[at - 1].key, pushes[at].key, step)) ++at;
      return at;
    };
    end = std::max({end, follow(1), follow(-1)});
    text += (begin ? ", " : "") + quoted(first);
    if (end - begin > 1) text += (end - begin > 2 ? ".." : ", ") + quoted(pushes[end - 1].key);
  }
  return text;
}

// Text of an option: one value if all pushes have the same one, else the value of each.
template <class Of> std::string text_of_all(const std::vector<PushedKey>& pushes, const char* name, Of&& of) {
  const std::optional<double> first = of(pushes.front());
  const bool one =
      std::all_of(pushes.begin(), pushes.end(), [&](const auto& push) { return of(push) == first; });
  if (one && !first) return "";
  std::string text = std::string(", ") + name;
  for (const PushedKey& push : std::span(pushes).first(one ? 1 : pushes.size())) {
    const std::optional<double> value = of(push);
    text += " " + (value ? text_of(*value) : "-");
  }
  return text;
}

NDArray bytes_of(std::string text) {
  text.resize(kTextBytes);
  return array(std::vector<std::uint8_t>(text.begin(), text.end()), {kTextBytes});
}

std::vector<std::string> exchange(Communicator& ranks, const std::string& call, const std::string& own_text) {
  const EngineScope scope(ranks.engine());
  const CallTag tag(ranks, call);
  const NDArray all({ranks.size() * kTextBytes}, DType::u8);
  ranks.all_gather(bytes_of(own_text), all);
  const std::vector<std::uint8_t> bytes = all.to_vector<std::uint8_t>();
  std::vector<std::string> texts;
  for (auto begin = bytes.begin(); begin != bytes.end(); begin += kTextBytes)
    texts.emplace_back(begin, std::find(begin, begin + kTextBytes, 0));
  return texts;
}

// The ranks that have this text: "rank 1", "ranks 0, 2".
std::string ranks_with(const std::vector<std::string>& texts, const std::string& text) {
  std::string ranks;
  int count = 0;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] == text) ranks += (count++ ? ", " : "") + std::to_string(rank);
  }
  return (count > 1 ? "ranks " : "rank ") + ranks;
}

constexpr char kHas = '+', kRefuses = '-';

// Cuts a long text and appends a digest of all of it, so that long texts that begin alike differ.
std::string shortened(const std::string& text) {
  if (text.size() <= static_cast<std::size_t>(kTextBytes)) return text;
  char digits[16];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), digest_of(text), 16);
  const std::string rest = " ... (" + std::string(digits, end) + ")";
  return text.substr(0, static_cast<std::size_t>(kTextBytes) - rest.size()) + rest;
}

}  // namespace

std::uint64_t digest_of(const std::string& text) {
  const std::uint64_t hash = net_detail::fnv1a(text);
  return hash == 0 ? 1 : hash;
}

std::string describe(const std::string& optimizer, const OptimizerParams& params) {
  std::string text = optimizer;
  for (const auto& [name, value] : params) text += ", " + name + " " + text_of(value);
  return text;
}

std::string describe(const std::vector<PushedKey>& pushes) {
  if (pushes.empty()) return "push";
  const std::string rates = text_of_all(pushes, "lr", [](const PushedKey& push) { return push.options.lr; });
  const std::string scales = text_of_all(pushes, "scale", [](const PushedKey& push) {
    const double scale = push.options.grad_scale;
    return scale == 1 ? std::optional<double>() : scale;
  });
  const std::string decays = text_of_all(pushes, "decay scale", [](const PushedKey& push) {
    const double scale = push.options.decay_scale;
    return scale == 1 ? std::optional<double>() : scale;
  });
  return (pushes.size() > 1 ? "push of keys " : "push of key ") + text_of_keys(pushes) + rates + scales +
         decays;
}

void agree(Communicator& ranks, const std::string& call, const std::string& subject,
           const std::function<std::string()>& own_text) {
  std::exception_ptr refusal;
  std::string text;
  try {
    text = kHas + own_text();
  } catch (const InvalidArgument& error) {
    refusal = std::current_exception();
    text = kRefuses + error.message();
  } catch (const std::exception& error) {
    refusal = std::current_exception();
    text = kRefuses + std::string(error.what());
  } catch (...) {
    refusal = std::current_exception();
    text = std::string(1, kRefuses) + "an exception that is no std::exception";
  }
  text = shortened(text);
  const std::vector<std::string> texts = exchange(ranks, call, text);
  if (refusal) std::rethrow_exception(refusal);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].starts_with(kRefuses)) continue;
    throw InvalidArgument(call + ": rank " + std::to_string(rank) + " refused it: " + texts[rank].substr(1));
  }
  if (std::all_of(texts.begin(), texts.end(), [&](const auto& other) { return other == text; })) return;
  std::string values;
  std::set<std::string> named;
  for (const std::string& other : texts) {
    if (!named.insert(other).second) continue;
    values += (values.empty() ? "" : "; ") + other.substr(1) + " on " + ranks_with(texts, other);
  }
  throw InvalidArgument(call + ": the ranks' " + subject + " differs: " + values);
}

}  // namespace heddle
