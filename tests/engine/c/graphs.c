// Graphs with slots, through the C ABI.
#include "check.h"

struct step {
  heddle_engine* engine;
  heddle_var* weight;
  heddle_slot *rate, *unused;
  int value;
  struct job job;
  heddle_status end_capture_with;
};

static heddle_status add_rate(void* ctx, const heddle_run* run, heddle_error** error) {
  struct step* step = ctx;
  void* value = NULL;
  (void)run;
  const heddle_status status = heddle_slot_value(step->rate, &value, error);
  if (status == HEDDLE_OK) step->value += *(int*)value;
  return status;
}

static void destroy_step(void* ctx) { destroy_job(&((struct step*)ctx)->job); }

static heddle_status capture_step(void* ctx, heddle_error** error) {
  struct step* step = ctx;
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &step->weight, .mutate_count = 1};
  OK(heddle_slot_create(step->engine, &step->rate, error));
  OK(heddle_slot_create(step->engine, &step->unused, error));
  OK(heddle_push(step->engine, add_rate, step, destroy_step, &options, error));
  OK(heddle_push(step->engine, add_rate, step, destroy_step, &options, error));
  IS(heddle_wait(step->engine, step->weight, NULL), HEDDLE_FAILED);
  IS(heddle_engine_destroy(step->engine, NULL), HEDDLE_FAILED);
  if (step->end_capture_with != HEDDLE_OK) OK(heddle_error_create(HEDDLE_USER + 7, "no graph", NULL, error));
  return step->end_capture_with;
}

static void count_destroyed(void* value) { ++((int*)value)[1]; }

static void launches(struct step* step, heddle_graph* graph) {
  int set[2] = {1, 0}, bound[2] = {10, 0};
  heddle_binding set_rate = {step->rate, set, count_destroyed},
                 bind_rate = {step->rate, bound, count_destroyed};
  const heddle_binding no_value = {step->unused, NULL, NULL};
  IS(heddle_graph_launch(graph, &bind_rate, 1, NULL), HEDDLE_INVALID_ARGUMENT);  // `unused` is not set
  CHECK(bound[1] == 1);
  OK(heddle_graph_set(graph, &no_value, NULL));  // null is a valid value
  OK(heddle_graph_set(graph, &set_rate, NULL));
  OK(heddle_graph_launch(graph, NULL, 0, NULL));
  OK(heddle_graph_launch(graph, &bind_rate, 1, NULL));
  OK(heddle_wait_all(step->engine, NULL));
  CHECK(step->value == 22 && bound[1] == 2 && set[1] == 0);
  const heddle_binding twice[2] = {bind_rate, bind_rate};
  IS(heddle_graph_launch(graph, twice, 2, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_graph_launch(graph, NULL, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_graph_launch(NULL, twice, 2, NULL), HEDDLE_INVALID_ARGUMENT);
  bind_rate.slot = NULL;
  IS(heddle_graph_launch(graph, &bind_rate, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_graph_set(graph, &bind_rate, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_graph_set(graph, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(bound[1] == 8);
  void* value = NULL;
  IS(heddle_slot_value(step->rate, &value, NULL), HEDDLE_FAILED);  // readable only inside ops of the graph
  OK(heddle_graph_destroy(graph));
  OK(heddle_wait_all(step->engine, NULL));
  CHECK(set[1] == 1);
}

void test_graphs(void) {
  struct step step = {.engine = new_engine()};
  step.weight = new_var(step.engine);
  heddle_graph* graph = NULL;
  step.end_capture_with = HEDDLE_USER;
  heddle_error* why = NULL;
  IS(heddle_capture(step.engine, capture_step, &step, "step", NULL, &graph, &why), HEDDLE_USER + 7);
  CHECK(!graph && step.job.destroyed == 2);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(why, &info));
  CHECK(strcmp(info.message, "no graph") == 0);
  OK(heddle_error_destroy(why));
  OK(heddle_slot_destroy(step.rate));
  OK(heddle_slot_destroy(step.unused));
  step.end_capture_with = HEDDLE_OK;
  OK(heddle_capture(step.engine, capture_step, &step, "step", NULL, &graph, NULL));
  size_t ops = 0;
  OK(heddle_graph_size(graph, &ops, NULL));
  CHECK(ops == 2);
  launches(&step, graph);
  CHECK(step.job.destroyed == 4);
  heddle_slot* slot = NULL;
  IS(heddle_slot_create(step.engine, &slot, NULL), HEDDLE_FAILED);  // no capture is in progress
  OK(heddle_slot_destroy(step.rate));
  OK(heddle_slot_destroy(step.unused));
  OK(heddle_var_destroy(step.weight));
  OK(heddle_engine_destroy(step.engine, NULL));
}
