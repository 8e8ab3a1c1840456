// Random calls for optimizers, communicators of one rank, stores, trainers and checkpoints.
#include <array>

#include "random_calls.h"

namespace random_calls {

heddle_key Caller::key() {
  static constexpr std::array kNames = {"weight", "1", "", "a\nb"};
  if (random_() % 2) return {static_cast<std::int64_t>(random_() % 2), nullptr};
  return {0, rarely() ? kNames[random_() % kNames.size()] : kNames[random_() % 2]};
}

heddle_update_options Caller::update_options() {
  heddle_update_options options{};
  options.struct_size = rarely() ? 1 : sizeof options;
  for (double& number : numbers_) number = static_cast<double>(small()) / 4;
  if (random_() % 2) options.lr = &numbers_[0];
  if (random_() % 2) options.grad_scale = &numbers_[1];
  return options;
}

void Caller::make_plain() {
  static constexpr std::int64_t kShape[] = {3, 2};
  const heddle_array_options options{sizeof options, nullptr, HEDDLE_F32, {HEDDLE_CPU, 0}};
  heddle_array* made = nullptr;
  if (heddle_array_full(&options, kShape, 2, static_cast<double>(small()), &made, nullptr) != HEDDLE_OK)
    std::abort();
  // requires_grad may only be set while no other thread uses the array, so before it is put into the pool.
  if (one_thread && random_() % 2 && heddle_array_set_requires_grad(made, 1, nullptr) != HEDDLE_OK)
    std::abort();
  pool.put(plain_kind, made);
}

// Row indices that are mostly valid for arrays of plain_kind.
heddle_array* Caller::new_indices() {
  static constexpr std::int64_t kLength = 3;
  const heddle_array_options options{sizeof options, nullptr, HEDDLE_I64, {HEDDLE_CPU, 0}};
  const auto row = static_cast<double>(rarely() ? 3 : random_() % 3);
  heddle_array* made = nullptr;
  if (heddle_array_full(&options, &kLength, 1, row, &made, nullptr) != HEDDLE_OK) std::abort();
  pool.put(array_kind, made);
  return made;
}

void Caller::make_rows() {
  static constexpr std::int64_t kShape[] = {3, 2};
  heddle_value values[3] = {};
  values[0].kind = values[1].kind = HEDDLE_VALUE_ARRAY;
  values[0].as.array = new_indices();
  values[1].as.array = plain();
  values[2].kind = HEDDLE_VALUE_INTEGERS;
  values[2].count = 2;
  values[2].as.integers = kShape;
  const heddle_operator* op = nullptr;
  if (heddle_operator_find("row_sparse", &op, nullptr) != HEDDLE_OK) std::abort();
  heddle_value result{};
  heddle_error* error = nullptr;
  const heddle_status status = heddle_operator_call(op, values, 3, nullptr, 0, nullptr, &result, 1, &error);
  ended(status, error);
  if (status == HEDDLE_OK) pool.put(rows_kind, result.as.row_sparse);
}

void Caller::optimize() {
  auto* const of = any<heddle_optimizer>(optimizer_kind);
  const heddle_update_options options = update_options();
  heddle_error* error = nullptr;
  switch (random_() % 8) {
    case 0: {
      const heddle_parameter lr = {sometimes_null("lr"), 0.1};
      return make<heddle_optimizer>(optimizer_kind, [&](heddle_optimizer** out, heddle_error** failure) {
        return heddle_optimizer_create(random_() % 2 ? "sgd" : "adam", sometimes_null(&lr), 1, out, failure);
      });
    }
    case 1:
      return ended(heddle_optimizer_update_rows(of, key(), plain(), any<heddle_row_sparse>(rows_kind),
                                                sometimes_null(&options), &error),
                   error);
    case 2: {
      std::array<heddle_parameter, 3> parameters;
      std::size_t count = 0;
      return ended(heddle_optimizer_parameters(of, sometimes_null(parameters.data()), random_() % 4,
                                               sometimes_null(&count), &error),
                   error);
    }
    case 3: {
      const char* name = nullptr;
      return ended(heddle_optimizer_name(of, sometimes_null(&name), &error), error);
    }
    case 4:
      return make<heddle_archive>(archive_kind, [&](heddle_archive** out, heddle_error** failure) {
        return heddle_optimizer_state(of, out, failure);
      });
    case 5:
      return ended(heddle_optimizer_set_state(of, any<heddle_archive>(archive_kind), &error), error);
    case 6:
      return ended(heddle_optimizer_clear_errors(of, &error), error);
    default:
      return ended(heddle_optimizer_update(of, key(), plain(), plain(), sometimes_null(&options), &error),
                   error);
  }
}

void Caller::make_communicator() {
  heddle_communicator_options options{};
  options.struct_size = rarely() ? random_() % 100 : sizeof options;
  options.engine = usual_engine();
  if (rarely()) options.timeout = random_() % 2 ? INT64_MAX : INT64_MIN;
  if (rarely()) options.gpu = random_() % 2 ? INT32_MIN : static_cast<std::int32_t>(small());
  if (rarely()) options.algorithm = random_() % 2 ? "ring" : "telepathy";
  const auto* const from = any<heddle_communicator>(communicator_kind);
  make<heddle_communicator>(communicator_kind, [&](heddle_communicator** out, heddle_error** failure) {
    switch (random_() % 5) {
      case 0:
        return heddle_communicator_create(sometimes_null(&options), out, failure);
      case 1:
        return heddle_communicator_split(from, static_cast<std::int32_t>(small()), 0, out, failure);
      case 2:
        return heddle_communicator_shrink(from, out, failure);
      case 3:
        return heddle_communicator_grow(from, static_cast<std::int32_t>(small()), small(), out, failure);
      default:
        return heddle_communicator_create_local(sometimes_null(&options), rarely() ? -1 : 1, out, failure);
    }
  });
}

void Caller::communicate() {
  if (random_() % 8 == 0) return make_communicator();
  const auto* const of = any<heddle_communicator>(communicator_kind);
  const auto reduction = static_cast<std::int32_t>(random_() % 6);
  const std::int32_t root = rarely() ? 1 : 0;
  std::int32_t rank = 0, size = 0;
  const char* backend = nullptr;
  char* text = nullptr;
  heddle_error* error = nullptr;
  heddle_array *const in = plain(), *const out = random_() % 2 ? in : plain();
  switch (random_() % 15) {
    case 0:
      return ended(heddle_all_reduce(of, in, out, reduction, &error), error);
    case 1:
      return ended(heddle_reduce_scatter(of, in, out, reduction, &error), error);
    case 2:
      return ended(heddle_all_gather(of, in, out, &error), error);
    case 3:
      return ended(heddle_broadcast(of, in, root, &error), error);
    case 4:
      return ended(heddle_reduce(of, in, root, reduction, &error), error);
    case 5: {
      const std::int64_t counts[] = {small()};
      const auto* const given = random_() % 2 ? nullptr : counts;
      return ended(heddle_all_to_all(of, in, given, out, sometimes_null(given), &error), error);
    }
    case 6:
      return ended(heddle_send(of, in, root, &error), error);
    case 7:
      return ended(heddle_recv(of, in, root, &error), error);
    case 8:
      return ended(heddle_barrier(of, &error), error);
    case 9:
      return ended(heddle_communicator_wait(of, &error), error);
    case 10:
      return ended(rarely() ? heddle_communicator_abort(of, sometimes_null("enough"), &error)
                            : heddle_communicator_backend(of, sometimes_null(&backend), &error),
                   error);
    case 11:
      return ended(heddle_communicator_rank(of, sometimes_null(&rank), sometimes_null(&size), &error), error);
    case 12:
      return make<heddle_var>(var_kind, [&](heddle_var** var, heddle_error** failure) {
        return heddle_communicator_var(of, var, failure);
      });
    case 13:
      return make<heddle_array>(array_kind, [&](heddle_array** shared, heddle_error** failure) {
        return heddle_communicator_shared_array(of, static_cast<std::int32_t>(random_() % 15) - 1, shape(),
                                                ndim(), shared, failure);
      });
    default:
      ended(heddle_communicator_flight_recorder(of, sometimes_null(&text), &error), error);
      return count(heddle_text_destroy(text));
  }
}

void Caller::use_rows_of_store() {
  auto* const of = any<heddle_kvstore>(store_kind);
  const heddle_update_options options = update_options();
  heddle_error* error = nullptr;
  switch (random_() % 4) {
    case 0: {
      const heddle_row_sparse* const rows[] = {any<heddle_row_sparse>(rows_kind),
                                               any<heddle_row_sparse>(rows_kind)};
      return ended(heddle_kvstore_push_rows(of, key(), sometimes_null(rows), random_() % 3,
                                            sometimes_null(&options), &error),
                   error);
    }
    case 1:
      return ended(heddle_kvstore_pull_rows(of, key(), new_indices(), plain(), &error), error);
    case 2:
      return make_rows();
    default:
      return make<heddle_row_sparse>(rows_kind, [&](heddle_row_sparse** out, heddle_error** failure) {
        return heddle_kvstore_pull_row_sparse(of, key(), new_indices(), out, failure);
      });
  }
}

void Caller::use_state_of_store() {
  auto* const of = any<heddle_kvstore>(store_kind);
  const auto* const state = any<heddle_archive>(archive_kind);
  const heddle_parameter lr = {sometimes_null("lr"), 0.1};
  std::int32_t rank = 0, workers = 0;
  const char* type = nullptr;
  heddle_error* error = nullptr;
  switch (random_() % 9) {
    case 0:
      return ended(
          heddle_kvstore_set_optimizer(of, random_() % 2 ? "sgd" : "adam", sometimes_null(&lr), 1, &error),
          error);
    case 1:
    case 2:
      return make<heddle_archive>(archive_kind, [&](heddle_archive** out, heddle_error** failure) {
        return random_() % 2 ? heddle_kvstore_optimizer_state(of, out, failure)
                             : heddle_kvstore_residuals(of, out, failure);
      });
    case 3:
      return ended(heddle_kvstore_set_optimizer_state(of, state, &error), error);
    case 4:
      return ended(heddle_kvstore_set_residuals(of, state, &error), error);
    case 5:
      return ended(heddle_kvstore_rank(of, sometimes_null(&rank), sometimes_null(&workers), &error), error);
    case 6:
      return ended(heddle_kvstore_type(of, sometimes_null(&type), &error), error);
    case 7:
      return make<heddle_array>(array_kind, [&](heddle_array** out, heddle_error** failure) {
        return heddle_kvstore_gradient_memory(of, key(), out, failure);
      });
    default:
      return ended(
          random_() % 2 ? heddle_kvstore_clear_errors(of, &error) : heddle_kvstore_barrier(of, &error),
          error);
  }
}

void Caller::make_store() {
  static constexpr std::array kCodecs = {"none", "fp16", "2bit:0.5", "telepathy"};
  heddle_kvstore_options how{};
  how.struct_size = rarely() ? 1 : sizeof how;
  if (random_() % 4 == 0) how.compression = kCodecs[random_() % kCodecs.size()];
  const bool over = random_() % 4 == 0;
  if (!over) how.engine = usual_engine();
  const char* const type = rarely() ? "telepathy" : over || random_() % 2 ? "allreduce" : "local";
  make<heddle_kvstore>(store_kind, [&](heddle_kvstore** made, heddle_error** failure) {
    if (!over) return heddle_kvstore_create(sometimes_null(type), sometimes_null(&how), made, failure);
    const auto* const ranks = any<heddle_communicator>(communicator_kind);
    return heddle_kvstore_create_over(sometimes_null(type), ranks, sometimes_null(&how), made, failure);
  });
  for (const heddle_key key : {heddle_key{0, nullptr}, heddle_key{1, nullptr}, heddle_key{0, "weight"}}) {
    heddle_error* error = nullptr;
    ended(heddle_kvstore_init(any<heddle_kvstore>(store_kind), key, plain(), &error), error);
  }
}

void Caller::use_store() {
  if (random_() % 24 == 0) return make_store();
  if (random_() % 4 == 0) return use_rows_of_store();
  if (random_() % 3 == 0) return use_state_of_store();
  auto* const of = any<heddle_kvstore>(store_kind);
  const heddle_update_options options = update_options();
  const heddle_array* const values[] = {plain(), plain()};
  const heddle_array* const out[] = {plain(), plain()};
  const heddle_key keys[] = {key(), key()};
  const std::size_t many = 1 + random_() % 2;
  heddle_error* error = nullptr;
  switch (random_() % 10) {
    case 0:
    case 1:
      return ended(heddle_kvstore_init(of, keys[0], values[0], &error), error);
    case 2:
      return ended(heddle_kvstore_pull(of, keys[0], sometimes_null(out), many, &error), error);
    case 3:
      return ended(
          heddle_kvstore_push_pull(of, keys[0], values, many, out, 1, sometimes_null(&options), &error),
          error);
    case 4:
      return ended(heddle_kvstore_broadcast(of, keys[0], values[0], sometimes_null(out), many, &error),
                   error);
    case 5:
      return ended(heddle_kvstore_assign(of, keys[0], values[0], &error), error);
    case 6:
      return ended(
          heddle_kvstore_push_list(of, sometimes_null(keys), values, many, sometimes_null(&options), &error),
          error);
    case 7:
      return ended(heddle_kvstore_pull_list(of, keys, sometimes_null(out), many, &error), error);
    case 8:
      return ended(
          heddle_kvstore_push_pull_list(of, keys, values, out, many, sometimes_null(&options), &error),
          error);
    default:
      return ended(
          heddle_kvstore_push(of, keys[0], sometimes_null(values), many, sometimes_null(&options), &error),
          error);
  }
}

void Caller::compute_gradient(heddle_array* leaf) {
  const heddle_operator* square = nullptr;
  heddle_value x{};
  x.kind = HEDDLE_VALUE_ARRAY;
  x.as.array = leaf;
  heddle_array* squared = nullptr;
  if (heddle_operator_find("square", &square, nullptr) != HEDDLE_OK) std::abort();
  if (heddle_operator_apply(square, &x, 1, nullptr, 0, nullptr, &squared, nullptr) != HEDDLE_OK) return;
  heddle_error* error = nullptr;
  ended(heddle_backward(squared, plain(), 0, &error), error);
  heddle_array_destroy(squared);
}

void Caller::make_trainer() {
  const heddle_named_array parameters[] = {{sometimes_null("weight"), plain()}, {"bias", plain()}};
  heddle_trainer_options options{};
  options.struct_size = rarely() ? 1 : sizeof options;
  if (random_() % 2) options.store = any<heddle_kvstore>(store_kind);
  if (random_() % 2) options.optimizer = random_() % 8 ? "adam" : "telepathy";
  options.schedule = [](void*, std::int64_t step) { return step == 3 ? -1.0 : 0.1; };
  options.schedule_destroy = [](void*) { ++given_back; };
  const heddle_trainer_options* const given = sometimes_null(&options);
  if (given && options.struct_size == sizeof options) ++lent;
  make<heddle_trainer>(trainer_kind, [&](heddle_trainer** out, heddle_error** failure) {
    return heddle_trainer_create(sometimes_null(parameters), 1 + random_() % 2, given, out, failure);
  });
  if (!one_thread) return;
  for (const heddle_named_array& one : parameters) compute_gradient(const_cast<heddle_array*>(one.array));
}

void Caller::train() {
  if (random_() % 4 == 0) return save_or_load();
  if (one_thread && random_() % 4 == 0) return compute_gradient(plain());
  auto* const of = any<heddle_trainer>(trainer_kind);
  std::int64_t steps = 0;
  double lr = 0;
  heddle_error* error = nullptr;
  switch (random_() % 7) {
    case 0:
      return make_trainer();
    case 1:
      return ended(heddle_trainer_steps(of, sometimes_null(&steps), &error), error);
    case 2:
      return ended(heddle_trainer_learning_rate(of, sometimes_null(&lr), &error), error);
    case 3:
      return ended(heddle_trainer_clear_errors(of, &error), error);
    case 4:
      return make<heddle_archive>(archive_kind, [&](heddle_archive** out, heddle_error** failure) {
        return heddle_trainer_state(of, out, failure);
      });
    case 5:
      return ended(heddle_trainer_set_state(of, any<heddle_archive>(archive_kind), &error), error);
    default:
      return ended(heddle_trainer_step(of, static_cast<double>(small()), &error), error);
  }
}

void Caller::save_or_load() {
  const heddle_named_array parameters[] = {{sometimes_null("weight"), plain()}};
  const heddle_named_generator generators[] = {{"a", any<heddle_generator>(generator_kind)},
                                               {sometimes_null("b"), any<heddle_generator>(generator_kind)}};
  heddle_counter counters[] = {{sometimes_null("epoch"), small()}};
  heddle_checkpoint checkpoint{};
  checkpoint.struct_size = rarely() ? 1 : sizeof checkpoint;
  checkpoint.parameters = sometimes_null(parameters);
  checkpoint.parameter_count = random_() % 2;
  if (random_() % 4 == 0) checkpoint.trainer = any<heddle_trainer>(trainer_kind);
  checkpoint.generators = sometimes_null(generators);
  checkpoint.generator_count = random_() % 3;
  checkpoint.counters = sometimes_null(counters);
  checkpoint.counter_count = random_() % 2;
  if (random_() % 2) checkpoint.more = any<heddle_archive>(archive_kind);
  const char* const path = sometimes_null(path_.c_str());
  heddle_error* error = nullptr;
  switch (random_() % 4) {
    case 0:
      return ended(heddle_checkpoint_save(path, sometimes_null(&checkpoint), &error), error);
    case 1:
      return ended(heddle_checkpoint_save_residuals(path, any<heddle_trainer>(trainer_kind), &error), error);
    case 2:
      return make<heddle_archive>(archive_kind, [&](heddle_archive** out, heddle_error** failure) {
        return heddle_checkpoint_notes(path, out, failure);
      });
    default:
      return ended(heddle_checkpoint_load(path, sometimes_null(&checkpoint), &error), error);
  }
}

}  // namespace random_calls
