#include "ops/ops_families.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <heddle/default_engine.h>
#include <heddle/ops.h>

#include "support/peer_process.h"

namespace heddle::bench {
namespace {

enum class Layout { plain, strided, broadcast };
constexpr const char* kLayouts[] = {"plain", "strided", "broadcast"};

struct Size {
  std::int64_t rows, columns;
};
constexpr Size kSizes[] = {{2, 5}, {25, 40}, {250, 400}, {2500, 4000}};

// The operands of all operations, which ops_families.py makes likewise for PyTorch.
struct Operands {
  NDArray x, y, i, m, flat, whole, a, b;
  std::int64_t rows, columns;
};

struct Operation {
  const char* name;
  const char* torch;  // the Python expression that PyTorch evaluates
  NDArray (*ours)(const Operands& in);
  std::vector<Layout> layouts = {Layout::plain, Layout::strided};
  std::int64_t most = 10'000'000;  // the largest number of elements at which the operation is measured
};

struct OperatorFamily {
  const char* name;
  std::vector<Operation> operations;
};

using In = const Operands&;

Generator& random() {
  static Generator generator(1);
  return generator;
}

std::vector<OperatorFamily> families() {
  const std::vector<Layout> all = {Layout::plain, Layout::strided, Layout::broadcast},
                            plain = {Layout::plain};
  return {{"Elementwise, one operand",
           {{"exp", "torch.exp(x)", [](In in) { return exp(in.x); }},
            {"log", "torch.log(x)", [](In in) { return log(in.x); }},
            {"sqrt", "torch.sqrt(x)", [](In in) { return sqrt(in.x); }},
            {"tanh", "torch.tanh(x)", [](In in) { return tanh(in.x); }},
            {"sigmoid", "torch.sigmoid(x)", [](In in) { return sigmoid(in.x); }},
            {"sin", "torch.sin(x)", [](In in) { return sin(in.x); }},
            {"erf", "torch.erf(x)", [](In in) { return erf(in.x); }},
            {"abs", "torch.abs(x)", [](In in) { return abs(in.x); }},
            {"floor", "torch.floor(x)", [](In in) { return floor(in.x); }},
            {"isnan", "torch.isnan(x)", [](In in) { return isnan(in.x); }}}},
          {"Elementwise, two operands",
           {{"add", "x + y", [](In in) { return in.x + in.y; }, all},
            {"add in place", "x.add_(y)",
             [](In in) {
               in.x += in.y;
               return in.x;
             },
             all},
            {"multiply", "x * y", [](In in) { return in.x * in.y; }, all},
            {"divide", "x / y", [](In in) { return in.x / in.y; }, all},
            {"maximum", "torch.maximum(x, y)", [](In in) { return maximum(in.x, in.y); }, all},
            {"power", "torch.pow(x, y)", [](In in) { return power(in.x, in.y); }, all},
            {"atan2", "torch.atan2(x, y)", [](In in) { return atan2(in.x, in.y); }, all},
            {"less", "x < y", [](In in) { return in.x < in.y; }, all},
            {"where", "torch.where(m, x, y)", [](In in) { return where(in.m, in.x, in.y); }, all}}},
          {"Reductions and scans",
           {{"sum", "torch.sum(x)", [](In in) { return sum(in.x); }},
            {"sum, axis 1", "torch.sum(x, 1)", [](In in) { return sum(in.x, 1); }},
            {"sum, axis 0", "torch.sum(x, 0)", [](In in) { return sum(in.x, 0); }},
            {"mean, axis 1", "torch.mean(x, 1)", [](In in) { return mean(in.x, 1); }},
            {"max, axis 1", "torch.amax(x, 1)", [](In in) { return max(in.x, Dims{1}); }},
            {"argmax, axis 1", "torch.argmax(x, 1)", [](In in) { return argmax(in.x, 1); }},
            {"var, axis 1", "torch.var(x, 1, unbiased=False)", [](In in) { return var(in.x, 1); }},
            {"prod, axis 1", "torch.prod(x, 1)", [](In in) { return prod(in.x, 1); }},
            {"logsumexp, axis 1", "torch.logsumexp(x, 1)", [](In in) { return logsumexp(in.x, 1); }},
            {"softmax, axis 1", "torch.softmax(x, 1)", [](In in) { return softmax(in.x, 1); }},
            {"any", "torch.any(m)", [](In in) { return any(in.m); }, plain},
            {"cumsum, axis 1", "torch.cumsum(x, 1)", [](In in) { return cumsum(in.x, 1); }}}},
          {"Sorting and searching",
           {{"sort, all", "torch.sort(flat)[0]", [](In in) { return sort(in.flat); }, plain},
            {"sort, all; NumPy", "np.sort(n, axis=None)", [](In in) { return sort(in.flat); }, plain},
            {"sort, axis 1", "torch.sort(x, 1)[0]", [](In in) { return sort(in.x); }},
            {"argsort, axis 1", "torch.argsort(x, 1)", [](In in) { return argsort(in.x); }},
            {"topk 5, all", "torch.topk(flat, 5)[0]", [](In in) { return topk(in.flat, 5)[0]; }, plain},
            {"topk 5, axis 1", "torch.topk(x, 5, 1)[0]", [](In in) { return topk(in.x, 5)[0]; }},
            {"unique of integers", "torch.unique(whole)", [](In in) { return unique(in.whole); }, plain},
            {"unique of integers; NumPy", "np.unique(whole.numpy())", [](In in) { return unique(in.whole); },
             plain},
            {"nonzero", "torch.nonzero(m)", [](In in) { return argwhere(in.m); }, plain},
            {"searchsorted in 1,000", "torch.searchsorted(a.reshape(-1)[:1000].sort()[0], flat)",
             [](In in) {
               return searchsorted(sort(in.a.view_as({-1}).slice(0, {0, 1000})), in.flat);
             },
             plain}}},
          {"Gather and scatter",
           {{"take rows", "torch.index_select(x, 0, whole[:rows] % rows)",
             [](In in) {
               return take(in.x, in.whole.slice(0, {0, in.rows}) % in.rows);
             }},
            {"take_along_axis", "torch.gather(x, 1, i % columns)",
             [](In in) { return take_along_axis(in.x, in.i % in.columns, 1); }},
            {"scatter_add", "torch.scatter_add(x, 1, i % columns, y)",
             [](In in) { return scatter_add(in.x, in.i % in.columns, in.y, 1); }, plain},
            {"index_add", "torch.index_add(x, 0, whole[:rows] % rows, y)",
             [](In in) {
               return index_add(in.x, in.whole.slice(0, {0, in.rows}) % in.rows, in.y);
             },
             plain},
            {"masked_select", "torch.masked_select(x, m)", [](In in) { return masked_select(in.x, in.m); },
             plain},
            {"one_hot of 10", "F.one_hot(whole % 10, 10).float()",
             [](In in) { return one_hot(in.whole % 10, 10); }, plain, 1'000'000}}},
          {"Shapes",
           {{"transpose", "x.t().contiguous()", [](In in) { return transpose(in.x).contiguous(); }},
            {"concat", "torch.cat([x, y], 1)",
             [](In in) {
               return concat({in.x, in.y}, 1);
             }},
            {"flip", "torch.flip(x, [1])", [](In in) { return flip(in.x, {1}).copy(); }},
            {"roll", "torch.roll(x, 3, 1)", [](In in) { return roll(in.x, {3}, {1}); }},
            {"pad", "F.pad(x, (1, 1))",
             [](In in) {
               return pad(in.x, {0, 1}, {0, 1});
             }},
            {"repeat", "torch.repeat_interleave(x, 2, 1)", [](In in) { return repeat(in.x, 2, 1); }},
            {"tril", "torch.tril(x)", [](In in) { return tril(in.x); }},
            {"cast to f64", "x.double()", [](In in) { return in.x.astype(DType::f64); }}}},
          {"Random numbers",
           {{"uniform", "torch.rand(rows, columns)",
             [](In in) {
               return random().uniform({in.rows, in.columns}, 0, 1);
             },
             plain},
            {"normal", "torch.randn(rows, columns)",
             [](In in) {
               return random().normal({in.rows, in.columns}, 0, 1);
             },
             plain},
            {"bernoulli", "torch.empty(rows, columns).bernoulli_(0.5)",
             [](In in) {
               return random().bernoulli({in.rows, in.columns}, 0.5);
             },
             plain},
            {"permutation", "torch.randperm(size)",
             [](In in) { return random().permutation(in.rows * in.columns); }, plain}}},
          {"Products",
           {{"dot", "torch.dot(flat, flat)", [](In in) { return dot(in.flat, in.flat); }, plain},
            {"x times its transpose",
             "x @ x.t()",
             [](In in) { return matmul(in.x, transpose(in.x)); },
             {Layout::plain, Layout::strided},
             1'000'000},
            {"1,000 products of 32 x 32", "a @ b", [](In in) { return matmul(in.a, in.b); }, plain, 10},
            {"einsum ij,kj->ik", "torch.einsum('ij,kj->ik', x, x)",
             [](In in) {
               return einsum("ij,kj->ik", {in.x, in.x});
             },
             plain, 1'000'000}}}};
}

Operands operands_of(Size size, Layout layout) {
  Generator from(1);
  Operands in;
  in.rows = size.rows, in.columns = size.columns;
  const bool strided = layout == Layout::strided;
  const auto numbers = [&] {
    const NDArray made = from.uniform({size.rows, strided ? 2 * size.columns : size.columns}, 0.1, 0.9);
    return strided ? made(kAll, Slice{.step = 2}) : made;
  };
  in.x = numbers(), in.y = numbers();
  if (layout == Layout::broadcast) in.y = in.y[Slice{0, 1}];
  in.i = from.integers({size.rows, size.columns}, 0, std::min<std::int64_t>(1000, size.rows * size.columns));
  in.m = in.x > 0.5;
  in.flat = reshape(in.x, {-1}), in.whole = reshape(in.i, {-1});
  in.a = from.uniform({1000, 32, 32}, 0, 1), in.b = from.uniform({1000, 32, 32}, 0, 1);
  in.a.engine().wait_all();
  return in;
}

// Times Heddle as a script uses it: makes all calls and waits only at the end. Returns microseconds per call.
double run_ours(const Operation& operation, const Operands& in, int calls) {
  const double start = now();
  for (int i = 0; i < calls; ++i) operation.ours(in);
  in.x.engine().wait_all();
  return (now() - start) / calls * 1e6;
}

class Torch {
 public:
  Torch(const std::string& python, int threads) {
    const std::string count = std::to_string(threads);
    peer_ = std::make_unique<PeerProcess>(
        std::vector<std::string>{python, OPS_FAMILIES_SCRIPT, count},
        std::vector<std::pair<std::string, std::string>>{{"MALLOC_MMAP_THRESHOLD_", "1073741824"},
                                                         {"MALLOC_TRIM_THRESHOLD_", "4294967296"},
                                                         {"MALLOC_TOP_PAD_", "268435456"},
                                                         {"OPENBLAS_NUM_THREADS", count}});
  }
  void prepare(Size size, Layout layout) {
    peer_->ask(std::to_string(size.rows) + " " + std::to_string(size.columns) + " " +
               kLayouts[static_cast<int>(layout)]);
  }
  double run(const Operation& operation, int calls) {
    std::istringstream answer(peer_->ask(std::to_string(calls) + " " + operation.torch));
    double microseconds = 0;
    if (!(answer >> microseconds))
      throw std::runtime_error(std::string(operation.name) + ": " + answer.str());
    return microseconds;
  }

