#include "differential_program.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <ostream>
#include <sstream>

#include <heddle/default_engine.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/operator_registry.h>

#include "compare.h"
#include "missing.h"

namespace heddle::test {
namespace {

constexpr int kInputs = 3, kSteps = 10;

bool has_kernels(const std::string& name) {
  const auto at = operators_without_kernels().lower_bound(name + ": ");
  return at == operators_without_kernels().end() || !at->starts_with(name + ": ");
}

bool is_candidate(const OperatorInfo& op) {
  if (op.family != "Elementwise" && op.family != "Elementwise mathematics" && op.family != "Activations")
    return false;
  if (op.in_place || op.results.size() != 1 || op.results[0] != ArgumentKind::array) return false;
  for (const ArgumentInfo& argument : op.arguments) {
    if (argument.required() && argument.kind != ArgumentKind::array &&
        argument.kind != ArgumentKind::array_or_number)
      return false;
  }
  return has_kernels(op.name);
}

const std::vector<const OperatorInfo*>& candidates() {
  static const std::vector<const OperatorInfo*> all = [] {
    std::vector<const OperatorInfo*> found;
    for (const OperatorInfo& op : operators()) {
      if (is_candidate(op)) found.push_back(&op);
    }
    return found;
  }();
  return all;
}

std::uint64_t hash_of(const void* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

std::uint64_t hash_of(const NDArray& x) {
  const NDArray here = x.copy_to(cpu()).contiguous();
  if (!is_floating(here.dtype())) {
    here.wait();
    return hash_of(here.data<const std::byte>(),
                   static_cast<std::size_t>(here.size()) * size_of(here.dtype()));
  }
  std::vector<double> values = here.astype(DType::f64).to_vector<double>();
  for (double& value : values) {
    if (std::isnan(value)) value = NAN;
  }
  return hash_of(values.data(), values.size() * sizeof(double));
}

void print_error(std::size_t step, const std::string& op, const std::exception& error) {
  std::printf("step %zu, operator %s: %s\n", step, op.c_str(), error.what());
}

// A step while its result is still being computed.
struct Step {
  std::string op;
  NDArray result{};  // undefined: the call was refused
  std::string kind = "refused";
};

class Program {
 public:
  Program(std::uint64_t seed, Device device) : random_(seed * 0x9e3779b97f4a7c15 + 1) {
    const Shape shape = random_shape(random_);
    const DType dtype = random_dtype(random_);
    for (int i = 0; i < kInputs; ++i) {
      const DType own = i == 0 || random_() % 2 ? dtype : random_dtype(random_);
      values_.push_back(random_pair(random_, shape, own, device).there);
      steps_.push_back({"input", values_.back(), "input"});
    }
    for (int i = 0; i < kSteps; ++i) add_step();
  }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  NDArray drawn() { return values_[random_() % values_.size()]; }

  OperatorValue drawn_for(const ArgumentInfo& argument, bool number_allowed) {
    static constexpr std::array<double, 5> kNumbers = {0, 1, 3, 2.5, -2};
    const NDArray x = drawn();
    const std::uint64_t what = random_();
    if (argument.dtypes == std::vector{DType::boolean}) return not_equal(x, 0);
    if (!number_allowed || argument.kind != ArgumentKind::array_or_number || what % 4) return x;
    const double number = kNumbers[what / 4 % kNumbers.size()];
    if (number == std::floor(number)) return static_cast<std::int64_t>(number);
    return number;
  }

  void add_step() {
    const std::uint64_t what = random_() % 16;
    if (what == 0) return add("astype", [x = drawn(), to = random_dtype(random_)] { return x.astype(to); });
    if (what == 1)
      return add("copy", [x = drawn()] { return x.ndim() ? x.slice(0, {.step = -1}).copy() : x.copy(); });
    const OperatorInfo& op = *candidates()[random_() % candidates().size()];
    OperatorValues arguments;
    for (const ArgumentInfo& argument : op.arguments) {
      if (argument.required()) arguments.push_back(drawn_for(argument, !arguments.empty()));
    }
    add(op.name, [&] { return std::get<NDArray>(call_operator(op, arguments).at(0)); });
  }

  // Results that depend on libm are no operands of later steps. A computed NaN has a sign on x86 and none on NVIDIA's GPUs, which
  // signbit and copysign show: operands have NaN without a sign.
  template <class F> void add(const std::string& op, const F& call) {
    Step step{op};
    try {
      step.result = call();
      step.kind = operators_with_near_results().count(op) ? "libm" : "bits";
      if (step.kind == "bits")
        values_.push_back(is_floating(step.result.dtype()) ? where(isnan(step.result), NAN, step.result)
                                                           : step.result);
    } catch (const InvalidArgument&) {
    } catch (const Error& error) {
      step = {op, {}, "broken"};
      print_error(steps_.size(), op, error);
    }
    steps_.push_back(step);
  }

  Random random_;
  std::vector<NDArray> values_;
  std::vector<Step> steps_;
};

std::string text_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t length : shape) text += (text.empty() ? "" : "x") + std::to_string(length);
  return text.empty() ? "scalar" : text;
}

}  // namespace

std::vector<StepLine> run_program(std::uint64_t seed, Device device) {
  const Program program(seed, device);
  std::vector<StepLine> lines;
  for (const Step& step : program.steps()) {
    StepLine line{.seed = seed,
                  .step = static_cast<int>(lines.size()),
                  .op = step.op,
                  .dtype = "-",
                  .shape = "-",
                  .kind = step.kind};
    if (step.result.defined()) {
      try {
        line.hash = hash_of(step.result);
        line.dtype = name_of(step.result.dtype());
        line.shape = text_of(step.result.shape());
      } catch (const InvalidArgument&) {  // what data cause, such as a negative exponent
        line.kind = "error";
      } catch (const Error& error) {
        line.kind = "broken";
        print_error(lines.size(), step.op, error);
      }
    }
    lines.push_back(line);
  }
  try {
    current_engine().wait_all();
  } catch (const Error&) {  // the lines have these errors
  }
  return lines;
}

void write_line(std::ostream& out, const StepLine& line) {
  out << line.seed << ' ' << line.step << ' ' << line.op << ' ' << line.dtype << ' ' << line.shape << ' '
      << line.kind << ' ' << std::hex << line.hash << std::dec << '\n';
}

std::optional<StepLine> parse_line(const std::string& text) {
  std::istringstream in(text);
  StepLine line;
  if (in >> line.seed >> line.step >> line.op >> line.dtype >> line.shape >> line.kind >> std::hex >>
      line.hash)
    return line;
  return {};
}

}  // namespace heddle::test
