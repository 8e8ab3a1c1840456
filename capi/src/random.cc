#include <vector>

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
    const HandleAccess<heddle_generator> of(generator, "heddle_generator_position");
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
    const HandleAccess<heddle_generator> of(generator, "heddle_generator_set_position");
    const std::lock_guard guard((*of)->mutex);
    (*of)->generator.set_position(position);
  });
}

heddle_status heddle_generator_split(heddle_generator* generator, int parts, heddle_generator** generators,
                                     heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_generator> of(generator, "heddle_generator_split");
    check_out(generators, "heddle_generator_split", "generators");
    std::vector<Generator> made;
    {
      const std::lock_guard guard((*of)->mutex);
      made = (*of)->generator.split(parts);
    }
    std::vector<std::shared_ptr<LockedGenerator>> locked;
    for (const Generator& one : made) {
      locked.push_back(std::make_shared<LockedGenerator>(one.seed()));
      locked.back()->generator = one;
    }
    std::size_t done = 0;
    try {
      for (; done < locked.size(); ++done)
        generators[done] = make_handle<heddle_generator>(std::move(locked[done]));
    } catch (...) {
      while (done > 0) take(generators[--done], "heddle_generator_split");
      throw;
    }
  });
}

heddle_status heddle_generator_jumped(const heddle_generator* generator, int64_t times,
                                      heddle_generator** jumped, heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_generator> of(generator, "heddle_generator_jumped");
    check_out(jumped, "heddle_generator_jumped", "jumped");
    const std::lock_guard guard((*of)->mutex);
    auto locked = std::make_shared<LockedGenerator>((*of)->generator.seed());
    locked->generator = (*of)->generator.jumped(times);
    *jumped = make_handle<heddle_generator>(std::move(locked));
  });
}

heddle_status heddle_seed(uint64_t seed, heddle_error** error) {
  return called(error, [&] { manual_seed(seed); });
}