 private:
  std::unique_ptr<PeerProcess> peer_;
};

struct Cell {
  double ours = 0, torch = 0;
  double ratio() const { return torch > 0 ? ours / torch : 0; }
};

// Measures one operation with interleaved runs of Heddle and PyTorch; returns the median of each.
Cell measure_cell(const Operation& operation, const Operands& in, Torch* torch, const Options& options) {
  const double once = run_ours(operation, in, 1);
  const double budget = options.quick ? 2'000 : 10'000;
  const int calls = static_cast<int>(std::clamp(budget / std::max(once, 0.5), 1.0, 3000.0));
  std::vector<double> ours, theirs;
  run_ours(operation, in, calls);
  if (torch) torch->run(operation, 1);
  for (int run = 0; run < options.runs; ++run) {
    ours.push_back(run_ours(operation, in, calls));
    if (torch) theirs.push_back(torch->run(operation, calls));
  }
  return {median(ours), torch ? median(theirs) : 0};
}

struct Row {
  std::string name;
  std::vector<Cell> cells;  // one per measured size, ascending; some operators skip the largest size
};

void print_family(const char* family, int workers, const std::vector<Row>& rows) {
  std::printf("\n%s, %d worker%s: our time over PyTorch's (our time, us)\n\n", family, workers,
              workers == 1 ? "" : "s");
  std::printf("| %-36s | %-15s | %-15s | %-15s | %-15s |\n", "", "10", "1,000", "100,000", "10,000,000");
  std::printf("|%s|\n",
              "--------------------------------------|-----------------|-----------------|-----------------|-"
              "----------------");
  double logs = 0, worst = 0;
  int count = 0;
  for (const Row& row : rows) {
    std::printf("| %-36s |", row.name.c_str());
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      if (i >= row.cells.size()) {
        std::printf(" %-15s |", "");
        continue;
      }
      const Cell& cell = row.cells[i];
      char text[40];
      std::snprintf(text, sizeof text, "%.2f (%.3g)", cell.ratio(), cell.ours);
      std::printf(" %-15s |", text);
      if (cell.ratio() > 0) logs += std::log(cell.ratio()), worst = std::max(worst, cell.ratio()), ++count;
    }
    std::printf("\n");
  }
  if (count > 0) std::printf("\nGeometric mean %.2f, worst %.2f\n", std::exp(logs / count), worst);
  std::fflush(stdout);
}

// STREAM's add: bytes per second of c = a + b over 10,000,000 f32 on `threads` threads.
double stream(int threads, int runs) {
  constexpr std::size_t kCount = 10'000'000;
  std::vector<float> a(kCount, 1), b(kCount, 2), c(kCount);
  std::vector<double> rates;
  for (int run = 0; run <= runs; ++run) {
    const double start = now();
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        const std::size_t begin = kCount * t / threads, end = kCount * (t + 1) / threads;
        for (std::size_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
      });
    }
    for (std::thread& one : all) one.join();
    if (run > 0) rates.push_back(3.0 * sizeof(float) * kCount / (now() - start));
  }
  return median(rates);
}

