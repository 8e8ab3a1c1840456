#include <heddle/c/random.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_generator_create(uint64_t seed, heddle_generator** generator, heddle_error** error) {
  return called(error, [&] {
    check_out(generator, "heddle_generator_create", "generator");
    *generator = make_handle<heddle_generator>(std::make_shared<LockedGenerator>(seed));
  });
}

heddle_status heddle_generator_destroy(heddle_generator* generator) {
  return guarded(nullptr, [&] {
    if (generator) take(generator, "heddle_generator_destroy");
  });
}

heddle_status heddle_generator_position(const heddle_generator* generator, uint64_t* seed, uint64_t* position,
                                        heddle_error** error) {
  return called(error, [&] {
    const Borrowed<heddle_generator> of(generator, "heddle_generator_position");
    check_out(seed, "heddle_generator_position", "seed");
    check_out(position, "heddle_generator_position", "position");
    const std::lock_guard guard((*of)->mutex);
    *seed = (*of)->generator.seed();
    *position = (*of)->generator.position();
  });
}

heddle_status heddle_generator_set_position(heddle_generator* generator, uint64_t position,
                                            heddle_error** error) {
  return called(error, [&] {
    const Borrowed<heddle_generator> of(generator, "heddle_generator_set_position");
    const std::lock_guard guard((*of)->mutex);
    (*of)->generator.set_position(position);
  });
}

heddle_status heddle_seed(uint64_t seed, heddle_error** error) {
  return called(error, [&] { manual_seed(seed); });
}
