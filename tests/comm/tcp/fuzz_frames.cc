// Fuzzes all code of comm/ that parses foreign bytes.
//
//     fuzz_frames [--inputs=N] [--seed=S] [--only=TARGET] [--every=1]
//
// Inputs are valid ones with changes. Where a seal protects the input, it is tried unsealed, and sealed again
// so that the code behind the check is reached. libFuzzer (tools/fuzz) calls LLVMFuzzerTestOneInput: the
// first byte is the target. main() works without it.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/comm_error.h>
#include <heddle/cost_model.h>
#include <heddle/default_engine.h>
#include <heddle/launch_environment.h>

#include "bootstrap/host_id.h"
#include "bootstrap/rendezvous_wire.h"
#include "bootstrap/survivors.h"
#include "communicator/pair_rendezvous.h"
#include "core/backend_table.h"
#include "socketless_connection.h"
#include "tcp/message.h"
#include "tcp/neighbours.h"

using namespace heddle;
using namespace heddle::comm_detail;

namespace {

constexpr Key kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};
long long accepted = 0;  // number of inputs, or parts of inputs, that the code accepted
std::string current;     // the input that runs, to be seen in a debugger and in messages

void want(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz_frames: %s, of:\n", what);
  for (const char byte : current)
    std::fprintf(stderr, std::isprint(static_cast<unsigned char>(byte)) ? "%c" : "\\x%02x",
                 static_cast<unsigned char>(byte));
  std::fprintf(stderr, "\n");
  std::abort();
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// --- control frames

std::uint64_t seal_of_frame(const std::string& bytes, std::size_t used) {
  const std::string sealed =
      bytes.substr(0, kFrameHeader - 8) + bytes.substr(kFrameHeader, used - kFrameHeader);
  return seal_of(kKey, bytes_of(sealed));
}

void decode_frame(const std::string& bytes) {
  const Decoded decoded = decode(bytes_of(bytes), kKey);
  if (decoded.outcome != Decoded::Outcome::frame) return;
  ++accepted;
  want(decoded.used >= kFrameHeader && decoded.used <= std::min(bytes.size(), kMaxFrame), "a frame's size");
  std::uint64_t seal = 0;
  std::memcpy(&seal, bytes.data() + kFrameHeader - 8, 8);
  want(seal == seal_of_frame(bytes, decoded.used), "a frame that nobody with the key has written");
  const std::string again = encode(decoded.frame, kKey);
  const Decoded same = decode(bytes_of(again), kKey);
  want(same.outcome == Decoded::Outcome::frame && encode(same.frame, kKey) == again, "a frame that changes");
  (void)printable(decoded.frame.failure.text);
}

void control(const std::string& input) {
  decode_frame(input);
  if (input.size() < kFrameHeader) return;
  std::string sealed = input;
  std::uint32_t text = 0;
  std::memcpy(&text, input.data() + 20 + 0, 4);
  // Corrects the announced length of the text in half of the inputs, too.
  const auto there = static_cast<std::uint32_t>(input.size() - kFrameHeader);
  if (text > there && there % 2) std::memcpy(sealed.data() + 20, &there, 4);
  std::memcpy(&text, sealed.data() + 20, 4);
  const std::uint64_t seal = seal_of_frame(sealed, kFrameHeader + std::min(text, there));
  std::memcpy(sealed.data() + kFrameHeader - 8, &seal, 8);
  decode_frame(sealed);
}

// --- messages

class Bytes final : public test::SocketlessConnection {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  Step send(std::span<const std::byte>, std::span<const std::byte>) override { return {}; }
  Step receive(std::span<std::byte> head, std::span<std::byte> body) override {
    const std::size_t bytes = std::min(bytes_.size() - at_, head.size() + body.size());
    if (bytes == 0) return {Step::Outcome::closed};
    const std::size_t first = std::min(bytes, head.size());
    if (first) std::memcpy(head.data(), bytes_.data() + at_, first);
    if (bytes > first) std::memcpy(body.data(), bytes_.data() + at_ + first, bytes - first);
    at_ += bytes;
    return {Step::Outcome::moved, bytes};
  }

 private:
  const std::string bytes_;
  std::size_t at_ = 0;
};

constexpr std::size_t kWanted = 400;

void read_message(const std::string& bytes) {
  static std::vector<std::byte> pieces(IncomingMessage::kPieces);
  // Allocated anew for each input, so that sanitizers find writes beyond its end.
  std::vector<std::byte> in(kWanted);
  IncomingMessage message({.from = 0, .in = in, .combine = combine_of(ReduceOp::sum, DType::i32)}, 4, pieces);
  Bytes connection(bytes);
  while (!message.done()) {
    const bool known = message.header_complete();
    if (message.step(connection) != Step::Outcome::moved) return;
    if (!message.header_complete()) continue;
    const MessageHeader& header = message.header();
    // Makes the checks that TcpTransport makes before it reads the payload.
    if (!known && (!genuine(header, kKey) || header.bytes != kWanted)) return;
    if (!known) want(header.record.to_string().size() < 500, "a call's text");
    message.consume();
  }
  ++accepted;
  want(message.missing().why.size() <= kMaxMissingText, "a text's length");
}

void header(const std::string& input) {
  read_message(input);
  if (input.size() < kMessageHeader) return;
  MessageHeader sealed;
  std::memcpy(static_cast<void*>(&sealed), input.data(), kMessageHeader);
  seal(sealed, kKey);
  read_message(std::string(reinterpret_cast<const char*>(&sealed), kMessageHeader) +
               input.substr(kMessageHeader));
}

// --- the rendezvous

void rendezvous(const std::string& input) {
  Channel from(std::make_unique<Bytes>(input));
  (void)from.receive();
  (void)from.sent_tls_hello();
  std::string taken;
  try {
    while (const auto frame = from.next(3)) {
      ++accepted;
      want(frame->header.rank < frame->header.size && frame->header.length == frame->text.size(), "a frame");
      pack(taken, frame->header, frame->text);
    }
  } catch (const BadFrame&) {
  }
  want(input.starts_with(taken), "a frame that is not what came");
}

// --- survivors

void survivor(const std::string& input) {
  for (const int ranks : {1, 10, 64}) {
    SurvivorMessage message, same;
    if (!decode(input, ranks, message)) continue;
    ++accepted;
    const std::string again = encode(message);
    want(message.alive.size() == static_cast<std::size_t>(ranks) && again.size() == input.size(),
         "a message's size");
    want(decode(again, ranks, same) && encode(same) == again, "a message that changes");
  }
}

// --- texts that people write

void tuning(const std::string& input) {
  try {
    const std::string text = tuning_to_text(tuning_from_text(input, "file"));
    ++accepted;
    want(tuning_to_text(tuning_from_text(text, "again")) == text, "a tuning that changes");
  } catch (const InvalidArgument&) {
  }
}

void launch(const std::string& input) {
  std::map<std::string, std::string> variables;
  for (std::size_t begin = 0; begin < input.size();) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    const std::string line = input.substr(begin, end - begin);
    if (const std::size_t is = line.find('='); is != std::string::npos)
      variables[line.substr(0, is)] = line.substr(is + 1).c_str();
    begin = end + 1;
  }
  try {
    const LaunchEnvironment job = LaunchEnvironment::from([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    ++accepted;
    want(job.rank >= 0 && job.rank < job.size, "a rank");
    // If the number of local ranks is unknown, local_size is 1 and local_rank may be larger.
    want(job.local_rank >= 0 && job.local_rank < (job.local_size > 1 ? job.local_size : job.size),
         "a local rank");
    want(job.local_size <= job.size && (job.size == 1 || !job.rendezvous.empty()), "a job");
  } catch (const InvalidArgument&) {
  }
}

// --- texts of other ranks

// A rendezvous in which the other ranks' texts are lines of the input.
class Hostile final : public Rendezvous {
 public:
  Hostile(int rank, int size, const std::string& input) : rank_(rank), size_(size), rest_(input) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::uint32_t epoch() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    std::vector<std::string> all;
    for (int rank = 0; rank < size_; ++rank) all.push_back(rank == rank_ ? mine : next());
    return all;
  }

 private:
  std::string next() {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string line = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    return line;
  }
  const int rank_, size_;
  std::string rest_;
};

// Parses the input as the other ranks' texts. Rank 0 maps only its own memory, so nothing else is tested.
void neighbours(const std::string& input) {
  Hostile others(0, 3, input);
  Mesh mesh;
  mesh.links.resize(3);
  try {
    want(connect_neighbours(others, mesh, "here").size() == 3, "a host for each rank");
    ++accepted;
  } catch (const CommError&) {
  }
}

// Parses the input as the other ranks' texts. Skips inputs that name this machine's memory domain; memory of
// other domains must not be mapped.
void shm(const std::string& input) {
  if (input.find(memory_domain()) != std::string::npos) return;
  Hostile others(1, 2, input);
  try {
    find_backend("shm")->make(others, {});
    want(false, "memory shared with a stranger");
  } catch (const CommError&) {
  }
}

class Answers final : public Backend {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  std::string name() const override { return "answers"; }
  void run(Collective& call) override {
    if (call.record.kind != Kind::recv) return;
    const std::size_t bytes = std::min(call.bytes(), rest.size());
    if (bytes) std::memcpy(call.out, rest.data(), bytes);
    rest.erase(0, bytes);
  }
  void abort(const std::string&) noexcept override {}
  std::string flight_recorder() const override { return ""; }
  Survivors& survivors() override { throw std::logic_error("not used"); }
  std::string rest;
};

void pairs(const std::string& input) {
  static auto* const backend = new Answers;
  static const auto state =
      CommState::make(current_engine(), std::unique_ptr<Backend>(backend), BackendOptions{});
  backend->rest = input;
  try {
    PairRendezvous three(*state, {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, std::source_location::current());
    three.make([&]() -> std::unique_ptr<Backend> {
      for (const std::string& text : three.all_gather("mine"))
        want(text.size() <= 64 << 10, "a text's length");
      return nullptr;
    });
    ++accepted;
  } catch (const CommError&) {
  }
}

// --- inputs

struct Target {
  const char* name;
  void (*run)(const std::string&);
  std::vector<std::string> good;
  // The target gets one in `cost` of the inputs, since it makes expensive system calls.
  int cost;
};

std::vector<std::string> good_frames() {
  std::vector<std::string> all;
  for (const FrameKind kind : {FrameKind::hello, FrameKind::heartbeat, FrameKind::abort, FrameKind::leave,
                               FrameKind::survivor, FrameKind::call, FrameKind::probe}) {
    ControlFrame frame{kind, 3, 1, 19};
    frame.failure = {Failure::Type::lost, 2, "rank 2 is lost"};
    frame.survivor_message = encode(SurvivorMessage{{true, false, true}, 7, Phase::ready, "text", "be"});
    all.push_back(encode(frame, kKey));
  }
  return all;
}

std::vector<std::string> good_messages() {
  std::vector<std::string> all;
  for (const bool failed : {false, true}) {
    MessageHeader head;
    head.record.kind = Kind::all_reduce;
    head.record.dtype = DType::i32;
    head.record.failed = failed;
    head.bytes = kWanted;
    if (failed) head.missing = 1, head.text = 12;
    seal(head, kKey);
    all.push_back(std::string(reinterpret_cast<const char*>(&head), kMessageHeader) +
                  std::string(body_size(head), 'x'));
  }
  return all;
}

std::vector<std::string> good_rendezvous() {
  std::string one, many;
  pack(one, {.type = FrameType::hello, .rank = 1, .size = 3}, "");
  for (const int rank : {0, 1, 2})
    pack(many, {.type = FrameType::result, .rank = rank, .size = 3, .round = 1}, "text");
  return {one, many};
}

std::string with_lengths(std::initializer_list<std::string> texts) {
  std::string all;
  for (const std::string& text : texts) {
    const std::uint64_t length = text.size();
    all += std::string(reinterpret_cast<const char*>(&length), 8) + text;
  }
  return all;
}

const std::vector<Target>& targets() {
  static const std::vector<Target> all{
      {"control", control, good_frames(), 1},
      {"header", header, good_messages(), 1},
      {"rendezvous", rendezvous, good_rendezvous(), 1},
      {"survivor",
       survivor,
       {encode(SurvivorMessage{std::vector<bool>(10, true), 7, Phase::failed, "text", "be"}),
        encode(SurvivorMessage{std::vector<bool>(64, true), 1, Phase::committed, "", ""}),
        encode(SurvivorMessage{{true}, 0, Phase::joining, "", ""})},
       1},
      {"tuning", tuning, {tuning_to_text({}), "# nothing\n\nlocal_alpha_us 1.5e1 # is\ngamma_ns 0.1\n"}, 4},
      {"launch",
       launch,
       {"HEDDLE_RANK=1\nHEDDLE_SIZE=4\nHEDDLE_LOCAL_RANK=0\nHEDDLE_LOCAL_SIZE=2\nHEDDLE_RENDEZVOUS=unix:/tmp/"
        "a",
        "RANK=3\nWORLD_SIZE=8\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=host\nMASTER_PORT=2000",
        "SLURM_PROCID=3\nSLURM_NTASKS=8\nSLURM_STEP_ID=0\nSLURM_JOB_ID=7\nSLURM_STEP_NODELIST=a[01-03,7],b\n"
        "SLURM_STEP_TASKS_PER_NODE=2(x4)\nSLURM_NODEID=1\nSLURM_LOCALID=1",
        "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nPMIX_NAMESPACE=x\nHEDDLE_COMM_PORTS=2000-3000",
        "PMI_RANK=0\nPMI_SIZE=2\nPMI_JOBID=3\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=2",
        "DMLC_NUM_WORKER=4\nDMLC_WORKER_ID=1\nDMLC_PS_ROOT_URI=h\nDMLC_PS_ROOT_PORT=99",
        "HEDDLE_SERVICE=s\nHEDDLE_SIZE=3\nHOSTNAME=pod-2"},
       4},
      {"neighbours", neighbours, {"12 3 here/x\n13 4 there/y\n000\n100\n", "1 -1 a\n2 -1 b\n"}, 40},
      {"shm", shm, {"12 3 4 there \n", "12 -1 -1 nowhere no memory\n"}, 40},
      {"pairs",
       pairs,
       {with_lengths({"+one", "+mine", "+the third", "+", "+", "+"}),
        with_lengths({"+one", "+mine", "!it failed"}),
        with_lengths({"+one", "+mine", "+the third", "+", "+", "!it failed later"})},
       4},
  };
  return all;
}

std::string changed(const std::vector<std::string>& good, std::mt19937_64& random) {
  std::string input = good[random() % good.size()];
  constexpr std::uint64_t kHard[] = {0,      1,          0x7f,       0x80,       0xff,       0x7fff,
                                     0xffff, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull >> 1, ~0ull};
  for (auto n = random() % 5; n > 0; --n) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ 1 << random() % 8);
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random());
        break;
      case 2:
        if (input.size() >= 8)
          std::memcpy(input.data() + std::min(at, input.size() - 8), &kHard[random() % 12],
                      std::size_t{1} << random() % 4);
        break;
      case 3:
        input.erase(at, 1 + random() % 9);
        break;
      case 4:
        input.insert(at, input.substr(random() % (input.size() + 1), random() % 40));
        break;
      default:
        input += good[random() % good.size()].substr(0, random() % 200);
    }
  }
  return input;
}

long long number(int argc, char** argv, const char* name, long long otherwise) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, std::strlen(name)) == 0) return std::atoll(argv[i] + std::strlen(name));
  }
  return otherwise;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  targets()[data[0] % targets().size()].run({reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}

int main(int argc, char** argv) {
  const long long inputs = number(argc, argv, "--inputs=", 100'000), seed = number(argc, argv, "--seed=", 1);
  const bool all = number(argc, argv, "--every=", 0) != 0;  // also gives expensive targets every input
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).starts_with("--only=")) only = argv[i] + 7;
  }
  for (const Target& target : targets()) {
    if (!only.empty() && only != target.name) continue;
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const long long count = all ? inputs : inputs / target.cost;
    accepted = 0;
    for (long long i = 0; i < count; ++i) {
      current = changed(target.good, random);
      const std::string input = static_cast<char>(&target - targets().data()) + current;
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
    std::printf("%-11s %9lld inputs, %9lld accepted\n", target.name, count, accepted);
    std::fflush(stdout);
    want(count < 1000 || accepted > 0 || target.run == shm,
         "nothing is accepted: what stands behind is not reached");
  }
  return 0;
}
