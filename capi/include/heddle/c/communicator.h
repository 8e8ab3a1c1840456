// Communicators: ranks that call the same collectives in the same order. Each call is an op on its arrays.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on one rank of a communicator. It keeps its engine alive: destroy it before the engine.
typedef struct heddle_communicator heddle_communicator;

#define HEDDLE_COMM_ERROR ((heddle_status)12)      // an error of communication without a code of its own
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
  const char* algorithm;  // the algorithm of all_reduce
  int64_t timeout;        // nanoseconds without a heartbeat after which a rank has failed; a day at most
  int32_t reproducible;   // 1: reductions in one fixed order
  int32_t gpu;            // with "nccl": 1 + the number of this rank's GPU; 0: by the local rank
} heddle_communicator_options;

// The communicator of this process's job, which has one rank if there is none. Blocks until all ranks join.
HEDDLE_API heddle_status heddle_communicator_create(const heddle_communicator_options* options,
                                                    heddle_communicator** communicator, heddle_error** error);
// `size` ranks in this process, each usually used by a thread of its own; `communicators` has room for them.
HEDDLE_API heddle_status heddle_communicator_create_local(const heddle_communicator_options* options,
                                                          int32_t size, heddle_communicator** communicators,
                                                          heddle_error** error);
// Leaves the communicator after the calls so far have ended.
HEDDLE_API heddle_status heddle_communicator_destroy(heddle_communicator* communicator);

HEDDLE_API heddle_status heddle_communicator_rank(const heddle_communicator* communicator, int32_t* rank,
                                                  int32_t* size, heddle_error** error);
// "local", "shm", "tcp" ... The text is static.
HEDDLE_API heddle_status heddle_communicator_backend(const heddle_communicator* communicator,
                                                     const char** backend, heddle_error** error);
// A var for the program's ops: an op that mutates it runs after all earlier and before all later calls.
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
// Sets root's array, and no other, to the reduction of all ranks' arrays.
HEDDLE_API heddle_status heddle_reduce(const heddle_communicator* communicator, const heddle_array* array,
                                       int32_t root, int32_t reduction, heddle_error** error);
// Sends part r of `in` to rank r, and receives part r of `out` from it. The counts are the elements of each part, as many as
// there are ranks; both null: equal parts.
HEDDLE_API heddle_status heddle_all_to_all(const heddle_communicator* communicator, const heddle_array* in,
                                           const int64_t* in_counts, const heddle_array* out,
                                           const int64_t* out_counts, heddle_error** error);
// The sends of a rank to another one match its recvs in order. A send may wait for its recv.
HEDDLE_API heddle_status heddle_send(const heddle_communicator* communicator, const heddle_array* array,
                                     int32_t to, heddle_error** error);
HEDDLE_API heddle_status heddle_recv(const heddle_communicator* communicator, const heddle_array* array,
                                     int32_t from, heddle_error** error);
// All ranks have made this call once a later heddle_communicator_wait returns, or a later call's result is ready.
HEDDLE_API heddle_status heddle_barrier(const heddle_communicator* communicator, heddle_error** error);
// Blocks until all calls of this rank so far have ended. Returns errors of barriers and sends.
HEDDLE_API heddle_status heddle_communicator_wait(const heddle_communicator* communicator,
                                                  heddle_error** error);
// Fails all current and later calls of all ranks with HEDDLE_COMM_ABORTED. Any thread; returns at once.
HEDDLE_API heddle_status heddle_communicator_abort(const heddle_communicator* communicator, const char* why,
                                                   heddle_error** error);

// An array in memory that all ranks on a host reduce without a copy; in ordinary memory if none is left.
HEDDLE_API heddle_status heddle_communicator_shared_array(const heddle_communicator* communicator,
                                                          int32_t dtype, const int64_t* shape, int32_t ndim,
                                                          heddle_array** array, heddle_error** error);

// Collective; blocks. A communicator of the ranks of one colour, by key, then rank; negative colour: null.
HEDDLE_API heddle_status heddle_communicator_split(const heddle_communicator* communicator, int32_t colour,
                                                   int32_t key, heddle_communicator** part,
                                                   heddle_error** error);
// After a fault: a communicator of the ranks that are alive, in the old order. Aborts this one. Blocks until all of them have
// called it; fails with HEDDLE_PEER_LOST if they have excluded this rank.
HEDDLE_API heddle_status heddle_communicator_shrink(const heddle_communicator* communicator,
                                                    heddle_communicator** survivors, heddle_error** error);
// A communicator of `size` ranks (0: as many as before): the live processes of the job, and new ones, which
// call heddle_communicator_create. Aborts this one. Blocks for `timeout` nanoseconds at most (0: that of the
// options); may then be called again. Fails for communicators made by split and create_local.
HEDDLE_API heddle_status heddle_communicator_grow(const heddle_communicator* communicator, int32_t size,
                                                  int64_t timeout, heddle_communicator** grown,
                                                  heddle_error** error);

// The latest 1,024 calls of this rank and of those whose memory it shares. Any thread, at any time. The caller frees *text with
// heddle_text_destroy.
HEDDLE_API heddle_status heddle_communicator_flight_recorder(const heddle_communicator* communicator,
                                                             char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
