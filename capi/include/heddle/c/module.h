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

typedef struct heddle_layer heddle_layer;    // the description of a layer; lives as long as the process
typedef struct heddle_module heddle_module;  // a handle on a module: destroy it before its engine

// The name, documentation and signature of a layer. All texts are static, and none is null.
typedef struct heddle_layer_info {
  size_t struct_size;  // sizeof(heddle_layer_info), set by the caller
  const char* name;
  const char* family;
  const char* documentation;  // plain text on one line
  const char* signature;      // "MaxPool2d(kernel, stride=0, padding=0)"
  size_t argument_count;
  size_t array_count;  // parameters and buffers, see heddle_layer_array
} heddle_layer_info;

// A parameter or buffer of a layer. All texts are static, and none is null.
typedef struct heddle_layer_array_info {
  size_t struct_size;     // sizeof(heddle_layer_array_info), set by the caller
  const char* name;       // "weight"
  const char* shape;      // of arguments: "(out_features, in_features)"
  const char* start;      // its initial value
  const char* condition;  // the argument that has to be true; "": every such layer has the array
  int32_t trained;        // 0: a buffer
} heddle_layer_array_info;

HEDDLE_API heddle_status heddle_layer_count(size_t* count);
HEDDLE_API heddle_status heddle_layer_at(size_t index, const heddle_layer** layer, heddle_error** error);
HEDDLE_API heddle_status heddle_layer_find(const char* name, const heddle_layer** layer,
                                           heddle_error** error);
HEDDLE_API heddle_status heddle_layer_describe(const heddle_layer* layer, heddle_layer_info* info,
                                               heddle_error** error);
HEDDLE_API heddle_status heddle_layer_argument(const heddle_layer* layer, size_t index,
                                               heddle_argument_info* info, heddle_error** error);
HEDDLE_API heddle_status heddle_layer_array(const heddle_layer* layer, size_t index,
                                            heddle_layer_array_info* info, heddle_error** error);

// Makes a module of a layer. `values` are the layer's first arguments in their order, `named` are further ones; the others have
// their defaults. The module's arrays belong to `engine`; null: the default engine.
HEDDLE_API heddle_status heddle_module_make(const heddle_layer* layer, const heddle_value* values,
                                            size_t value_count, const heddle_named_value* named,
                                            size_t named_count, heddle_engine* engine, heddle_module** module,
                                            heddle_error** error);
// Makes a module that calls `modules`, which belong to `engine` (null: the default engine), one after the
// other. The first one is its child "0".
HEDDLE_API heddle_status heddle_module_sequential(heddle_module* const* modules, size_t count,
                                                  heddle_engine* engine, heddle_module** module,
                                                  heddle_error** error);

// The function that computes a module of the program's own; it runs on the thread that calls the module. It
// writes new handles, which the library then owns, to `results`, which has room for `room` handles, and their
// number to *result_count. Its ops and errors name the call site of the module's call.
typedef heddle_status (*heddle_forward_fn)(void* ctx, heddle_array* const* arguments, size_t argument_count,
                                           heddle_array** results, size_t room, size_t* result_count,
                                           heddle_error** error);
// Makes a module of the program's own, without children, parameters and buffers at first. With a null
// `forward` it only holds other modules and cannot be called. destroy(ctx) is called when the module is gone,
// on any thread, or if the creation fails; `destroy` may be null.
HEDDLE_API heddle_status heddle_module_create(const char* class_name, heddle_forward_fn forward, void* ctx,
                                              heddle_destroy_fn destroy, heddle_engine* engine,
                                              heddle_module** module, heddle_error** error);
// The add_ calls register something in a module of heddle_module_create, under a new name without a dot.
// add_child registers a module. add_parameter registers a leaf (heddle_array_set_requires_grad), which is
// trained. add_buffer registers an array that `forward` changes; `saved` 1: it is part of the module's state.
HEDDLE_API heddle_status heddle_module_add_child(heddle_module* module, const char* name,
                                                 const heddle_module* child, heddle_error** error);
HEDDLE_API heddle_status heddle_module_add_parameter(heddle_module* module, const char* name,
                                                     const heddle_array* leaf, heddle_error** error);
