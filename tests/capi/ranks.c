// Communicators with all ranks in one process.
#include "support.h"

static const float kValues[] = {1, 2, 3, 4};

static void alone(heddle_engine* engine) {
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* communicator = NULL;
  OK(heddle_communicator_create(&options, &communicator, NULL));
  int32_t rank = -1, size = -1;
  OK(heddle_communicator_rank(communicator, &rank, &size, NULL));
  CHECK(rank == 0 && size == 1);
  heddle_array* array = new_vector(engine, kValues, 4);
  OK(heddle_all_reduce(communicator, array, array, HEDDLE_SUM, NULL));
  holds(array, kValues, 4);
  heddle_var* var = NULL;
  OK(heddle_communicator_var(communicator, &var, NULL));
  OK(heddle_wait(engine, var, NULL));
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
  OK(heddle_communicator_destroy(communicator));
}

static void two_ranks(heddle_engine* engine) {
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* ranks[2] = {NULL, NULL};
  if (is_scheduler("naive")) {  // naive runs ops inside pushes, so ranks would wait for each other for ever
    IS(heddle_communicator_create_local(&options, 2, ranks, NULL), HEDDLE_INVALID_ARGUMENT);
    return;
  }
  OK(heddle_communicator_create_local(&options, 2, ranks, NULL));
  heddle_array *whole[2], *half[2];
  const float other[] = {10, 20, 30, 40}, zeros[2] = {0};
  for (int i = 0; i < 2; ++i) {
    whole[i] = new_vector(engine, i ? other : kValues, 4);
    half[i] = new_vector(engine, zeros, 2);
  }
  for (int i = 0; i < 2; ++i) OK(heddle_reduce_scatter(ranks[i], whole[i], half[i], HEDDLE_SUM, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_all_gather(ranks[i], half[i], whole[i], NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_all_reduce(ranks[i], whole[i], whole[i], HEDDLE_MAX, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_barrier(ranks[i], NULL));
  const float sums[] = {11, 22, 33, 44};
  for (int i = 0; i < 2; ++i) OK(heddle_communicator_wait(ranks[i], NULL));
  for (int i = 0; i < 2; ++i) holds(whole[i], sums, 4);
  OK(heddle_array_fill(half[1], 9, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_broadcast(ranks[i], half[i], 1, NULL));
  const float nines[] = {9, 9};
  holds(half[0], nines, 2);
  IS(heddle_all_reduce(ranks[0], whole[0], whole[0], 5, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_broadcast(ranks[0], whole[0], 2, NULL), HEDDLE_INVALID_ARGUMENT);
  // An error of comm, thrown inside an op, reaches a wait of the engine's library.
  heddle_var* var = NULL;
  OK(heddle_array_var(whole[0], &var, NULL));
  OK(heddle_all_reduce(ranks[0], whole[0], whole[0], HEDDLE_SUM, NULL));
  OK(heddle_all_reduce(ranks[1], half[1], half[1], HEDDLE_SUM, NULL));
  IS(heddle_wait(engine, var, NULL), HEDDLE_COMM_MISMATCH);
  IS(heddle_array_wait(half[1], NULL), HEDDLE_COMM_MISMATCH);
  OK(heddle_communicator_abort(ranks[0], "enough", NULL));
  OK(heddle_var_destroy(var));
  for (int i = 0; i < 2; ++i) {
    OK(heddle_array_destroy(whole[i]));
    OK(heddle_array_destroy(half[i]));
    OK(heddle_communicator_destroy(ranks[i]));
  }
}

static void the_largest_options_are_refused(heddle_engine* engine) {
  heddle_communicator* communicator = NULL;
  heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  for (int i = 0; i < 4; ++i) {
    const int64_t timeouts[] = {INT64_MAX, INT64_MIN, 0, 0};
    const int32_t gpus[] = {0, 0, INT32_MIN, -1};
    options.timeout = timeouts[i];
    options.gpu = gpus[i];
    IS(heddle_communicator_create_local(&options, 1, &communicator, NULL), HEDDLE_INVALID_ARGUMENT);
  }
  options.timeout = 1;  // nanoseconds; rounded up, since 0 means the default
  options.gpu = INT32_MAX;
  OK(heddle_communicator_create_local(&options, 1, &communicator, NULL));
  OK(heddle_communicator_destroy(communicator));
}

static void exchange(heddle_communicator* rank, int index, heddle_engine* engine) {
  const float mine[] = {1, 2, 3, 4}, other[] = {10, 20, 30, 40}, zeros[4] = {0};
  heddle_array *in = new_vector(engine, index ? other : mine, 4), *out = new_vector(engine, zeros, 4);
  OK(heddle_all_to_all(rank, in, NULL, out, NULL, NULL));
  const float firsts[] = {1, 2, 10, 20}, lasts[] = {3, 4, 30, 40};
  holds(out, index ? lasts : firsts, 4);
  const int64_t three_one[] = {3, 1}, one_three[] = {1, 3};
  OK(heddle_all_to_all(rank, in, index ? one_three : three_one, out, index ? one_three : three_one, NULL));
  const float most[] = {1, 2, 3, 10}, rest[] = {4, 20, 30, 40};
  holds(out, index ? rest : most, 4);
  IS(heddle_all_to_all(rank, in, three_one, out, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_reduce(rank, in, 1, HEDDLE_SUM, NULL));
  const float sums[] = {11, 22, 33, 44};
  holds(in, index ? sums : mine, 4);
  if (index == 0) OK(heddle_send(rank, in, 1, NULL));
  if (index == 1) OK(heddle_recv(rank, out, 0, NULL));
  if (index == 1) holds(out, mine, 4);
  IS(heddle_send(rank, in, index, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_recv(rank, out, 2, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_communicator_wait(rank, NULL));
  OK(heddle_array_destroy(in));
  OK(heddle_array_destroy(out));
}

// Runs all calls of exchange() on a communicator, then on one split from it.
static heddle_engine* engine_of_ranks;

static void exchange_and_split(heddle_communicator* rank, int index) {
  exchange(rank, index, engine_of_ranks);
  heddle_communicator *part = NULL, *none = rank;
  int32_t number = -1, size = -1;
  OK(heddle_communicator_split(rank, 3, -index, &part, NULL));  // the keys reverse the order of the ranks
  OK(heddle_communicator_rank(part, &number, &size, NULL));
  CHECK(number == 1 - index && size == 2);
  exchange(part, number, engine_of_ranks);
  IS(heddle_communicator_grow(part, 0, 0, &none, NULL), HEDDLE_INVALID_ARGUMENT);  // split() made `part`
  OK(heddle_communicator_destroy(part));
  OK(heddle_communicator_split(rank, -1, 0, &none, NULL));
  CHECK(!none);
}

static void shrink(heddle_communicator* rank, int index) {
  heddle_communicator* survivors = NULL;
  heddle_array* array = new_vector(engine_of_ranks, kValues, 4);
  OK(heddle_communicator_shrink(rank, &survivors, NULL));
  OK(heddle_all_reduce(rank, array, array, HEDDLE_SUM, NULL));
  IS(heddle_array_wait(array, NULL), HEDDLE_COMM_ABORTED);
  clear_poison(engine_of_ranks, array);
  exchange(survivors, index, engine_of_ranks);
  OK(heddle_communicator_destroy(survivors));
  OK(heddle_array_destroy(array));
}

static void ranks_exchange(heddle_engine* engine) {
  if (is_scheduler("naive")) return;
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* ranks[2] = {NULL, NULL};
  OK(heddle_communicator_create_local(&options, 2, ranks, NULL));
  engine_of_ranks = engine;
  on_two_ranks(ranks, exchange_and_split);
  char* text = NULL;
  OK(heddle_communicator_flight_recorder(ranks[0], &text, NULL));
  CHECK(strstr(text, "all_to_all") != NULL);
  OK(heddle_text_destroy(text));
  on_two_ranks(ranks, shrink);
  for (int i = 0; i < 2; ++i) OK(heddle_communicator_destroy(ranks[i]));
}

static void a_job_of_one_rank_meets_again(heddle_engine* engine) {
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator *communicator = NULL, *grown = NULL;
  OK(heddle_communicator_create(&options, &communicator, NULL));
  const char* backend = NULL;
  OK(heddle_communicator_backend(communicator, &backend, NULL));
  CHECK(strlen(backend) > 0);
  heddle_array *shared = NULL, *other = NULL;
  const int64_t shape[] = {2, 2};
  OK(heddle_communicator_shared_array(communicator, HEDDLE_F32, shape, 2, &shared, NULL));
  IS(heddle_communicator_shared_array(communicator, 99, shape, 2, &other, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_fill(shared, 2, NULL));
  IS(heddle_communicator_grow(communicator, 0, INT64_MAX, &grown, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_communicator_grow(communicator, 0, INT64_MIN, &grown, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_communicator_grow(communicator, -1, 0, &grown, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_communicator_grow(communicator, 0, 0, &grown, NULL));
  OK(heddle_communicator_destroy(communicator));
  OK(heddle_all_reduce(grown, shared, shared, HEDDLE_SUM, NULL));  // `grown` lives on
  const float twos[] = {2, 2, 2, 2};
  holds(shared, twos, 4);
  OK(heddle_array_destroy(shared));
  OK(heddle_communicator_destroy(grown));
}

void test_ranks(void) {
  heddle_engine* engine = new_engine();
  alone(engine);
  two_ranks(engine);
  the_largest_options_are_refused(engine);
  ranks_exchange(engine);
  a_job_of_one_rank_meets_again(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
