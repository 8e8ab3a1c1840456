// Generators of random numbers, for operators that take a generator. The numbers depend only on the seed and
// on the order of the calls.
#pragma once

#include <heddle/c/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

// Any thread may use a generator; calls of several threads draw in the order of the calls.
HEDDLE_API heddle_status heddle_generator_create(uint64_t seed, heddle_generator** generator,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_generator_destroy(heddle_generator* generator);
// *seed and *position are the whole state of a generator. The position is the number of blocks of four words
// that were drawn.
HEDDLE_API heddle_status heddle_generator_position(const heddle_generator* generator, uint64_t* seed,
                                                   uint64_t* position, heddle_error** error);
HEDDLE_API heddle_status heddle_generator_set_position(heddle_generator* generator, uint64_t position,
                                                       heddle_error** error);
// Makes `parts` generators with different seeds, which depend on the seed and position of `generator`.
// Advances `generator` by one block, so that the next split gives different seeds. The caller owns
// generators[0 .. parts); after an error no generator was made.
HEDDLE_API heddle_status heddle_generator_split(heddle_generator* generator, int parts,
                                                heddle_generator** generators, heddle_error** error);
// Makes a copy of the generator that is advanced by `times` * 2^40 blocks of four words, 0 <= times < 2^24.
// With its rank as `times`, each rank of a job draws different numbers.
HEDDLE_API heddle_status heddle_generator_jumped(const heddle_generator* generator, int64_t times,
                                                 heddle_generator** jumped, heddle_error** error);
// Reseeds the calling thread's default generator, which operators use if they are given none.
HEDDLE_API heddle_status heddle_seed(uint64_t seed, heddle_error** error);

#ifdef __cplusplus
}
#endif
