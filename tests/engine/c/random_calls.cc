// Random calls of the C ABI in a checked process: destroyed handles, handles of the wrong type, null
// pointers, wrong sizes, ops that push, fail and destroy handles. Each call must return a status, and each
// ctx must be destroyed exactly once.
//
//   engine_c_random [CALLS [SEED [THREADS]]]      HEDDLE_CHECK=1 must be set
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/c/engine.h>

namespace {

std::atomic<long> ctxs_made{0}, ctxs_destroyed{0}, succeeded{0}, failed{0};
std::atomic<std::uint64_t> acts{0};

// Handles of all types, valid and destroyed, shared by all threads.
class Pool {
 public:
  static constexpr int kKinds = 8;
  void put(int kind, void* handle) {
    const std::lock_guard guard(mutex_);
    made_.push_back({kind, handle});
    std::vector<void*>& all = handles_[kind];
    if (all.size() < kMost) {
      all.push_back(handle);
    } else {
      all[next_++ % kMost] = handle;
    }
  }
  void destroy_all();
  // Returns a random handle, mostly of the kind that is asked for. Returns sometimes a handle of another
  // kind, or null.
  void* get(int kind, std::mt19937_64& random) {
    if (random() % 50 == 0) return nullptr;
    if (random() % 50 == 0) kind = static_cast<int>(random() % kKinds);
    const std::lock_guard guard(mutex_);
    const std::vector<void*>& all = handles_[kind];
    return all.empty() ? nullptr : all[random() % all.size()];
  }

 private:
  static constexpr std::size_t kMost = 24;
  std::mutex mutex_;  // guards the members below
  std::vector<void*> handles_[kKinds];
  std::vector<std::pair<int, void*>> made_;
  std::size_t next_ = 0;
} pool;

enum { engine_kind, var_kind, group_kind, prepared_kind, graph_kind, slot_kind, error_kind, completion_kind };

// Destroys the engines first, which waits for their ops, and then all other handles. Of these most are
// destroyed already.
void Pool::destroy_all() {
  std::vector<std::pair<int, void*>> all;
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      if (made_.size() == all.size()) break;
      all = made_;
    }
    // Repeated until no handle is new, since ops that run meanwhile may create handles.
    for (const auto& [kind, handle] : all) {
      if (kind == engine_kind) heddle_engine_destroy(static_cast<heddle_engine*>(handle), nullptr);
    }
  }
  for (const auto& [kind, handle] : all) {
    if (kind == var_kind) heddle_var_destroy(static_cast<heddle_var*>(handle));
    if (kind == group_kind) heddle_group_destroy(static_cast<heddle_group*>(handle));
    if (kind == prepared_kind) heddle_prepared_destroy(static_cast<heddle_prepared*>(handle));
    if (kind == graph_kind) heddle_graph_destroy(static_cast<heddle_graph*>(handle));
    if (kind == slot_kind) heddle_slot_destroy(static_cast<heddle_slot*>(handle));
    if (kind == error_kind) heddle_error_destroy(static_cast<heddle_error*>(handle));
  }
}

// Whether all threads use one engine. Under `naive` an op that pushes on another engine holds the locks of
// both engines, so that two threads could deadlock.
bool one_engine = false;

struct Ctx {
  std::uint64_t seed;
  std::atomic<int> destroyed{0};
};

void destroy_ctx(void* ctx) {
  if (static_cast<Ctx*>(ctx)->destroyed.fetch_add(1) != 0) std::abort();
  ++ctxs_destroyed;
  delete static_cast<Ctx*>(ctx);
}

// Makes the random calls of one thread, or of one op.
class Caller {
 public:
  Caller(std::uint64_t seed, int depth) : random_(seed), depth_(depth) {}
  void call();