void print_bandwidth(int workers, const Options& options) {
  const Operands in = operands_of(kSizes[3], Layout::plain);
  std::vector<double> sums, in_place;
  const Operation add{"", "", [](In of) { return of.x + of.y; }};
  const Operation into_place{"", "", [](In of) { return into(of.x, multiply, of.y, of.y); }};
  for (int run = 0; run <= options.runs; ++run) {
    sums.push_back(120.0 / run_ours(add, in, 3) * 1e3);
    in_place.push_back(80.0 / run_ours(into_place, in, 3) * 1e3);
  }
  std::printf(
      "\nBandwidth of 10,000,000 f32, %d worker%s: a plain loop %.1f GB/s, add %.1f, multiply into an array "
      "%.1f\n",
      workers, workers == 1 ? "" : "s", stream(workers, options.runs) / 1e9, median(sums), median(in_place));
}

}  // namespace

void run_families(const Options& options, const std::string& python) {
  for (const int workers : options.workers) {
    const CoreLimit limit(0, workers);
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    std::unique_ptr<Torch> torch;
    if (!python.empty()) torch = std::make_unique<Torch>(python, workers);
    for (const OperatorFamily& family : families()) {
      std::vector<Row> rows;
      for (const Operation& operation : family.operations) {
        const std::string both = std::string(family.name) + " " + operation.name;
        if (both.find(options.filter) == std::string::npos) continue;
        for (const Layout layout : operation.layouts) {
          Row row{operation.name, {}};
          if (layout != Layout::plain) row.name += std::string(", ") + kLayouts[static_cast<int>(layout)];
          for (const Size size : kSizes) {
            if (size.rows * size.columns > operation.most) break;
            const Operands in = operands_of(size, layout);
            if (torch) torch->prepare(size, layout);
            row.cells.push_back(measure_cell(operation, in, torch.get(), options));
          }
          rows.push_back(row);
        }
      }
      if (!rows.empty()) print_family(family.name, workers, rows);
    }
    if (options.filter.empty()) print_bandwidth(workers, options);
  }
}

}  // namespace heddle::bench