HEDDLE_API heddle_status heddle_module_add_buffer(heddle_module* module, const char* name,
                                                  const heddle_array* array, int32_t saved,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_module_destroy(heddle_module* module);

// Calls the module on arrays of its engine; null, behind the first one: that input is missing. Writes new handles to `results`, which has room for `room`
// handles. Fails if the module refuses the arguments. The first call after anything was registered also fails
// if `forward` changes an array, or uses a leaf, that is unknown: neither an argument, nor made by the call,
// nor registered.
HEDDLE_API heddle_status heddle_module_call(const heddle_module* module, heddle_array* const* arguments,
                                            size_t argument_count, heddle_array** results, size_t room,
                                            size_t* result_count, heddle_error** error);
// Calls the module on one array. A program's own module must have one result; of a layer with several this is the first.
HEDDLE_API heddle_status heddle_module_apply(const heddle_module* module, heddle_array* argument,
                                             heddle_array** result, heddle_error** error);
// Calls the module once, in inference: a table of what each module inside it costs. Free *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_module_summary(heddle_module* module, heddle_array* const* arguments,
                                               size_t argument_count, char** text, heddle_error** error);

// A function that is told of a module's calls, before them (without results) or after, on their threads. Handles are lent for the time of
// its call; null: a missing input. Another status than HEDDLE_OK fails the module's call.
typedef heddle_status (*heddle_hook_fn)(void* ctx, heddle_array* const* arguments, size_t argument_count,
                                        heddle_array* const* results, size_t result_count,
                                        heddle_error** error);
typedef struct heddle_module_hook heddle_module_hook;  // a handle by which a hook is removed
// Adds a hook behind those that there are. `after` 1: it is called after each call of the module, 0: before. destroy(ctx) is called when the
// hook is removed or the module gone, on any thread, or if this fails; `destroy` may be null.
HEDDLE_API heddle_status heddle_module_add_hook(heddle_module* module, int32_t after, heddle_hook_fn hook,
                                                void* ctx, heddle_destroy_fn destroy,
                                                heddle_module_hook** handle, heddle_error** error);
// Removes the hook and its handle; heddle_module_hook_keep destroys the handle alone.
HEDDLE_API heddle_status heddle_module_hook_remove(heddle_module_hook* hook);
HEDDLE_API heddle_status heddle_module_hook_keep(heddle_module_hook* hook);

// Writes a module of layers (heddle_module_make, heddle_module_sequential, heddle_module_load) and all its state
// to one file, which other programs can read as safetensors. Fails for a module of heddle_module_create. Blocks.
HEDDLE_API heddle_status heddle_module_save(const heddle_module* module, const char* path,
                                            heddle_error** error);
// Makes the module of a file of heddle_module_save, or of save_model in C++ and Python, anew; without its code.
HEDDLE_API heddle_status heddle_module_load(const char* path, heddle_engine* engine, heddle_module** module,
                                            heddle_error** error);

#define HEDDLE_MODULE_PARAMETERS ((int32_t)0)  // the parameters to be trained: all that are not frozen
#define HEDDLE_MODULE_STATE ((int32_t)1)  // all parameters and saved buffers: what a checkpoint has to hold
// Lists arrays of the module with their paths, such as "0.weight", for heddle_trainer_create and
// heddle_checkpoint. Writes at most `room` of them, and the number of all to *count. The names are static;
// the caller owns the handles.
HEDDLE_API heddle_status heddle_module_arrays(const heddle_module* module, int32_t which,
                                              heddle_named_array* arrays, size_t room, size_t* count,
                                              heddle_error** error);

// Sets the module and all modules inside it to training (1, at first) or inference (0).
HEDDLE_API heddle_status heddle_module_train(heddle_module* module, int32_t on, heddle_error** error);
HEDDLE_API heddle_status heddle_module_training(const heddle_module* module, int32_t* on,
                                                heddle_error** error);
// Moves arrays and gradients, here and in all modules inside, to a device, with all that shares their memory. Waits for their
// ops. Make the trainer afterwards. After an error all is where it was.
HEDDLE_API heddle_status heddle_module_to(heddle_module* module, heddle_device device, heddle_error** error);
// `on` 1: freezes the module's parameters: they need no gradient and are not trained. Make the trainer afterwards.
HEDDLE_API heddle_status heddle_module_freeze(heddle_module* module, int32_t on, heddle_error** error);
// A text such as "Dense(784, 10)", with a line for each child. Free *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_module_text(const heddle_module* module, char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
