// Key-value stores of weights: push gradients, pull weights. Calls push ops and return at once, unless they say that they block.
#pragma once

#include <heddle/c/communicator.h>
#include <heddle/c/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on a store. It keeps its engine alive: destroy it before the engine. All arrays belong to that
// engine. Any thread may use it; calls of several threads are serialised.
typedef struct heddle_kvstore heddle_kvstore;

#define HEDDLE_STORE_ERROR ((heddle_status)18)  // a server is lost or has refused a request

// Options of a new store. A member that is zero or null takes its value from the environment
// (docs/kvstore.md), or its default.
typedef struct heddle_kvstore_options {
  size_t struct_size;            // sizeof(heddle_kvstore_options)
  heddle_engine* engine;         // null: the default engine
  const char* compression;       // of pushes: "none", "fp16", "2bit:0.5" ...
  const char* pull_compression;  // of pulls; for "dist_" stores only
  const char* placement;         // which server has a key: "hash", "round_robin" ...; for "dist_" stores only
} heddle_kvstore_options;

// Makes a store of type "local", "allreduce", "dist_sync", "dist_async" or "dist_ssp:S". Blocks until all
// workers have made this call.
HEDDLE_API heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                               heddle_kvstore** store, heddle_error** error);
// Makes an "allreduce" store whose workers are the ranks of a communicator, on the communicator's engine.
// Each rank makes this call. options->engine must be null.
HEDDLE_API heddle_status heddle_kvstore_create_over(const char* type, const heddle_communicator* ranks,
                                                    const heddle_kvstore_options* options,
                                                    heddle_kvstore** store, heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_destroy(heddle_kvstore* store);
// The store's type. The text is static.
HEDDLE_API heddle_status heddle_kvstore_type(const heddle_kvstore* store, const char** type,
                                             heddle_error** error);
// *rank is this process's number among the workers of the store, *workers is the number of workers.
HEDDLE_API heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                             heddle_error** error);

// Stores a copy of the value under a new key; with several workers the value of rank 0.
HEDDLE_API heddle_status heddle_kvstore_init(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                             heddle_error** error);
// Adds up the `count` values, one per device, of all workers. The sum replaces the stored value or, if the
// store has an optimizer, is the gradient by which the optimizer updates it. `options` may be null.
HEDDLE_API heddle_status heddle_kvstore_push(heddle_kvstore* store, heddle_key key,
                                             const heddle_array* const* values, size_t count,
                                             const heddle_update_options* options, heddle_error** error);
// Copies the stored value into each of `out`.
HEDDLE_API heddle_status heddle_kvstore_pull(heddle_kvstore* store, heddle_key key,
                                             const heddle_array* const* out, size_t count,
                                             heddle_error** error);
// heddle_kvstore_push followed by heddle_kvstore_pull.
HEDDLE_API heddle_status heddle_kvstore_push_pull(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* const* values, size_t value_count,
                                                  const heddle_array* const* out, size_t out_count,
                                                  const heddle_update_options* options, heddle_error** error);
// heddle_kvstore_init followed by heddle_kvstore_pull, so that every `out` starts with the same value.
HEDDLE_API heddle_status heddle_kvstore_broadcast(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* value, const heddle_array* const* out,
                                                  size_t count, heddle_error** error);
// Overwrites the stored value, also if the store has an optimizer. With several workers, the value of rank 0
// is used.
HEDDLE_API heddle_status heddle_kvstore_assign(heddle_kvstore* store, heddle_key key,
                                               const heddle_array* value, heddle_error** error);

// The _list calls push or pull `count` keys, with one array for each, in the order of the list. A "dist_"
// store sends small values of successive keys in one message: if it fails, all these keys have its error.
HEDDLE_API heddle_status heddle_kvstore_push_list(heddle_kvstore* store, const heddle_key* keys,
                                                  const heddle_array* const* values, size_t count,
                                                  const heddle_update_options* options, heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_pull_list(heddle_kvstore* store, const heddle_key* keys,
                                                  const heddle_array* const* out, size_t count,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_push_pull_list(heddle_kvstore* store, const heddle_key* keys,
                                                       const heddle_array* const* values,
                                                       const heddle_array* const* out, size_t count,
                                                       const heddle_update_options* options,
                                                       heddle_error** error);

// Pushes some rows of a key of a floating dtype. Other rows neither change nor are sent between processes. An
// "allreduce" store blocks until all ranks make this call.
HEDDLE_API heddle_status heddle_kvstore_push_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_row_sparse* const* values, size_t count,
                                                  const heddle_update_options* options, heddle_error** error);
// Sets row i of `out` to row rows[i] of the stored value. `rows` has one axis and the dtype i32 or i64; its
// numbers may have any order. A row out of range is an error of the op.
HEDDLE_API heddle_status heddle_kvstore_pull_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* rows, const heddle_array* out,
                                                  heddle_error** error);
// Pulls the rows of the stored value that `rows` lists, as a row-sparse array with each row once.
HEDDLE_API heddle_status heddle_kvstore_pull_row_sparse(heddle_kvstore* store, heddle_key key,
                                                        const heddle_array* rows, heddle_row_sparse** result,
                                                        heddle_error** error);

// Sets the optimizer by which later pushes update stored values. The optimizer "add" adds the sum of a push,
// times the push's grad_scale (1 for integers), to the stored value. Blocks until all workers have set the
// same optimizer.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                                      const heddle_parameter* parameters, size_t count,
                                                      heddle_error** error);
// The arrays of the optimizer, for a checkpoint (see heddle_optimizer_state). The archive is empty if the
// store has no optimizer. The caller destroys *state.
HEDDLE_API heddle_status heddle_kvstore_optimizer_state(const heddle_kvstore* store, heddle_archive** state,
                                                        heddle_error** error);
// Sets the optimizer's state on all workers to the `state` of rank 0. Blocks until all workers make this
// call. A failure changes nothing.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer_state(heddle_kvstore* store,
                                                            const heddle_archive* state,
                                                            heddle_error** error);
// Get and set the compression residuals of this worker's pushes. Each worker has its own, so they are the
// worker's own part of a checkpoint. Both calls block.
HEDDLE_API heddle_status heddle_kvstore_residuals(const heddle_kvstore* store, heddle_archive** residuals,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_set_residuals(heddle_kvstore* store, const heddle_archive* residuals,
                                                      heddle_error** error);

// Gives memory for heddle_array_lend_gradient_memory, from which this key's gradient is pushed without a
// copy; *memory is null if such memory would save nothing. A push of this memory leaves the sum in it.
HEDDLE_API heddle_status heddle_kvstore_gradient_memory(heddle_kvstore* store, heddle_key key,
                                                        heddle_array** memory, heddle_error** error);
// Removes the errors of failed ops from stored values and the optimizer's state, which are as they were
// before the first failed op.
HEDDLE_API heddle_status heddle_kvstore_clear_errors(heddle_kvstore* store, heddle_error** error);
// Blocks until all workers of the store have made this call.
HEDDLE_API heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error);

#ifdef __cplusplus
}
#endif
