// What stands behind a heddle_kvstore, for all that uses a store.
#pragma once

#include <heddle/default_engine.h>
#include <heddle/kvstore.h>

#include "array_handle.h"

namespace heddle::c {

// Destroyed from below: the store before its engine.
struct LockedStore {
  LockedStore(std::shared_ptr<Engine> of, std::shared_ptr<KVStore> made)
      : engine(std::move(of)), store(std::move(made)) {}
  const std::shared_ptr<Engine> engine;
  std::mutex mutex;  // guards the store, and what a trainer does with it
  const std::shared_ptr<KVStore> store;
};

}  // namespace heddle::c
