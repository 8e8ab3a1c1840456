// Fuzzes all code of kvstore/ that parses bytes of other processes.
//
//     kv_fuzz [--inputs=N] [--seed=S] [--only=TARGET]
//
// main() mutates valid inputs at random, determined by the seed. With libFuzzer (tools/fuzz),
// LLVMFuzzerTestOneInput gets inputs that are guided by coverage; HEDDLE_FUZZ_TARGET names the target, and
// HEDDLE_FUZZ_CORPUS a directory for the valid inputs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "fuzz/fuzz_target.h"

namespace heddle::fuzz {

std::span<const Target> targets() {
  static const Target all[] = {
      kFrames,         kStreams,   kHandshakes,     kFields,      kFromWorker, kFromServer,
      kAdministration, kTexts,     kState,          kStateStream, kSnapshot,   kReplica,
      kMembers,        kScheduler, kSchedulerState, kJson,        kCore};
  return all;
}

namespace {

Input current;

const Target& target_named(const std::string& name) {
  const auto all = targets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Target& one) { return name == one.name; });
  if (found != all.end()) return *found;
  std::fprintf(stderr, "kv_fuzz: there is no target '%s'; there is:", name.c_str());
  for (const Target& one : all) std::fprintf(stderr, " %s", one.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

bool run(const Target& target, Input input) {
  current = input;
  return target.run(input);
}

void change_once(Bytes& input, const std::vector<Bytes>& good, std::mt19937_64& random) {
  constexpr std::uint64_t kHard[] = {0,      1,          0x7f,       0x80,       0xff,       0x7fff,
                                     0xffff, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull >> 1, ~0ull};
  const std::size_t at = input.empty() ? 0 : random() % input.size();
  const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
  switch (input.empty() ? 5 : random() % 6) {
    case 0:
      *place ^= static_cast<std::byte>(1 << random() % 8);
      break;
    case 1:
      *place = static_cast<std::byte>(random());
      break;
    case 2:
      if (input.size() >= 8)
        std::memcpy(input.data() + std::min(at, input.size() - 8), &kHard[random() % std::size(kHard)],
                    std::size_t{1} << random() % 4);
      break;
    case 3:
      input.erase(place,
                  input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), at + 1 + random() % 9)));
      break;
    case 4: {
      const Bytes again(
          place, input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), at + random() % 40)));
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(random() % (input.size() + 1)), again.begin(),
                   again.end());
      break;
    }
    default: {
      const Bytes& other = good[random() % good.size()];
      append(input, Input(other).first(std::min<std::size_t>(other.size(), random() % 200)));
    }
  }
}

Bytes changed(const std::vector<Bytes>& good, std::mt19937_64& random) {
  Bytes input = good[random() % good.size()];
  for (auto count = random() % 5; count > 0; --count) change_once(input, good, random);
  return input;
}

void write_corpus(const Target& target, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  int number = 0;
  for (const Bytes& seed : target.seeds()) {
    std::ofstream file(directory / ("seed-" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
}

const Target& target_of_environment() {
  const char* const name = std::getenv("HEDDLE_FUZZ_TARGET");
  return target_named(name ? name : "");
}

// Runs the target with `count` mutated inputs. The unchanged inputs must be accepted: else mutations would
// not get past the first checks.
void run_changed(const Target& target, long long count, std::uint64_t seed) {
  const std::vector<Bytes> good = target.seeds();
  for (const Bytes& one : good) want(run(target, one), "a good input is refused");
  std::mt19937_64 random(seed);
  long long accepted = 0;
  for (long long i = 0; i < count; ++i) {
    const Bytes input = changed(good, random);
    accepted += run(target, input);
  }
  std::printf("%-12s %9lld inputs, %9lld accepted\n", target.name, count, accepted);
  std::fflush(stdout);
}

int run_all(int argc, char** argv) {
  long long inputs = 100'000;
  std::uint64_t seed = 1;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
    if (word.starts_with("--inputs=")) {
      inputs = std::atoll(value.c_str());
    } else if (word.starts_with("--seed=")) {
      seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (word.starts_with("--only=")) {
      only = target_named(value).name;
    } else {
      std::fprintf(stderr, "kv_fuzz [--inputs=N] [--seed=S] [--only=TARGET]\n");
      return 2;
    }
  }
  for (const Target& target : targets()) {
    if (only.empty() || only == target.name) run_changed(target, inputs / target.cost, seed);
  }
  return 0;
}

}  // namespace

void want(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "kv_fuzz: %s, of", what);
  for (const std::byte one : current) std::fprintf(stderr, " %02x", std::to_integer<unsigned>(one));
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace heddle::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* const corpus = std::getenv("HEDDLE_FUZZ_CORPUS"))
    heddle::fuzz::write_corpus(heddle::fuzz::target_of_environment(), corpus);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heddle::fuzz::Target& target = heddle::fuzz::target_of_environment();
  heddle::fuzz::run(target, std::as_bytes(std::span(data, size)));
  return 0;
}

int main(int argc, char** argv) { return heddle::fuzz::run_all(argc, argv); }
