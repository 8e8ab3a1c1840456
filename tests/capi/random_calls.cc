// Random calls of the C ABI of arrays in a checked process: destroyed handles, handles of the wrong type,
// null pointers, wrong sizes, and every operator with random arguments. Each call must return a status, and
// lent memory must be released exactly once.
//
//   capi_random [CALLS [SEED [THREADS]]]      HEDDLE_CHECK=1 must be set
#include "random_calls.h"

#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace random_calls {

heddle_status destroy(int kind, void* handle) {
  switch (kind) {
    case engine_kind:
      return heddle_engine_destroy(static_cast<heddle_engine*>(handle), nullptr);
    case var_kind:
      return heddle_var_destroy(static_cast<heddle_var*>(handle));
    case array_kind:
      return heddle_array_destroy(static_cast<heddle_array*>(handle));
    case generator_kind:
      return heddle_generator_destroy(static_cast<heddle_generator*>(handle));
    case rows_kind:
      return heddle_row_sparse_destroy(static_cast<heddle_row_sparse*>(handle));
    case archive_kind:
      return heddle_archive_destroy(static_cast<heddle_archive*>(handle));
    case plain_kind:
      return heddle_array_destroy(static_cast<heddle_array*>(handle));
    case optimizer_kind:
      return heddle_optimizer_destroy(static_cast<heddle_optimizer*>(handle));
    case communicator_kind:
      return heddle_communicator_destroy(static_cast<heddle_communicator*>(handle));
    case store_kind:
      return heddle_kvstore_destroy(static_cast<heddle_kvstore*>(handle));
    default:
      return heddle_trainer_destroy(static_cast<heddle_trainer*>(handle));
  }
}

// Adds a handle to the pool; a full pool replaces one. A replaced handle whose object has threads is
// destroyed at once, so that few such objects exist.
void Pool::put(int kind, void* handle) {
  const std::size_t most = has_threads(kind) ? 6 : 24;
  void* replaced = nullptr;
  {
    const std::lock_guard guard(mutex_);
    made_.emplace_back(kind, handle);
    std::vector<void*>& all = handles_[static_cast<std::size_t>(kind)];
    if (all.size() < most) {
      all.push_back(handle);
    } else {
      replaced = std::exchange(all[next_++ % most], handle);
    }
  }
  if (replaced && has_threads(kind)) destroy(kind, replaced);
}

void* Pool::get(int kind, std::mt19937_64& random) {
  if (random() % 50 == 0) return nullptr;
  if (random() % 50 == 0) kind = static_cast<int>(random() % kinds);
  const std::lock_guard guard(mutex_);
  const std::vector<void*>& all = handles_[static_cast<std::size_t>(kind)];
  return all.empty() ? nullptr : all[random() % all.size()];
}

// Destroys all handles, the engines last: an engine waits for its ops, which hold arrays.
void Pool::destroy_all() {
  for (const bool engines : {false, true}) {
    for (const auto& [kind, handle] : made_) {
      if ((kind == engine_kind) == engines) destroy(kind, handle);
    }
  }
}

Caller::Caller(std::uint64_t seed)
    : random_(seed),
      path_("capi_random." + std::to_string(getpid()) + "." + std::to_string(seed) + ".checkpoint") {}

Caller::~Caller() { unlink(path_.c_str()); }

void Caller::ended(heddle_status status, heddle_error* const& error) {
  count(status);
  if ((status == HEDDLE_OK) != (error == nullptr)) std::abort();
  char* text = nullptr;
  if (error && random_() % 8 == 0 && heddle_error_to_text(error, &text) == HEDDLE_OK)
    heddle_text_destroy(text);
  heddle_error_destroy(error);
}

// Puts the array into the pool if it is small, else destroys it: operators make ever larger arrays.
void Caller::keep(heddle_array* made) {
  heddle_array_info info{};
  info.struct_size = sizeof info;
  if (heddle_array_describe(made, &info, nullptr) != HEDDLE_OK) std::abort();
  if (info.size <= 200) return pool.put(array_kind, made);
  heddle_array_destroy(made);
}