 private:
  template <class T> T* any(int kind) { return static_cast<T*>(pool.get(kind, random_)); }
  bool rarely() { return random_() % 40 == 0; }
  template <class T> T* sometimes_null(T* pointer) { return rarely() ? nullptr : pointer; }
  void count(heddle_status status) { ++(status == HEDDLE_OK ? succeeded : failed); }
  // Counts the status of a call, and keeps or destroys the error that the call has set. `error` is a
  // reference, since the call is evaluated as the first argument and assigns it.
  void ended(heddle_status status, heddle_error* const& error);
  template <class T, class F> void make(int kind, F&& made_by);
  Ctx* new_ctx();
  heddle_op_options options();
  void make_one();
  void push();
  void destroy_one();
  void look();
  void group_or_graph();
  void make_graph();

  std::mt19937_64 random_;
  int depth_;
  heddle_var* vars_[4] = {};
};

thread_local int depth_of_thread = 0;

heddle_status act(void* ctx, heddle_error** error) {
  const std::uint64_t seed = static_cast<Ctx*>(ctx)->seed;
  if (depth_of_thread < 2) {
    ++depth_of_thread;
    // `acts` makes each run's calls differ: otherwise a prepared op that pushes itself would do so in every
    // run, without end.
    Caller caller(seed + ++acts, depth_of_thread);
    for (std::uint64_t i = seed % 3; i > 0; --i) caller.call();
    --depth_of_thread;
  }
  if (seed % 5 != 0) return HEDDLE_OK;
  if (seed % 2 == 0) heddle_error_create(HEDDLE_USER, "by chance", nullptr, error);
  return HEDDLE_USER;
}

heddle_status run_op(void* ctx, const heddle_run* run, heddle_error** error) {
  heddle_run_info info{};
  info.struct_size = sizeof info;
  if (heddle_run_describe(run, &info) != HEDDLE_OK) std::abort();
  return act(ctx, error);
}

// The op of an asynchronous call. It always completes: at once, on another thread, or twice. Under `naive`
// its push would otherwise never return.
heddle_status run_async(void* ctx, const heddle_run*, heddle_completion* completion, heddle_error** error) {
  const std::uint64_t seed = static_cast<Ctx*>(ctx)->seed;
  const heddle_status status = act(ctx, error);
  if (status != HEDDLE_OK) return status;
  // From now on other threads may complete the op too; only the first completion counts.
  pool.put(completion_kind, completion);
  std::thread([completion, seed] {
    if (seed % 3 == 0) heddle_completion_drop(completion);
    if (seed % 3 == 1) heddle_completion_fail(completion, nullptr);
    heddle_completion_done(completion);
  }).detach();
  return HEDDLE_OK;
}

void skip(void* ctx, const heddle_error* why) {
  heddle_error_info info{};
  info.struct_size = sizeof info;
  if (!ctx || heddle_error_describe(why, &info) != HEDDLE_OK) std::abort();
}

void Caller::ended(heddle_status status, heddle_error* const& error) {
  count(status);
  if ((status == HEDDLE_OK) != (error == nullptr)) std::abort();
  if (!error) return;
  char* text = nullptr;
  if (random_() % 8 == 0 && heddle_error_to_text(error, &text) == HEDDLE_OK) heddle_text_destroy(text);
  if (random_() % 8 == 0) {
    pool.put(error_kind, error);
  } else {
    heddle_error_destroy(error);
  }
}

template <class T, class F> void Caller::make(int kind, F&& made_by) {
  T* made = nullptr;
  heddle_error* error = nullptr;
  const heddle_status status = made_by(sometimes_null(&made), &error);
  ended(status, error);
  if (status == HEDDLE_OK) pool.put(kind, made);
}

Ctx* Caller::new_ctx() {
  ++ctxs_made;
  return new Ctx{random_()};
}

heddle_op_options Caller::options() {
  heddle_op_options options{};
  options.struct_size = rarely() ? random_() % 200 : sizeof options;
  for (heddle_var*& var : vars_) var = any<heddle_var>(var_kind);
  options.read = sometimes_null(vars_);
  options.read_count = random_() % 3;
  options.mutate = sometimes_null(vars_ + 2);
  options.mutate_count = random_() % 3;
  options.priority = rarely() ? static_cast<std::int32_t>(random_()) : 0;
  if (random_() % 4 == 0) options.group = any<heddle_group>(group_kind);
  if (random_() % 4 == 0) options.skipped = skip;
  return options;
}

