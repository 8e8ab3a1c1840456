// Random numbers, for the operators that take a generator. They depend on the seed and the order of calls alone.
#pragma once

#include <heddle/c/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

// Any thread may use a generator; calls of several threads draw in the order in which they come.
HEDDLE_API heddle_status heddle_generator_create(uint64_t seed, heddle_generator** generator,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_generator_destroy(heddle_generator* generator);
// How much was drawn so far: a generator of the same seed goes on from there.
HEDDLE_API heddle_status heddle_generator_position(const heddle_generator* generator, uint64_t* seed,
                                                   uint64_t* position, heddle_error** error);
HEDDLE_API heddle_status heddle_generator_set_position(heddle_generator* generator, uint64_t position,
                                                       heddle_error** error);
// Makes `parts` generators with seeds of their own, which follow from this one's seed and position; it draws a block, so that the
// next split gives others. The caller owns those in generators[0 .. parts), of which there are none after an error.
HEDDLE_API heddle_status heddle_generator_split(heddle_generator* generator, int parts,
                                                heddle_generator** generators, heddle_error** error);
// A copy that is `times` * 2^40 blocks of four words further on, 0 <= times < 2^24: one for each rank of a job.
HEDDLE_API heddle_status heddle_generator_jumped(const heddle_generator* generator, int64_t times,
                                                 heddle_generator** jumped, heddle_error** error);
// The generator of the calling thread, which operators use that are given none, starts again with this seed.
HEDDLE_API heddle_status heddle_seed(uint64_t seed, heddle_error** error);

#ifdef __cplusplus
}
#endif