const std::int64_t* Caller::shape() {
  for (std::int64_t& length : shape_) {
    length = rarely() ? small() : static_cast<std::int64_t>(random_() % 4);
    if (rarely() && rarely()) length = INT64_MAX / 3;
  }
  return sometimes_null(shape_);
}

heddle_array_options Caller::options() {
  heddle_array_options options{};
  options.struct_size = rarely() ? random_() % 100 : sizeof options;
  options.engine = any<heddle_engine>(engine_kind);
  if (random_() % 3 == 0) options.dtype = static_cast<std::int32_t>(random_() % 15) - 1;
  if (rarely()) options.device = {static_cast<std::int32_t>(small()), static_cast<std::int32_t>(small())};
  return options;
}

void Caller::create() {
  const heddle_array_options where = options();
  const heddle_array_options* const options = sometimes_null(&where);
  static const std::array<std::int64_t, 64> memory{};
  const std::size_t bytes = random_() % 4 == 0 ? random_() % 512 : 8;
  make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** error) {
    switch (random_() % 6) {
      case 0:
        // Uninitialised memory may hold invalid bools, so arrays of bools are zeroed.
        if (where.dtype == HEDDLE_BOOL) return heddle_array_zeros(options, shape(), ndim(), out, error);
        return heddle_array_create(options, shape(), ndim(), out, error);
      case 1:
        return heddle_array_full(options, shape(), ndim(), static_cast<double>(small()), out, error);
      case 2:
        shape_[0] = 2;
        return heddle_array_from_memory(options, sometimes_null(shape_), 1, sometimes_null(memory.data()),
                                        bytes, out, error);
      case 3: {
        shape_[0] = 2;
        ++lent;
        auto* const own = new std::array<std::int64_t, 2>{};
        const auto back = [](void* ctx) {
          ++given_back;
          delete static_cast<std::array<std::int64_t, 2>*>(ctx);
        };
        return heddle_array_lend(options, sometimes_null(shape_), 1, sometimes_null(own->data()), bytes, own,
                                 back, out, error);
      }
      case 4:
        return heddle_array_copy(array(), out, error);
      default:
        return heddle_array_ones(options, shape(), ndim(), out, error);
    }
  });
}

void Caller::view() {
  heddle_array* const of = array();
  std::int32_t axes[16];
  for (std::int32_t& axis : axes) axis = static_cast<std::int32_t>(small());
  make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** error) {
    switch (random_() % 10) {
      case 0:
        return heddle_array_slice(of, static_cast<std::int32_t>(small()), small(),
                                  rarely() ? HEDDLE_END : small(), small(), out, error);
      case 1:
        return heddle_array_index(of, small(), out, error);
      case 2:
        return heddle_array_reshape(of, shape(), ndim(), out, error);
      case 3:
        return heddle_array_transpose(of, random_() % 2 ? nullptr : axes, ndim(), out, error);
      case 4:
        return heddle_array_broadcast(of, shape(), ndim(), out, error);
      case 5:
        return heddle_array_detach(of, out, error);
      case 6:
        return heddle_array_clone(of, out, error);
      case 7:
        return heddle_array_astype(of, static_cast<std::int32_t>(random_() % 15) - 1, out, error);
      case 8:
        return heddle_array_to_device(of, {rarely() ? 7 : HEDDLE_CPU, static_cast<std::int32_t>(small())},
                                      out, error);
      default:
        return heddle_array_contiguous(of, out, error);
    }
  });
}

void Caller::change() {
  heddle_error* error = nullptr;
  switch (random_() % 3) {
    case 0:
      return ended(heddle_array_assign(array(), array(), &error), error);
    case 1:
      return ended(heddle_array_fill(array(), static_cast<double>(small()), &error), error);
    default:
      return ended(heddle_array_fill_integer(array(), small(), &error), error);
  }
}

