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

// Zeros and nulls are read from the environment (docs/kvstore.md), and else have the default.
typedef struct heddle_kvstore_options {
  size_t struct_size;            // sizeof(heddle_kvstore_options)
  heddle_engine* engine;         // null: the default engine
  const char* compression;       // "none", "fp16", "2bit:0.5" ...
  const char* pull_compression;  // "dist_" stores only
  const char* placement;         // "dist_" stores only: "hash", "round_robin" ...
} heddle_kvstore_options;

// Types: "local", "allreduce", "dist_sync", "dist_async", "dist_ssp:S". Blocks for the other workers.
HEDDLE_API heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                               heddle_kvstore** store, heddle_error** error);
// An "allreduce" store over these ranks, on their engine. Each rank makes this call. options->engine is null.
HEDDLE_API heddle_status heddle_kvstore_create_over(const char* type, const heddle_communicator* ranks,
                                                    const heddle_kvstore_options* options,
                                                    heddle_kvstore** store, heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_destroy(heddle_kvstore* store);
// The store's type. The text is static.
HEDDLE_API heddle_status heddle_kvstore_type(const heddle_kvstore* store, const char** type,
                                             heddle_error** error);
// This process's number among the workers, and the number of workers.
HEDDLE_API heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                             heddle_error** error);

// Stores a copy of the value under a new key; with several workers the value of rank 0.
HEDDLE_API heddle_status heddle_kvstore_init(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                             heddle_error** error);
// Sums the values, one per device, over all workers. The sum replaces the stored value; with an optimizer it
// is the gradient of an update. Null options: the defaults.
HEDDLE_API heddle_status heddle_kvstore_push(heddle_kvstore* store, heddle_key key,
                                             const heddle_array* const* values, size_t count,
                                             const heddle_update_options* options, heddle_error** error);
// Copies the stored value into each of `out`.
HEDDLE_API heddle_status heddle_kvstore_pull(heddle_kvstore* store, heddle_key key,
                                             const heddle_array* const* out, size_t count,
                                             heddle_error** error);
// Push, then pull.
HEDDLE_API heddle_status heddle_kvstore_push_pull(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* const* values, size_t value_count,
                                                  const heddle_array* const* out, size_t out_count,
                                                  const heddle_update_options* options, heddle_error** error);
// Init, then pull: every `out` starts from one value.
HEDDLE_API heddle_status heddle_kvstore_broadcast(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* value, const heddle_array* const* out,
                                                  size_t count, heddle_error** error);
// Overwrites the stored value, whatever the optimizer; with several workers by the value of rank 0.
HEDDLE_API heddle_status heddle_kvstore_assign(heddle_kvstore* store, heddle_key key,
                                               const heddle_array* value, heddle_error** error);

// The calls above for `count` keys with one array each, one key after the other. A "dist_" store sends small
// values of successive keys in one message: if it fails, all of them have its error.
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

// Pushes some rows of a key of a floating dtype; no other row changes. Only these rows are sent between
// processes. An "allreduce" store blocks until all ranks make this call.
HEDDLE_API heddle_status heddle_kvstore_push_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_row_sparse* const* values, size_t count,
                                                  const heddle_update_options* options, heddle_error** error);
// Sets row i of `out` (rows, d...) to row rows[i] of the stored value. rows: one axis, i32 or i64, in any
// order; a row out of range is an error of the op.
HEDDLE_API heddle_status heddle_kvstore_pull_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* rows, const heddle_array* out,
                                                  heddle_error** error);
// Pulls these rows, each once, as a row-sparse array.
HEDDLE_API heddle_status heddle_kvstore_pull_row_sparse(heddle_kvstore* store, heddle_key key,
                                                        const heddle_array* rows, heddle_row_sparse** result,
                                                        heddle_error** error);

// Later pushes are updates by this optimizer; "add" adds a push's sum times its scale (1 for integers) to the
// stored value. Blocks until all workers have set the same optimizer.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                                      const heddle_parameter* parameters, size_t count,
                                                      heddle_error** error);
// The optimizer's arrays, for a checkpoint, which the caller destroys; empty without an optimizer. See heddle_optimizer_state.
HEDDLE_API heddle_status heddle_kvstore_optimizer_state(const heddle_kvstore* store, heddle_archive** state,
                                                        heddle_error** error);
// Sets the state to that of rank 0. Blocks until all workers make this call. A failure changes nothing.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer_state(heddle_kvstore* store,
                                                            const heddle_archive* state,
                                                            heddle_error** error);
// The compression residuals of this worker's pushes: the worker's own part of a checkpoint. Both calls block.
HEDDLE_API heddle_status heddle_kvstore_residuals(const heddle_kvstore* store, heddle_archive** residuals,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_set_residuals(heddle_kvstore* store, const heddle_archive* residuals,
                                                      heddle_error** error);

// Memory from which this key's gradient is pushed without a copy, for heddle_array_lend_gradient_memory;
// *memory is null if that would save nothing. A push of this memory leaves the sum in it.
HEDDLE_API heddle_status heddle_kvstore_gradient_memory(heddle_kvstore* store, heddle_key key,
                                                        heddle_array** memory, heddle_error** error);
// Removes the poison of failed ops from stored values and optimizer state. Both are as before the first one.
HEDDLE_API heddle_status heddle_kvstore_clear_errors(heddle_kvstore* store, heddle_error** error);
// Blocks until all workers have called it.
HEDDLE_API heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error);

#ifdef __cplusplus
}
#endif
