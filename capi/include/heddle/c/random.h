// Random numbers, for operators that take a generator. They depend on the seed and the order of calls alone.
#pragma once

#include <heddle/c/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

// Any thread may use a generator; calls of several threads draw in the order of the calls.
HEDDLE_API heddle_status heddle_generator_create(uint64_t seed, heddle_generator** generator,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_generator_destroy(heddle_generator* generator);
// The seed, and how many blocks of four words were drawn: both together are the generator's state.
HEDDLE_API heddle_status heddle_generator_position(const heddle_generator* generator, uint64_t* seed,
                                                   uint64_t* position, heddle_error** error);
HEDDLE_API heddle_status heddle_generator_set_position(heddle_generator* generator, uint64_t position,
                                                       heddle_error** error);
// Makes `parts` generators with different seeds, which depend on this one's seed and position; it advances by
// a block, so the next split gives others. The caller owns generators[0 .. parts); none after an error.
HEDDLE_API heddle_status heddle_generator_split(heddle_generator* generator, int parts,
                                                heddle_generator** generators, heddle_error** error);
// A copy advanced by `times` * 2^40 blocks of four words, 0 <= times < 2^24: one for each rank of a job.
HEDDLE_API heddle_status heddle_generator_jumped(const heddle_generator* generator, int64_t times,
                                                 heddle_generator** jumped, heddle_error** error);
// Reseeds the calling thread's default generator, which operators use if they are given none.
HEDDLE_API heddle_status heddle_seed(uint64_t seed, heddle_error** error);

#ifdef __cplusplus
}
#endif