void Caller::look() {
  heddle_array* const of = array();
  heddle_error* error = nullptr;
  heddle_array_info info{};
  info.struct_size = rarely() ? random_() % 300 : sizeof info;
  std::array<std::int64_t, 256> values;
  switch (random_() % 8) {
    case 0:
      return ended(heddle_array_describe(of, sometimes_null(&info), &error), error);
    case 1:
      return make<heddle_var>(var_kind, [&](heddle_var** out, heddle_error** failure) {
        return heddle_array_var(of, out, failure);
      });
    case 2: {
      void* data = nullptr;
      return ended(heddle_array_data(of, sometimes_null(&data), &error), error);
    }
    case 3: {
      char* text = nullptr;
      if (rarely())
        ended(heddle_memory_track(static_cast<std::int32_t>(random_() % 2), &error), error);
      else if (rarely())
        ended(heddle_memory_report(sometimes_null(&text), &error), error);
      else
        ended(heddle_array_to_text(of, sometimes_null(&text), &error), error);
      return count(heddle_text_destroy(text));
    }
    case 4:
    case 5: {
      if (heddle_array_describe(of, &info, nullptr) != HEDDLE_OK || info.size > 256) return;
      const auto bytes = static_cast<std::size_t>(info.size * info.item_size);
      return ended(heddle_array_read(of, sometimes_null(values.data()), rarely() ? bytes / 2 : bytes, &error),
                   error);
    }
    case 6:
      return ended(heddle_wait_for(any<heddle_engine>(engine_kind), any<heddle_var>(var_kind), 1000, &error),
                   error);
    default:
      return ended(heddle_array_wait(of, &error), error);
  }
}

heddle_value Caller::value(const heddle_argument_info& argument) {
  heddle_value value{};
  const bool wrong = random_() % 20 == 0;
  switch (wrong ? static_cast<std::int32_t>(random_() % 16) : argument.kind) {
    case HEDDLE_ARGUMENT_ARRAY:
    case HEDDLE_ARGUMENT_ARRAY_OR_NUMBER:
      value.kind = HEDDLE_VALUE_ARRAY;
      value.as.array = array();
      break;
    case HEDDLE_ARGUMENT_ARRAYS:
      value.kind = HEDDLE_VALUE_ARRAYS;
      value.count = static_cast<std::uint32_t>(random_() % 3);
      for (heddle_array*& one : list_) one = array();
      value.as.arrays = sometimes_null(list_);
      break;
    case HEDDLE_ARGUMENT_ARRAY_OR_ROW_SPARSE:
    case HEDDLE_ARGUMENT_ROW_SPARSE:
      value.kind = HEDDLE_VALUE_ROW_SPARSE;
      value.as.row_sparse = any<heddle_row_sparse>(rows_kind);
      break;
    case HEDDLE_ARGUMENT_INTEGER:
      value.kind = HEDDLE_VALUE_INTEGER;
      value.as.integer = small();
      break;
    case HEDDLE_ARGUMENT_BOOLEAN:
      value.kind = HEDDLE_VALUE_BOOLEAN;
      value.as.boolean = static_cast<std::int32_t>(small());
      break;
    case HEDDLE_ARGUMENT_TEXT:
      value.kind = HEDDLE_VALUE_TEXT;
      value.as.text = argument.choice_count > 0 ? argument.choices[random_() % argument.choice_count]
                                                : sometimes_null("telepathy");
      break;
    case HEDDLE_ARGUMENT_INTEGERS:
      value.kind = HEDDLE_VALUE_INTEGERS;
      value.count =
          rarely() ? static_cast<std::uint32_t>(random_()) % 14 : static_cast<std::uint32_t>(random_() % 4);
      value.as.integers = shape();
      break;
    case HEDDLE_ARGUMENT_DTYPE:
      value.kind = HEDDLE_VALUE_DTYPE;
      value.as.dtype = static_cast<std::int32_t>(random_() % 15) - 1;
      break;
    case HEDDLE_ARGUMENT_DEVICE:
      value.kind = HEDDLE_VALUE_DEVICE;
      value.as.device = {rarely() ? 5 : HEDDLE_CPU, static_cast<std::int32_t>(random_() % 2)};
      break;
    case HEDDLE_ARGUMENT_GENERATOR:
      value.kind = HEDDLE_VALUE_GENERATOR;
      value.as.generator = any<heddle_generator>(generator_kind);
      break;
    case 15:
      value.kind = static_cast<std::int32_t>(random_());
      break;
    default:
      value.kind = HEDDLE_VALUE_REAL;
      value.as.real = static_cast<double>(small()) / 2;
  }
  return value;
}

