// Modules: functions on arrays with parameters, buffers and modules inside, each under a name; and the layers of the library, by
// their names. docs/training.md says more.
//
//   const heddle_layer* dense = NULL;
//   heddle_layer_find("Dense", &dense, NULL);
//   heddle_value sizes[] = {{.kind = HEDDLE_VALUE_INTEGER, .as.integer = 784}, {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 10}};
//   heddle_module* net = NULL;
//   heddle_module_make(dense, sizes, 2, NULL, 0, NULL, &net, &error);
//   heddle_module_apply(net, images, &logits, &error);
#pragma once

#include <heddle/c/operator.h>
#include <heddle/c/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_layer heddle_layer;    // what a layer takes; lives as long as the process
typedef struct heddle_module heddle_module;  // a handle on a module: destroy it before its engine

// All texts are static, and none is null.
typedef struct heddle_layer_info {
  size_t struct_size;  // sizeof(heddle_layer_info), set by the caller
  const char* name;
  const char* family;
  const char* documentation;  // plain text on one line
  const char* signature;      // "MaxPool2d(kernel, stride=0, padding=0)"
  size_t argument_count;
} heddle_layer_info;

HEDDLE_API heddle_status heddle_layer_count(size_t* count);
HEDDLE_API heddle_status heddle_layer_at(size_t index, const heddle_layer** layer, heddle_error** error);
HEDDLE_API heddle_status heddle_layer_find(const char* name, const heddle_layer** layer,
                                           heddle_error** error);
HEDDLE_API heddle_status heddle_layer_describe(const heddle_layer* layer, heddle_layer_info* info,
                                               heddle_error** error);
HEDDLE_API heddle_status heddle_layer_argument(const heddle_layer* layer, size_t index,
                                               heddle_argument_info* info, heddle_error** error);

// Makes a layer: `values` are its first arguments in their order, `named` are others, the rest have their defaults. `engine` is that
// of its arrays; null: the default engine.
HEDDLE_API heddle_status heddle_module_make(const heddle_layer* layer, const heddle_value* values,
                                            size_t value_count, const heddle_named_value* named,
                                            size_t named_count, heddle_engine* engine, heddle_module** module,
                                            heddle_error** error);
// Modules of one engine, one after the other: the first one is the child "0". `engine` as above.
HEDDLE_API heddle_status heddle_module_sequential(heddle_module* const* modules, size_t count,
                                                  heddle_engine* engine, heddle_module** module,
                                                  heddle_error** error);

// The function of a program's own module; it is called on the thread of the call. It writes new handles to `results`,
// which has room for `room`, and their number to *result_count; the library owns them then. Ops and errors name the
// line of the call.
typedef heddle_status (*heddle_forward_fn)(void* ctx, heddle_array* const* arguments, size_t argument_count,
                                           heddle_array** results, size_t room, size_t* result_count,
                                           heddle_error** error);
// Makes a module of the program's own, with nothing inside at first. With a null `forward` it only holds other modules,
// and is never called. destroy(ctx) is called when the module is gone, on any thread, or if the creation fails; it may
// be null.
HEDDLE_API heddle_status heddle_module_create(const char* class_name, heddle_forward_fn forward, void* ctx,
                                              heddle_destroy_fn destroy, heddle_engine* engine,
                                              heddle_module** module, heddle_error** error);
// These register in such a module, under a name without a dot that nothing in it has. add_child: a module.
// add_parameter: a leaf (heddle_array_set_requires_grad), which is trained. add_buffer: an array that forward
// changes, and that the state has if it is saved.
HEDDLE_API heddle_status heddle_module_add_child(heddle_module* module, const char* name,
                                                 const heddle_module* child, heddle_error** error);
HEDDLE_API heddle_status heddle_module_add_parameter(heddle_module* module, const char* name,
                                                     const heddle_array* leaf, heddle_error** error);
HEDDLE_API heddle_status heddle_module_add_buffer(heddle_module* module, const char* name,
                                                  const heddle_array* array, int32_t saved,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_module_destroy(heddle_module* module);

// Calls the module on arrays of its engine. Writes new handles to `results`, which has room for `room`. Fails for what
// the module refuses. The first call after anything was registered also fails if it changed an array, or used a leaf,
// that is neither an argument, nor made by the call, nor registered.
HEDDLE_API heddle_status heddle_module_call(const heddle_module* module, heddle_array* const* arguments,
                                            size_t argument_count, heddle_array** results, size_t room,
                                            size_t* result_count, heddle_error** error);
// Calls the module on one array. The module must have one result.
HEDDLE_API heddle_status heddle_module_apply(const heddle_module* module, heddle_array* argument,
                                             heddle_array** result, heddle_error** error);

#define HEDDLE_MODULE_PARAMETERS ((int32_t)0)  // the parameters to be trained: all that are not frozen
#define HEDDLE_MODULE_STATE ((int32_t)1)  // all parameters and saved buffers: what a checkpoint has to hold
// Arrays by their paths, "0.weight", for heddle_trainer_create and heddle_checkpoint: the first `room` of `count`.
// Names are static; the caller owns the handles.
HEDDLE_API heddle_status heddle_module_arrays(const heddle_module* module, int32_t which,
                                              heddle_named_array* arrays, size_t room, size_t* count,
                                              heddle_error** error);

// Training (1, at first) or inference (0), here and in all modules inside.
HEDDLE_API heddle_status heddle_module_train(heddle_module* module, int32_t on, heddle_error** error);
HEDDLE_API heddle_status heddle_module_training(const heddle_module* module, int32_t* on,
                                                heddle_error** error);
// Frozen parameters require no gradient. Make the trainer afterwards.
HEDDLE_API heddle_status heddle_module_freeze(heddle_module* module, int32_t on, heddle_error** error);
// "Dense(784, 10)", and a line for each child; freed with heddle_text_destroy.
HEDDLE_API heddle_status heddle_module_text(const heddle_module* module, char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
