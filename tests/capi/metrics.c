// Metrics by name.
#include "support.h"

static heddle_array* new_matrix(heddle_engine* engine, const float* values, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  return new_array(engine, values, shape, 2);
}

static void metrics_are_described(void) {
  size_t count = 0;
  const heddle_metric_kind *kind = NULL, *found = NULL;
  OK(heddle_metric_kind_count(&count));
  CHECK(count >= 5);
  for (size_t i = 0; i < count; ++i) {
    OK(heddle_metric_kind_at(i, &kind, NULL));
    heddle_metric_info info = {.struct_size = sizeof info};
    OK(heddle_metric_kind_describe(kind, &info, NULL));
    OK(heddle_metric_kind_find(info.name, &found, NULL));
    CHECK(found == kind && info.documentation[0] && info.signature[0] && info.input_count >= 1);
    for (size_t j = 0; j < info.argument_count; ++j) {
      heddle_argument_info argument = {.struct_size = sizeof argument};
      OK(heddle_metric_kind_argument(kind, j, &argument, NULL));
      CHECK(argument.name[0]);
    }
    const char* name = NULL;
    int32_t required = 0;
    OK(heddle_metric_kind_input(kind, 0, &name, &required, NULL));
    CHECK(name[0] && required == 1);
    IS(heddle_metric_kind_input(kind, info.input_count, &name, &required, NULL), HEDDLE_INVALID_ARGUMENT);
    heddle_argument_info beyond = {.struct_size = sizeof beyond};
    IS(heddle_metric_kind_argument(kind, info.argument_count, &beyond, NULL), HEDDLE_INVALID_ARGUMENT);
  }
  IS(heddle_metric_kind_at(count, &kind, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_kind_find("Acuracy", &kind, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_metric_info info = {.struct_size = sizeof info};
  IS(heddle_metric_kind_describe((const heddle_metric_kind*)&info, &info, NULL), HEDDLE_BAD_HANDLE);
}

static double value_of(const heddle_metric* metric) {
  double value = -1;
  OK(heddle_metric_value(metric, &value, NULL));
  return value;
}

// Two of three labels are the class with the highest score; the state of one metric is added to another.
static void batches_are_counted(heddle_engine* engine) {
  const float scores[] = {1, 0, 0, 1, 1, 0};
  const int64_t labels[] = {0, 1, 1};
  heddle_array* batch[] = {new_matrix(engine, scores, 3, 2), new_indices(engine, labels, 3)};
  heddle_metric *accuracy = NULL, *other = NULL;
  OK(heddle_metric_create("Accuracy", NULL, 0, NULL, 0, engine, &accuracy, NULL));
  OK(heddle_metric_create("Accuracy", NULL, 0, NULL, 0, engine, &other, NULL));
  OK(heddle_metric_update(accuracy, batch, 2, NULL));
  CHECK(value_of(accuracy) > 0.66 && value_of(accuracy) < 0.67);
  OK(heddle_metric_update(other, batch, 2, NULL));
  heddle_array *state = NULL, *result = NULL;
  OK(heddle_metric_state(other, &state, NULL));
  OK(heddle_metric_merge(accuracy, state, NULL));
  OK(heddle_metric_result(accuracy, &result, NULL));
  double value = 0;
  OK(heddle_array_read(result, &value, sizeof value, NULL));
  CHECK(value > 0.66 && value < 0.67);
  char* text = NULL;
  OK(heddle_metric_text(accuracy, &text, NULL));
  CHECK(strncmp(text, "Accuracy: 0.666", 15) == 0);
  OK(heddle_text_destroy(text));
  OK(heddle_metric_reset(accuracy, NULL));
  CHECK(value_of(accuracy) != value_of(accuracy));  // NaN
  IS(heddle_metric_update(accuracy, batch, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_update(accuracy, batch, 9, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_update(accuracy, NULL, 2, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_merge(accuracy, batch[0], NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(state));
  OK(heddle_array_destroy(result));
  OK(heddle_metric_destroy(accuracy));
  OK(heddle_metric_destroy(other));
  OK(heddle_array_destroy(batch[0]));
  OK(heddle_array_destroy(batch[1]));
}

static void wrong_calls_are_refused(heddle_engine* engine) {
  heddle_metric* metric = NULL;
  const heddle_value real = {.kind = HEDDLE_VALUE_REAL, .as.real = 0.5};
  const heddle_named_value unknown = {"colour", real};
  IS(heddle_metric_create("Acuracy", NULL, 0, NULL, 0, engine, &metric, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_create(NULL, NULL, 0, NULL, 0, engine, &metric, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_create("Accuracy", NULL, 0, &unknown, 1, engine, &metric, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_metric_create("Accuracy", NULL, 0, NULL, 0, engine, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_metric_destroy(NULL));
  double value = 0;
  IS(heddle_metric_value(NULL, &value, NULL), HEDDLE_INVALID_ARGUMENT);
}

void test_metrics(void) {
  heddle_engine* engine = new_engine();
  metrics_are_described();
  batches_are_counted(engine);
  wrong_calls_are_refused(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