void Caller::call_operator() {
  std::size_t operators = 0;
  const heddle_operator* op = nullptr;
  heddle_operator_info info{};
  info.struct_size = sizeof info;
  if (heddle_operator_count(&operators) != HEDDLE_OK ||
      heddle_operator_at(random_() % operators, &op, nullptr) != HEDDLE_OK ||
      heddle_operator_describe(op, &info, nullptr) != HEDDLE_OK)
    std::abort();
  // bincount and repeat are not called: the size of their results depends on values, which may be
  // uninitialised here.
  if (std::strcmp(info.name, "bincount") == 0 || std::strcmp(info.name, "repeat") == 0) return;
  std::vector<heddle_value> values;
  std::vector<heddle_named_value> named;
  for (std::size_t i = 0; i < info.argument_count; ++i) {
    heddle_argument_info argument{};
    argument.struct_size = sizeof argument;
    if (heddle_operator_argument(op, i, &argument, nullptr) != HEDDLE_OK) std::abort();
    if (argument.required && named.empty()) {
      values.push_back(value(argument));
    } else if (argument.required || random_() % 3 == 0) {
      named.push_back({sometimes_null(argument.name), value(argument)});
    }
  }
  heddle_value results[4] = {};
  heddle_error* error = nullptr;
  const heddle_status status = heddle_operator_call(
      sometimes_null(op), sometimes_null(values.data()), values.size(), sometimes_null(named.data()),
      named.size(), any<heddle_engine>(engine_kind), sometimes_null(results), rarely() ? 0 : 4, &error);
  ended(status, error);
  if (status != HEDDLE_OK) return;
  for (std::size_t i = 0; i < info.result_count; ++i) {
    if (results[i].kind == HEDDLE_VALUE_ARRAY) {
      keep(results[i].as.array);
    } else if (results[i].kind == HEDDLE_VALUE_ROW_SPARSE) {
      pool.put(rows_kind, results[i].as.row_sparse);
    } else if (results[i].kind == HEDDLE_VALUE_ARRAYS) {
      for (std::uint32_t k = 0; k < results[i].count; ++k) keep(results[i].as.arrays[k]);
      heddle_array_list_destroy(results[i].as.arrays);
    }
  }
}

// A tape belongs to one thread, so only single-threaded runs differentiate.
void Caller::differentiate() {
  if (!one_thread) return;
  heddle_error* error = nullptr;
  std::int32_t flag = 0;
  switch (random_() % 8) {
    case 0:
      return ended(heddle_array_set_requires_grad(array(), random_() % 3 != 0, &error), error);
    case 1:
      return ended(heddle_backward(array(), random_() % 2 ? array() : nullptr,
                                   static_cast<std::int32_t>(random_() % 2), &error),
                   error);
    case 2:
      return make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** failure) {
        return heddle_array_grad(array(), out, failure);
      });
    case 3:
      return ended(heddle_array_clear_grad(array(), &error), error);
    case 4:
      return make<heddle_row_sparse>(rows_kind, [&](heddle_row_sparse** out, heddle_error** failure) {
        return heddle_array_row_sparse_grad(array(), out, failure);
      });
    case 5:
      return ended(heddle_array_lend_gradient_memory(array(), array(), &error), error);
    case 6:
      return ended(heddle_array_requires_grad(array(), sometimes_null(&flag), &error), error);
    default:
      return ended(heddle_recording_set(random_() % 4 != 0, sometimes_null(&flag), &error), error);
  }
}

