// Trainers and checkpoints through the C ABI.
#include <unistd.h>

#include "support.h"

static const float kValues[] = {1, 2};

static heddle_array* new_leaf(heddle_engine* engine) {
  heddle_array* leaf = new_vector(engine, kValues, 2);
  OK(heddle_array_set_requires_grad(leaf, 1, NULL));
  return leaf;
}

// Computes the gradient of the sum of squares, twice the leaf.
static void backward_from(heddle_array* leaf) {
  heddle_array *square = apply("square", leaf, NULL), *loss = apply("sum", square, NULL);
  OK(heddle_backward(loss, NULL, 0, NULL));
  OK(heddle_array_destroy(loss));
  OK(heddle_array_destroy(square));
}

// A schedule: learning rate 0 at the first step, then 0.25.
static double warm_up(void* ctx, int64_t step) {
  (void)ctx;
  return step == 0 ? 0 : 0.25;
}

static heddle_trainer* new_trainer(const heddle_named_array* parameters, heddle_kvstore* store,
                                   atomic_int* destroyed) {
  const heddle_parameter momentum = {"momentum", 0.5};
  const heddle_trainer_options options = {.struct_size = sizeof options,
                                          .parameters = &momentum,
                                          .parameter_count = 1,
                                          .store = store,
                                          .schedule = warm_up,
                                          .schedule_ctx = destroyed,
                                          .schedule_destroy = give_back};
  heddle_trainer* trainer = NULL;
  OK(heddle_trainer_create(parameters, 1, &options, &trainer, NULL));
  return trainer;
}

static void steps_follow_the_schedule(heddle_engine* engine) {
  heddle_array* weight = new_leaf(engine);
  const heddle_named_array parameters[] = {{"weight", weight}};
  atomic_int destroyed = 0;
  heddle_trainer* trainer = new_trainer(parameters, NULL, &destroyed);
  IS(heddle_trainer_step(trainer, 1, NULL), HEDDLE_INVALID_ARGUMENT);  // no gradient was computed yet
  double lr = -1;
  int64_t steps = -1;
  for (int i = 0; i < 3; ++i) {
    OK(heddle_trainer_learning_rate(trainer, &lr, NULL));
    OK(heddle_trainer_steps(trainer, &steps, NULL));
    CHECK(lr == (i == 0 ? 0 : 0.25) && steps == i);
    backward_from(weight);
    OK(heddle_trainer_step(trainer, 0.5, NULL));
    heddle_array* grad = weight;
    OK(heddle_array_grad(weight, &grad, NULL));
    CHECK(!grad);
    // momentum 0.5: - 0.25 * (0.5 * 1 + 1) - 0.25 * (0.5 * 1.5 + 0.625)
    const float expected[3] = {1, 0.625F, 0.28125F};
    const float both[] = {expected[i], 2 * expected[i]};
    holds(weight, both, 2);
  }
  OK(heddle_array_destroy(weight));
  CHECK(destroyed == 0);
  OK(heddle_trainer_destroy(trainer));
  CHECK(destroyed == 1);
}