void Caller::push() {
  const heddle_op_options options = this->options();
  auto* engine = any<heddle_engine>(engine_kind);
  heddle_error* error = nullptr;
  switch (random_() % 4) {
    case 0:
      return ended(
          heddle_push_async(engine, sometimes_null(run_async), new_ctx(), destroy_ctx, &options, &error),
          error);
    case 1:
      return make<heddle_prepared>(prepared_kind, [&](heddle_prepared** out, heddle_error** failure) {
        return heddle_prepare(engine, run_op, new_ctx(), destroy_ctx, sometimes_null(&options), out, failure);
      });
    case 2:
      return ended(heddle_push_prepared(engine, any<heddle_prepared>(prepared_kind), &error), error);
    default:
      return ended(heddle_push(engine, sometimes_null(run_op), new_ctx(), destroy_ctx, &options, &error),
                   error);
  }
}

void Caller::make_one() {
  switch (random_() % 4) {
    case 0:
      return make<heddle_group>(group_kind, heddle_group_create);
    case 1:
      return make<heddle_var>(var_kind, [&](heddle_var** out, heddle_error** error) {
        return heddle_var_copy(any<heddle_var>(var_kind), out, error);
      });
    case 2:
      if (random_() % 200 == 0 && !one_engine) {
        return make<heddle_engine>(engine_kind, [&](heddle_engine** out, heddle_error** error) {
          return heddle_engine_create(nullptr, out, error);
        });
      }
      [[fallthrough]];
    default:
      return make<heddle_var>(var_kind, [&](heddle_var** out, heddle_error** error) {
        return heddle_var_create(any<heddle_engine>(engine_kind), out, error);
      });
  }
}

void Caller::destroy_one() {
  switch (random_() % 8) {
    // Destroying an engine waits for its ops. Inside an op that could be a wait for the op itself.
    case 0:
      if (depth_ == 0 && !one_engine && random_() % 100 == 0)
        count(heddle_engine_destroy(any<heddle_engine>(engine_kind), nullptr));
      return;
    case 1:
      return count(heddle_group_destroy(any<heddle_group>(group_kind)));
    case 2:
      return count(heddle_prepared_destroy(any<heddle_prepared>(prepared_kind)));
    case 3:
      return count(heddle_graph_destroy(any<heddle_graph>(graph_kind)));
    case 4:
      return count(heddle_slot_destroy(any<heddle_slot>(slot_kind)));
    case 5:
      return count(heddle_error_destroy(any<heddle_error>(error_kind)));
    case 6:
      return count(heddle_completion_done(any<heddle_completion>(completion_kind)));
    default:
      return count(heddle_var_destroy(any<heddle_var>(var_kind)));
  }
}

