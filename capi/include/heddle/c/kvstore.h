// Key-value stores of weights: push gradients, pull weights. Every call but the barrier pushes ops and returns at once.
#pragma once

#include <heddle/c/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on a store, which keeps its engine alive: destroy it before the engine. Any thread may use it; calls of several
// threads come one after the other.
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

// Types: "local", "allreduce", "dist_sync", "dist_async", "dist_ssp:S".
HEDDLE_API heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                               heddle_kvstore** store, heddle_error** error);
HEDDLE_API heddle_status heddle_kvstore_destroy(heddle_kvstore* store);
// This process's number among those that push, and how many there are.
HEDDLE_API heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                             heddle_error** error);

// Stores a copy of the value; of several workers' values that of rank 0.
HEDDLE_API heddle_status heddle_kvstore_init(heddle_kvstore* store, int64_t key, const heddle_array* value,
                                             heddle_error** error);
// Sums the values, one a device, and those of all workers. The sum replaces what is stored; with an optimizer it is a
// gradient that updates it. Null options: the defaults.
HEDDLE_API heddle_status heddle_kvstore_push(heddle_kvstore* store, int64_t key,
                                             const heddle_array* const* values, size_t count,
                                             const heddle_update_options* options, heddle_error** error);
// Copies what is stored into each of `out`.
HEDDLE_API heddle_status heddle_kvstore_pull(heddle_kvstore* store, int64_t key,
                                             const heddle_array* const* out, size_t count,
                                             heddle_error** error);
// Push, then pull.
HEDDLE_API heddle_status heddle_kvstore_push_pull(heddle_kvstore* store, int64_t key,
                                                  const heddle_array* const* values, size_t value_count,
                                                  const heddle_array* const* out, size_t out_count,
                                                  const heddle_update_options* options, heddle_error** error);
// All pushes from now on go through this optimizer. With several workers it waits for all, which ask for the same.
HEDDLE_API heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                                      const heddle_parameter* parameters, size_t count,
                                                      heddle_error** error);
// Blocks until all workers have called it.
HEDDLE_API heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error);

#ifdef __cplusplus
}
#endif