static void bad_trainers_are_refused(heddle_engine* engine) {
  heddle_array *weight = new_leaf(engine), *fixed = new_vector(engine, kValues, 2);
  const heddle_named_array good = {"weight", weight}, nameless = {NULL, weight}, no_leaf = {"fixed", fixed};
  heddle_engine* other = new_engine();
  heddle_array* foreign = new_leaf(other);
  const heddle_named_array mixed[] = {good, {"foreign", foreign}};
  atomic_int destroyed = 0;
  heddle_trainer_options options = {
      .struct_size = sizeof options, .schedule_ctx = &destroyed, .schedule_destroy = give_back};
  heddle_trainer* trainer = NULL;
  IS(heddle_trainer_create(&nameless, 1, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_trainer_create(&no_leaf, 1, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_trainer_create(mixed, 2, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_trainer_create(NULL, 0, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_trainer_create(&good, 1, &options, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  options.optimizer = "hope";
  IS(heddle_trainer_create(&good, 1, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(destroyed == 6);
  options.struct_size = 1;
  IS(heddle_trainer_create(&good, 1, &options, &trainer, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(destroyed == 6 && !trainer);
  OK(heddle_trainer_destroy(NULL));
  OK(heddle_array_destroy(foreign));
  OK(heddle_engine_destroy(other, NULL));
  OK(heddle_array_destroy(fixed));
  OK(heddle_array_destroy(weight));
}

static void a_bad_batch_is_forgotten(heddle_engine* engine) {
  heddle_array *weight = new_leaf(engine), *seed = new_vector(engine, kValues, 2);
  const heddle_named_array parameters[] = {{"weight", weight}};
  heddle_kvstore* store = NULL;
  const heddle_kvstore_options options = {.struct_size = sizeof options, .engine = engine};
  OK(heddle_kvstore_create("local", &options, &store, NULL));
  atomic_int destroyed = 0;
  heddle_trainer* trainer = new_trainer(parameters, store, &destroyed);
  backward_from(weight);
  OK(heddle_trainer_step(trainer, 1, NULL));
  heddle_array* square = apply("square", weight, NULL);
  poison(engine, seed);
  OK(heddle_backward(square, seed, 0, NULL));
  OK(heddle_trainer_step(trainer, 1, NULL));
  IS(heddle_array_wait(weight, NULL), HEDDLE_USER + 3);
  OK(heddle_trainer_clear_errors(trainer, NULL));
  int64_t steps = -1;
  OK(heddle_trainer_steps(trainer, &steps, NULL));
  CHECK(steps == 1);
  holds(weight, kValues, 2);
  // The trainer uses this store, with the parameters' indices as keys.
  const heddle_array* const out[] = {seed};
  clear_poison(engine, seed);
  OK(heddle_kvstore_pull(store, (heddle_key){.number = 0}, out, 1, NULL));
  holds(seed, kValues, 2);
  OK(heddle_kvstore_destroy(store));
  OK(heddle_array_destroy(square));
  backward_from(weight);
  OK(heddle_trainer_step(trainer, 1, NULL));
  OK(heddle_trainer_destroy(trainer));
  OK(heddle_array_destroy(seed));
  OK(heddle_array_destroy(weight));
}

static void a_state_goes_on(heddle_engine* engine) {
  heddle_array *first = new_leaf(engine), *second = new_leaf(engine);
  const heddle_named_array one = {"weight", first}, two = {"weight", second};
  atomic_int destroyed = 0;
  heddle_trainer *trainer = new_trainer(&one, NULL, &destroyed), *other = new_trainer(&two, NULL, &destroyed);
  heddle_archive *state = NULL, *empty = NULL;
  backward_from(first);
  OK(heddle_trainer_step(trainer, 1, NULL));
  OK(heddle_trainer_state(trainer, &state, NULL));
  OK(heddle_trainer_set_state(other, state, NULL));
  int64_t steps = -1;
  OK(heddle_trainer_steps(other, &steps, NULL));
  CHECK(steps == 1);
  OK(heddle_recording_set(0, NULL, NULL));
  OK(heddle_array_assign(second, first, NULL));
  OK(heddle_recording_set(1, NULL, NULL));
  backward_from(first);
  backward_from(second);
  OK(heddle_trainer_step(trainer, 1, NULL));
  OK(heddle_trainer_step(other, 1, NULL));
  const float expected[] = {0.25F, 0.5F};  // 1 - 0.25 * (0.5 * 2 + 2), with the momentum of both steps
  holds(first, expected, 2);
  holds(second, expected, 2);
  OK(heddle_archive_create(&empty, NULL));
  IS(heddle_trainer_set_state(other, empty, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_destroy(empty));
  OK(heddle_archive_destroy(state));
  OK(heddle_trainer_destroy(other));
  OK(heddle_trainer_destroy(trainer));
  OK(heddle_array_destroy(second));
  OK(heddle_array_destroy(first));
}

static void load_elsewhere(heddle_engine* engine, const char* path, const heddle_array* expected);

static void checkpoints_hold_a_run(heddle_engine* engine, const char* path) {
  heddle_array* weight = new_leaf(engine);
  const heddle_named_array parameters[] = {{"weight", weight}};
  atomic_int destroyed = 0;
  heddle_trainer* trainer = new_trainer(parameters, NULL, &destroyed);
  heddle_generator* generator = NULL;
  heddle_archive* more = NULL;
  OK(heddle_generator_create(42, &generator, NULL));
  OK(heddle_generator_set_position(generator, 7, NULL));
  OK(heddle_archive_create(&more, NULL));
  OK(heddle_archive_set(more, "best", weight, NULL));
  OK(heddle_archive_set_text(more, "layers", "2", NULL));
  heddle_counter counters[] = {{"epoch", 3}, {"batch", 14}};
  const heddle_named_generator generators[] = {{"data", generator}, {"dropout", generator}};
  heddle_checkpoint checkpoint = {.struct_size = sizeof checkpoint,
                                  .parameters = parameters,
                                  .parameter_count = 1,
                                  .trainer = trainer,
                                  .generators = generators,
                                  .generator_count = 2,
                                  .counters = counters,
                                  .counter_count = 2,
                                  .more = more};
  for (int i = 0; i < 2; ++i) {
    backward_from(weight);
    OK(heddle_trainer_step(trainer, 1, NULL));
  }
  OK(heddle_checkpoint_save_residuals(path, trainer, NULL));  // accepted, although nothing is compressed
  OK(heddle_checkpoint_save(path, &checkpoint, NULL));
  backward_from(weight);
  OK(heddle_trainer_step(trainer, 1, NULL));  // the step that a run resumed from the checkpoint has to repeat
  counters[1].name = "epoch";
  IS(heddle_checkpoint_save(path, &checkpoint, NULL), HEDDLE_INVALID_ARGUMENT);
  counters[1].name = NULL;
  IS(heddle_checkpoint_save(path, &checkpoint, NULL), HEDDLE_INVALID_ARGUMENT);
  checkpoint.struct_size = 1;
  IS(heddle_checkpoint_save(path, &checkpoint, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_destroy(more));
  OK(heddle_generator_destroy(generator));
  OK(heddle_trainer_destroy(trainer));
  load_elsewhere(engine, path, weight);
  OK(heddle_array_destroy(weight));
}

static void load_elsewhere(heddle_engine* engine, const char* path, const heddle_array* expected) {
  heddle_array* weight = new_leaf(engine);
  const heddle_named_array parameters[] = {{"weight", weight}};
  atomic_int destroyed = 0;
  heddle_trainer* trainer = new_trainer(parameters, NULL, &destroyed);
  heddle_generator *generator = NULL, *other = NULL;
  heddle_archive* more = NULL;
  OK(heddle_generator_create(1, &generator, NULL));
  OK(heddle_generator_create(1, &other, NULL));
  OK(heddle_archive_create(&more, NULL));
  OK(heddle_archive_set_text(more, "stale", "1", NULL));
  heddle_array* kept = new_leaf(engine);  // has the saved shape, so loading fills it
  OK(heddle_archive_set(more, "best", kept, NULL));
  heddle_counter counters[] = {{"batch", 0}, {"hope", 0}};
  const heddle_named_generator generators[] = {{"dropout", generator}, {"data", other}};
  heddle_checkpoint checkpoint = {.struct_size = sizeof checkpoint,
                                  .parameters = parameters,
                                  .parameter_count = 1,
                                  .trainer = trainer,
                                  .generators = generators,
                                  .generator_count = 2,
                                  .counters = counters,
                                  .counter_count = 2,
                                  .more = more};
  IS(heddle_checkpoint_load(path, &checkpoint, NULL), HEDDLE_FAILED);  // the checkpoint has no counter "hope"
  counters[1].name = "epoch";
  OK(heddle_checkpoint_load(path, &checkpoint, NULL));
  CHECK(counters[0].value == 14 && counters[1].value == 3);
  uint64_t seed = 0, position = 0;
  OK(heddle_generator_position(other, &seed, &position, NULL));
  CHECK(seed == 42 && position == 7);
  const char* text = NULL;
  heddle_array* best = NULL;
  OK(heddle_archive_text(more, "layers", &text, NULL));
  CHECK(strcmp(text, "2") == 0);
  IS(heddle_archive_text(more, "stale", &text, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_get(more, "best", &best, NULL));
  float filled[2], loaded[2];
  OK(heddle_array_read(kept, filled, sizeof filled, NULL));
  OK(heddle_array_read(best, loaded, sizeof loaded, NULL));
  CHECK(memcmp(filled, loaded, sizeof filled) == 0);
  OK(heddle_array_destroy(kept));
  backward_from(weight);
  OK(heddle_trainer_step(trainer, 1, NULL));
  float values[2];
  OK(heddle_array_read(expected, values, sizeof values, NULL));
  holds(weight, values, 2);
  heddle_archive* notes = NULL;
  OK(heddle_checkpoint_notes(path, &notes, NULL));
  OK(heddle_archive_text(notes, "layers", &text, NULL));
  CHECK(strcmp(text, "2") == 0);
  CHECK(unlink(path) == 0);
  IS(heddle_checkpoint_load(path, &checkpoint, NULL), HEDDLE_FAILED);
  OK(heddle_archive_destroy(notes));
  OK(heddle_array_destroy(best));
  OK(heddle_archive_destroy(more));
  OK(heddle_generator_destroy(generator));
  OK(heddle_generator_destroy(other));
  OK(heddle_trainer_destroy(trainer));
  OK(heddle_array_destroy(weight));
}

void test_trainers(void) {
  heddle_engine* engine = new_engine();
  char path[64];
  snprintf(path, sizeof path, "capi_abi.%ld.checkpoint", (long)getpid());
  steps_follow_the_schedule(engine);
  bad_trainers_are_refused(engine);
  a_bad_batch_is_forgotten(engine);
  a_state_goes_on(engine);
  checkpoints_hold_a_run(engine, path);
  OK(heddle_engine_destroy(engine, NULL));
}
