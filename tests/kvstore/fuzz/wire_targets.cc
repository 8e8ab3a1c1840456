// Fuzz targets: the heads of messages, optimizer state, and the texts that configure a store.
#include <algorithm>

#include <heddle/engine.h>
#include <heddle/error.h>

#include "fuzz/fuzz_target.h"
#include "stores/update_rule.h"
#include "transport/address.h"
#include "wire/administration.h"
#include "wire/job_settings.h"
#include "wire/messages.h"
#include "wire/state_blob.h"

namespace heddle::fuzz {
namespace {

using namespace kv_detail;
using namespace heddle::net_detail;

// --- heads of messages: an input is the payload's length, 4 bytes, and the head

Bytes encode_any(const FromWorker& message) {
  return std::visit([](const auto& one) { return encode(one); }, message);
}
Bytes encode_any(const FromServer& message) {
  return std::visit([](const auto& one) { return encode(one); }, message);
}

template <class Decode> bool run_head(Input input, Decode&& decode_head) {
  Source source(input);
  const std::size_t payload = source.get<std::uint32_t>();
  try {
    const auto message = decode_head(source.rest(), payload);
    const Bytes again = encode_any(message);
    want(encode_any(decode_head(Input(again), payload)) == again, "a message that changes");
    // A message of a later version may have more fields at its end, which this version does not encode.
    want(
        again.size() <= source.rest().size() && std::equal(again.begin(), again.end(), source.rest().begin()),
        "a message that is not what came");
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

bool run_from_worker(Input input) { return run_head(input, decode_from_worker); }
bool run_from_server(Input input) { return run_head(input, decode_from_server); }

Bytes with_payload(std::uint32_t payload, const Bytes& head) {
  Bytes all;
  append_value(all, payload);
  append(all, head);
  return all;
}

std::vector<Bytes> from_worker_seeds() {
  std::vector<Bytes> all = {
      with_payload(
          0, encode(Hello{.job = "job", .consistency = "ssp:3", .rank = 1, .workers = 2, .incarnation = 7})),
      with_payload(0, encode(Hello{.newest = kProtocol + 1, .job = "job", .consistency = "sync"}))};
  for (int kind = static_cast<int>(Kind::init); kind <= static_cast<int>(Kind::leave); ++kind)
    all.push_back(with_payload(8, encode(Request{.kind = static_cast<Kind>(kind),
                                                 .has_value = true,
                                                 .key = 3,
                                                 .number = 9,
                                                 .clock = 4,
                                                 .offset = 8,
                                                 .bytes = 16,
                                                 .text = "weight"})));
  all.push_back(with_payload(0, encode(Request{.kind = Kind::resume, .settings = 4, .collectives = 9})));
  return all;
}

std::vector<Bytes> from_server_seeds() {
  Reply failed{.kind = Kind::failed, .number = 5, .clock = 1};
  failed.text = "why";
  return {with_payload(0, encode(Welcome{.incarnation = 7})),
          with_payload(0, encode(Reply{.kind = Kind::done, .key = 1, .number = 5})),
          with_payload(8, encode(Reply{.kind = Kind::value, .number = 5, .offset = 8, .bytes = 16})),
          with_payload(0, encode(failed))};
}

// --- administration of a server

bool run_administration(Input input) {
  const auto run = [&](auto&& decode_one) {
    try {
      const auto message = decode_one(input);
      const Bytes again = encode(message);
      want(encode(decode_one(Input(again))) == again, "a message that changes");
      want(again.size() <= input.size() && std::equal(again.begin(), again.end(), input.begin()),
           "a message that is not what came");
      want(is_admin_message(input), "a message that is not recognised");
      return true;
    } catch (const MalformedMessage&) {
      return false;
    }
  };
  return run(decode_admin_request) | run(decode_admin_answer);
}

std::vector<Bytes> administration_seeds() {
  return {encode(AdminRequest{}),
          encode(AdminRequest{.newest = kProtocol + 1, .what = AdminRequest::What::drain}),
          encode(AdminAnswer{}), encode(AdminAnswer{.outcome = AdminAnswer::Outcome::part, .text = "text"})};
}

// --- texts: update rule, consistency, address

bool run_rule(const std::string& text) {
  try {
    const UpdateRule rule = parse_update_rule(text);
    if (rule.kind == UpdateRule::Kind::replace) return false;
    const std::string again =
        update_rule_text(rule.name, rule.kind == UpdateRule::Kind::add ? OptimizerParams{} : rule.params);
    const UpdateRule same = parse_update_rule(again);
    want(same.kind == rule.kind && same.name == rule.name, "a rule that changes");
    want(rule.kind == UpdateRule::Kind::add || same.params == rule.params, "a rule's numbers that change");
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

bool run_address(const std::string& text) {
  try {
    const Address address = parse_address(text);
    // Not compared: of a host in two pairs of brackets text() restores only one pair.
    if (address.host.starts_with('[')) return true;
    const Address again = parse_address(address.text());
    want(again.host == address.host && again.port == address.port, "an address that changes");
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

bool run_terms(const std::string& text) {
  try {
    const JobSettings terms = parse_job_settings(text);
    want(parse_job_settings(with_placement(text, terms.placement)).placement == terms.placement,
         "a placement that changes");
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

bool run_text(Input input) {
  const std::string text = text_from(input);
  const bool rule = run_rule(text), address = run_address(text), consistency = run_terms(text);
  return rule || address || consistency;
}

std::vector<Bytes> text_seeds() {
  std::vector<Bytes> all;
  for (const char* text : {"add", "sgd lr=0.1 momentum=0.9 nesterov=1 weight_decay=5e-4",
                           "adam beta1=0.9 beta2=0.999 epsilon=1e-8 lr=1", "adamw lr=0.001 weight_decay=0.01",
                           "sync", "ssp:3", "[::1]:9463", "host:1"})
    all.push_back(bytes_from(text));
  return all;
}

// --- the state of an optimizer

bool run_state(Input input) {
  static Engine engine{{.scheduler = Scheduler::naive}};
  const EngineScope scope(engine);
  try {
    const Bytes again = encode_state(decode_state(input));
    want(again.size() == input.size(), "a state whose length changes");
    want(encode_state(decode_state(again)) == again, "a state that changes");
    return true;
  } catch (const MalformedMessage&) {
    return false;
  }
}

std::vector<Bytes> state_seeds() {
  static Engine engine{{.scheduler = Scheduler::naive}};
  const EngineScope scope(engine);
  return {encode_state({}), encode_state({{"velocity", NDArray({4})}}),
          encode_state({{"mean", NDArray({3}, DType::f64)},
                        {"variance", NDArray({3}, DType::f64)},
                        {"updates", NDArray({1}, DType::i64)}})};
}

}  // namespace

const Target kFromWorker{"from_worker", run_from_worker, from_worker_seeds, 1};
const Target kFromServer{"from_server", run_from_server, from_server_seeds, 1};
const Target kAdministration{"administration", run_administration, administration_seeds, 1};
const Target kTexts{"text", run_text, text_seeds, 1};
const Target kState{"state", run_state, state_seeds, 4};

}  // namespace heddle::fuzz
