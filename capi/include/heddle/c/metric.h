// Metrics: numbers about predictions, accumulated over batches, by their names. docs/training.md says more, `heddle metrics` lists them.
//
//   heddle_metric* accuracy = NULL;
//   heddle_metric_create("Accuracy", NULL, 0, NULL, 0, NULL, &accuracy, &error);
//   heddle_array* batch[] = {logits, labels};
//   heddle_metric_update(accuracy, batch, 2, &error);
//   heddle_metric_value(accuracy, &value, &error);
#pragma once

#include <heddle/c/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_metric_kind
    heddle_metric_kind;                      // the description of a metric; lives as long as the process
typedef struct heddle_metric heddle_metric;  // a handle on a metric and its state

// The name, documentation and signature of a metric. All texts are static, and none is null.
typedef struct heddle_metric_info {
  size_t struct_size;  // sizeof(heddle_metric_info), set by the caller
  const char* name;
  const char* documentation;  // plain text on one line
  const char* signature;      // "TopK(k=5)"
  size_t argument_count;
  size_t input_count;  // arrays of heddle_metric_update, of which the last ones may be optional
} heddle_metric_info;

HEDDLE_API heddle_status heddle_metric_kind_count(size_t* count);
HEDDLE_API heddle_status heddle_metric_kind_at(size_t index, const heddle_metric_kind** kind,
                                               heddle_error** error);
HEDDLE_API heddle_status heddle_metric_kind_find(const char* name, const heddle_metric_kind** kind,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_metric_kind_describe(const heddle_metric_kind* kind, heddle_metric_info* info,
                                                     heddle_error** error);
HEDDLE_API heddle_status heddle_metric_kind_argument(const heddle_metric_kind* kind, size_t index,
                                                     heddle_argument_info* info, heddle_error** error);
// The name of an array of heddle_metric_update, and whether it has to be there. The text is static.
HEDDLE_API heddle_status heddle_metric_kind_input(const heddle_metric_kind* kind, size_t index,
                                                  const char** name, int32_t* required, heddle_error** error);

// Makes a metric by its name. `values` are its first arguments in their order, `named` are further ones; the remaining ones have
// their defaults. Its arrays belong to `engine`; null: the default engine.
HEDDLE_API heddle_status heddle_metric_create(const char* name, const heddle_value* values,
                                              size_t value_count, const heddle_named_value* named,
                                              size_t named_count, heddle_engine* engine,
                                              heddle_metric** metric, heddle_error** error);
HEDDLE_API heddle_status heddle_metric_destroy(heddle_metric* metric);

// Adds a batch; null: an optional array that is not given. Pushes ops and does not wait: an op that fails leaves its error in the state.
HEDDLE_API heddle_status heddle_metric_update(heddle_metric* metric, heddle_array* const* arrays,
                                              size_t count, heddle_error** error);
// The metric of all batches, as an array (f64) or, of a metric with one number, as that number. heddle_metric_value blocks.
HEDDLE_API heddle_status heddle_metric_result(const heddle_metric* metric, heddle_array** result,
                                              heddle_error** error);
HEDDLE_API heddle_status heddle_metric_value(const heddle_metric* metric, double* value,
                                             heddle_error** error);
// Forgets all batches, and errors.
HEDDLE_API heddle_status heddle_metric_reset(heddle_metric* metric, heddle_error** error);
// What is known of all batches: a new handle on the live array (f64). heddle_all_reduce sums those of several ranks.
HEDDLE_API heddle_status heddle_metric_state(const heddle_metric* metric, heddle_array** state,
                                             heddle_error** error);
// Adds the batches of another metric's state.
HEDDLE_API heddle_status heddle_metric_merge(heddle_metric* metric, const heddle_array* state,
                                             heddle_error** error);
// A text such as "Accuracy: 0.9375". Blocks. The caller frees *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_metric_text(const heddle_metric* metric, char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
