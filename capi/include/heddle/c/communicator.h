// Communicators: ranks that call the same collectives in the same order. Each call is an op on its arrays.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on a rank's part in a communicator, which keeps its engine alive: destroy it before the engine.
typedef struct heddle_communicator heddle_communicator;

#define HEDDLE_COMM_ERROR ((heddle_status)12)      // of communication, without a code of its own
#define HEDDLE_COMM_MISMATCH ((heddle_status)13)   // ranks made different calls
#define HEDDLE_PEER_LOST ((heddle_status)14)       // a rank has ended
#define HEDDLE_PEER_SILENT ((heddle_status)15)     // a rank has sent no heartbeat
#define HEDDLE_REMOTE_FAILURE ((heddle_status)16)  // the input of another rank has failed there
#define HEDDLE_COMM_ABORTED ((heddle_status)17)

#define HEDDLE_SUM ((int32_t)0)
#define HEDDLE_PROD ((int32_t)1)
#define HEDDLE_MIN ((int32_t)2)
#define HEDDLE_MAX ((int32_t)3)
#define HEDDLE_AVG ((int32_t)4)

// Zeros and nulls are read from the environment (docs/comm.md), and else have the default.
typedef struct heddle_communicator_options {
  size_t struct_size;     // sizeof(heddle_communicator_options)
  heddle_engine* engine;  // null: the default engine
  const char* backend;    // "auto", "shm", "tcp", "mpi", "nccl"
  const char* algorithm;  // of all_reduce
  int64_t timeout;        // nanoseconds without a heartbeat after which a rank has failed
  int32_t reproducible;   // 1: reductions in one fixed order
  int32_t gpu;            // with "nccl": 1 + the number of this rank's GPU; 0: by its rank on the host
} heddle_communicator_options;

// The communicator of the job that this process was launched in; blocks until all ranks take part. Alone: of one rank.
HEDDLE_API heddle_status heddle_communicator_create(const heddle_communicator_options* options,
                                                    heddle_communicator** communicator, heddle_error** error);
// `size` ranks in this process, each usually used by a thread of its own; `communicators` has room for them.
HEDDLE_API heddle_status heddle_communicator_create_local(const heddle_communicator_options* options,
                                                          int32_t size, heddle_communicator** communicators,
                                                          heddle_error** error);
// Leaves after the calls so far have ended.
HEDDLE_API heddle_status heddle_communicator_destroy(heddle_communicator* communicator);

HEDDLE_API heddle_status heddle_communicator_rank(const heddle_communicator* communicator, int32_t* rank,
                                                  int32_t* size, heddle_error** error);
// Mutated by ops that are to run after all calls before them, and before all calls after them.
HEDDLE_API heddle_status heddle_communicator_var(const heddle_communicator* communicator, heddle_var** var,
                                                 heddle_error** error);

// Sets `out` on all ranks to the reduction of all ranks' `in`; in place if both are one array.
HEDDLE_API heddle_status heddle_all_reduce(const heddle_communicator* communicator, const heddle_array* in,
                                           const heddle_array* out, int32_t reduction, heddle_error** error);
// Sets rank r's `out` to part r of the reduction of all ranks' `in`, which has size times its elements.
HEDDLE_API heddle_status heddle_reduce_scatter(const heddle_communicator* communicator,
                                               const heddle_array* in, const heddle_array* out,
                                               int32_t reduction, heddle_error** error);
// Sets part r of `out`, which has size times the elements of `in`, to rank r's `in`.
HEDDLE_API heddle_status heddle_all_gather(const heddle_communicator* communicator, const heddle_array* in,
                                           const heddle_array* out, heddle_error** error);
// Sets all ranks' arrays to root's.
HEDDLE_API heddle_status heddle_broadcast(const heddle_communicator* communicator, const heddle_array* array,
                                          int32_t root, heddle_error** error);
// All ranks have made this call once a later heddle_communicator_wait returns, or a later call's result is ready.
HEDDLE_API heddle_status heddle_barrier(const heddle_communicator* communicator, heddle_error** error);
// Blocks until all calls of this rank so far have ended. Returns errors of barriers.
HEDDLE_API heddle_status heddle_communicator_wait(const heddle_communicator* communicator,
                                                  heddle_error** error);
// Fails all current and later calls of all ranks with HEDDLE_COMM_ABORTED. Any thread; returns at once.
HEDDLE_API heddle_status heddle_communicator_abort(const heddle_communicator* communicator, const char* why,
                                                   heddle_error** error);

#ifdef __cplusplus
}
#endif