void Caller::others() {
  heddle_error* error = nullptr;
  const char* name = nullptr;
  switch (random_() % 7) {
    case 0:
      return make<heddle_generator>(generator_kind, [&](heddle_generator** out, heddle_error** failure) {
        return heddle_generator_create(random_(), out, failure);
      });
    case 1:
      return make<heddle_archive>(archive_kind, heddle_archive_create);
    case 2:
      return ended(
          heddle_archive_set(any<heddle_archive>(archive_kind), sometimes_null("weight"), array(), &error),
          error);
    case 3:
      return make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** failure) {
        return heddle_archive_get(any<heddle_archive>(archive_kind), sometimes_null("weight"), out, failure);
      });
    case 4:
      return ended(heddle_archive_name(any<heddle_archive>(archive_kind), random_() % 3,
                                       sometimes_null(&name), &error),
                   error);
    case 5:
      return make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** failure) {
        return heddle_row_sparse_parts(any<heddle_row_sparse>(rows_kind), nullptr, out, nullptr, failure);
      });
    default: {
      // Only copies go to another engine, since ops of two engines on shared memory would be unordered.
      const auto copy = static_cast<std::int32_t>(random_() % 2);
      heddle_dl_managed_tensor_versioned* tensor = nullptr;
      const heddle_status status = heddle_array_to_dlpack(array(), copy, sometimes_null(&tensor), &error);
      ended(status, error);
      if (status != HEDDLE_OK) return;
      if (!copy) return tensor->deleter(tensor);
      make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** failure) {
        const heddle_status taken = heddle_array_from_dlpack(
            any<heddle_engine>(engine_kind), tensor, static_cast<std::int32_t>(random_() % 2), out, failure);
        if (taken != HEDDLE_OK) tensor->deleter(tensor);
        return taken;
      });
    }
  }
}

void put_engine() {
  heddle_engine* engine = nullptr;
  if (heddle_engine_create(nullptr, &engine, nullptr) != HEDDLE_OK) std::abort();
  pool.put(engine_kind, engine);
}

void Caller::call() {
  if (random_() % 10 == 0) make_plain();
  switch (random_() % 16) {
    case 0:
    case 1:
      return create();
    case 2:
      return view();
    case 3:
      return change();
    case 4:
    case 5:
      return look();
    case 6:
      return others();
    case 7:
      return differentiate();
    case 8: {
      const auto kind = static_cast<int>(random_() % kinds);
      if (has_threads(kind) && random_() % (kind == engine_kind ? 300 : 10) != 0) return;
      count(destroy(kind, pool.get(kind, random_)));
      if (kind == engine_kind) put_engine();
      return;
    }
    case 9:
      return optimize();
    case 10:
      return communicate();
    case 11:
      return use_store();
    case 12:
      return train();
    default:
      return call_operator();
  }
}

}  // namespace random_calls

namespace {

using namespace random_calls;

void run_thread(std::uint64_t seed, long calls) {
  Caller caller(seed);
  for (long i = 0; i < calls; ++i) caller.call();
}

}  // namespace

int main(int argc, char** argv) {
  const long calls = argc > 1 ? std::atol(argv[1]) : 20000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  one_thread = threads == 1;
  heddle_build build{};
  build.struct_size = sizeof build;
  if (heddle_build_describe(&build) != HEDDLE_OK || !build.checked) {
    std::fprintf(stderr, "capi_random: set HEDDLE_CHECK=1\n");
    return 1;
  }
  // Silences the log of unseen errors, of which the random calls cause many on purpose.
  heddle_log_set([](void*, const char*) {}, nullptr, nullptr, nullptr);
  for (int i = 0; i < 3; ++i) put_engine();
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i)
      all.emplace_back(run_thread, seed * 1000 + static_cast<std::uint64_t>(i), calls / threads);
  }
  pool.destroy_all();
  std::printf("%ld calls: %ld succeeded, %ld failed; %ld lent, %ld given back\n", calls, succeeded.load(),
              failed.load(), lent.load(), given_back.load());
  return lent == given_back && succeeded > calls / 20 ? 0 : 1;
}
