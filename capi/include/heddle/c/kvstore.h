// Key-value stores of weights: push gradients, pull weights. Calls push ops and return at once, unless they say that they block.
#pragma once

#include <heddle/c/communicator.h>
#include <heddle/c/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on a store, which keeps its engine alive: destroy it before the engine. All arrays belong to that engine. Any
// thread may use it; calls of several threads come one after the other.
typedef struct heddle_kvstore heddle_kvstore;

#define HEDDLE_STORE_ERROR ((heddle_status)18)  // a server is lost or has refused a request

// Zeros and nulls are read from the environment (docs/kvstore.md), and else have the default.
typedef struct heddle_kvstore_options {
  size_t struct_size;            // sizeof(heddle_kvstore_options)
  heddle_engine* engine;         // null: the default engine
  const char* compression;       // "none", "fp16", "2bit:0.5" ...
  const char* pull_compression;  // of "dist_" stores only, as placement
  const char* placement;         // "hash", "round_robin" ...
} heddle_kvstore_options;

// Types: "local", "allreduce", "dist_sync", "dist_async", "dist_ssp:S". Blocks for the other workers.
HEDDLE_API heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                               heddle_kvstore** store, heddle_error** error);
// An "allreduce" store over these ranks, each of which calls this. Their engine is the store's: options->engine is null.
HEDDLE_API heddle_status heddle_kvstore_create_over(const char* type, const heddle_communicator* ranks,
                                                    const heddle_kvstore_options* options,
                                                    heddle_kvstore** store, heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_destroy(heddle_kvstore* store);
// The text is static.
HEDDLE_API heddle_status heddle_kvstore_type(const heddle_kvstore* store, const char** type,
                                             heddle_error** error);
// This process's number among those that push, and how many there are.
HEDDLE_API heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                             heddle_error** error);

// Stores a copy of the value; of several workers' values that of rank 0.
HEDDLE_API heddle_status heddle_kvstore_init(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                             heddle_error** error);
// Sums the values, one a device, and those of all workers. The sum replaces what is stored; with an optimizer it is a
// gradient that updates it. Null options: the defaults.
HEDDLE_API heddle_status heddle_kvstore_push(heddle_kvstore* store, heddle_key key,
                                             const heddle_array* const* values, size_t count,
                                             const heddle_update_options* options, heddle_error** error);
// Copies what is stored into each of `out`.
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
// Overwrites what is stored, whatever the optimizer; of several workers' values with that of rank 0.
HEDDLE_API heddle_status heddle_kvstore_assign(heddle_kvstore* store, heddle_key key,
                                               const heddle_array* value, heddle_error** error);

// For `count` keys with one array each: as the calls above one key after the other. A "dist_" store sends small values of
// keys that follow each other in one message, whose error is that of all of them.
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

// For some rows of a key of a floating dtype; no other row changes. Between processes only these rows travel. An "allreduce"
// store blocks until all ranks have come here.
HEDDLE_API heddle_status heddle_kvstore_push_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_row_sparse* const* values, size_t count,
                                                  const heddle_update_options* options, heddle_error** error);
// out[i], of (rows, d...), becomes row rows[i] of what is stored. rows: one axis, i32 or i64, in any order; a row that there is
// not is an error of the op.
HEDDLE_API heddle_status heddle_kvstore_pull_rows(heddle_kvstore* store, heddle_key key,
                                                  const heddle_array* rows, const heddle_array* out,
                                                  heddle_error** error);
// The same rows as a row-sparse array, each once.
HEDDLE_API heddle_status heddle_kvstore_pull_row_sparse(heddle_kvstore* store, heddle_key key,
                                                        const heddle_array* rows, heddle_row_sparse** result,
                                                        heddle_error** error);

// All pushes from now on go through this optimizer; "add" adds a push's sum times its scale (1 for integers) to what is
// stored. Blocks until all workers ask for the same.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                                      const heddle_parameter* parameters, size_t count,
                                                      heddle_error** error);
// The optimizer's arrays, for a checkpoint, which the caller destroys; empty without an optimizer. See heddle_optimizer_state.
HEDDLE_API heddle_status heddle_kvstore_optimizer_state(const heddle_kvstore* store, heddle_archive** state,
                                                        heddle_error** error);
// Fails before anything is changed. Blocks for all workers, of whose states rank 0's is taken.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer_state(heddle_kvstore* store,
                                                            const heddle_archive* state,
                                                            heddle_error** error);
// What compression has left out of this worker's pushes: its own part of a checkpoint. Both block.
HEDDLE_API heddle_status heddle_kvstore_residuals(const heddle_kvstore* store, heddle_archive** residuals,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_set_residuals(heddle_kvstore* store, const heddle_archive* residuals,
                                                      heddle_error** error);

// Memory from which this key's gradient is pushed without a copy, for heddle_array_lend_gradient_memory; *memory is null where
// it would save nothing. A push of it leaves the sum there.
HEDDLE_API heddle_status heddle_kvstore_gradient_memory(heddle_kvstore* store, heddle_key key,
                                                        heddle_array** memory, heddle_error** error);
// Removes the poison that failed ops left in what is stored and in the optimizer's state. The values are those before the first
// of these ops.
HEDDLE_API heddle_status heddle_kvstore_clear_errors(heddle_kvstore* store, heddle_error** error);
// Blocks until all workers have called it.
HEDDLE_API heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error);

#ifdef __cplusplus
}
#endif