void Caller::look() {
  auto* engine = any<heddle_engine>(engine_kind);
  auto* var = any<heddle_var>(var_kind);
  heddle_error* error = nullptr;
  switch (random_() % 6) {
    case 0:
      if (depth_ > 0) return;
      return ended(heddle_wait_for(engine, var, 10'000'000'000, &error), error);
    case 1:
      return ended(heddle_wait_for(engine, var, 1000, &error), error);
    case 2:
      return make<heddle_error>(error_kind, [&](heddle_error** out, heddle_error** failure) {
        heddle_error* poison = nullptr;
        const heddle_status status = heddle_error_of(engine, var, out ? &poison : nullptr, failure);
        if (status == HEDDLE_OK) *out = poison;
        return status;
      });
    case 3:
      return ended(heddle_clear_error(engine, var, nullptr, &error), error);
    case 4: {
      if (random_() % 20 != 0) return;
      char* text = nullptr;
      count(heddle_describe_pending(engine, sometimes_null(&text), nullptr));
      return count(heddle_text_destroy(text));
    }
    default: {
      heddle_error_info info{};
      info.struct_size = rarely() ? 8 : sizeof info;
      return count(heddle_error_describe(any<heddle_error>(error_kind), sometimes_null(&info)));
    }
  }
}

struct CaptureCtx {
  heddle_engine* engine;
  heddle_var* var;
  std::uint64_t seed;
};

heddle_status capture(void* ctx, heddle_error** error) {
  const auto* capturing = static_cast<CaptureCtx*>(ctx);
  heddle_slot* slot = nullptr;
  if (heddle_slot_create(capturing->engine, &slot, nullptr) == HEDDLE_OK) pool.put(slot_kind, slot);
  heddle_op_options options{};
  options.struct_size = sizeof options;
  options.mutate = &capturing->var;
  options.mutate_count = 1;
  ++ctxs_made;
  return heddle_push(capturing->engine, run_op, new Ctx{capturing->seed}, destroy_ctx, &options, error);
}

void Caller::make_graph() {
  CaptureCtx ctx{any<heddle_engine>(engine_kind), any<heddle_var>(var_kind), random_() % 5 == 0 ? 5U : 6U};
  make<heddle_graph>(graph_kind, [&](heddle_graph** out, heddle_error** error) {
    return heddle_capture(ctx.engine, capture, &ctx, nullptr, nullptr, out, error);
  });
}

void Caller::group_or_graph() {
  heddle_error* error = nullptr;
  switch (random_() % 4) {
    case 0: {
      auto* group = any<heddle_group>(group_kind);
      if (random_() % 2) return ended(heddle_group_cancel(group, &error), error);
      return ended(heddle_group_set_timeout(group, static_cast<std::int64_t>(random_()), &error), error);
    }
    case 1:
      return random_() % 10 == 0 ? make_graph() : void();
    default: {
      heddle_binding bindings[2] = {{any<heddle_slot>(slot_kind), new_ctx(), destroy_ctx},
                                    {any<heddle_slot>(slot_kind), new_ctx(), destroy_ctx}};
      return ended(heddle_graph_launch(any<heddle_graph>(graph_kind), bindings, 2, &error), error);
    }
  }
}

void Caller::call() {
  switch (random_() % 8) {
    case 0:
      return make_one();
    case 1:
    case 2:
    case 3:
      return push();
    case 4:
      return destroy_one();
    case 5:
      return group_or_graph();
    default:
      return look();
  }
}

void run_thread(std::uint64_t seed, long calls) {
  Caller caller(seed, 0);
  for (long i = 0; i < calls; ++i) caller.call();
}

}  // namespace

int main(int argc, char** argv) {
  const long calls = argc > 1 ? std::atol(argv[1]) : 20000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  heddle_build build{};
  build.struct_size = sizeof build;
  if (heddle_build_describe(&build) != HEDDLE_OK || !build.checked) {
    std::fprintf(stderr, "engine_c_random: set HEDDLE_CHECK=1\n");
    return 1;
  }
  // Silences the log of unseen errors, since this test causes them on purpose.
  heddle_log_set([](void*, const char*) {}, nullptr, nullptr, nullptr);
  heddle_engine_options options{};
  options.struct_size = sizeof options;
  if (heddle_engine_options_from_environment(&options, nullptr) != HEDDLE_OK) return 1;
  one_engine = options.scheduler == HEDDLE_NAIVE;
  std::vector<heddle_engine*> engines(one_engine ? 1 : 2);
  for (heddle_engine*& engine : engines) {
    if (heddle_engine_create(nullptr, &engine, nullptr) != HEDDLE_OK) return 1;
    pool.put(engine_kind, engine);
  }
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i)
      all.emplace_back(run_thread, seed * 1000 + static_cast<std::uint64_t>(i), calls / threads);
  }
  pool.destroy_all();
  std::printf("%ld calls: %ld succeeded, %ld failed; %ld ctxs made, %ld destroyed\n", calls, succeeded.load(),
              failed.load(), ctxs_made.load(), ctxs_destroyed.load());
  return ctxs_made == ctxs_destroyed ? 0 : 1;
}
