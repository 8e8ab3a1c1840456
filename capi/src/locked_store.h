// The object of a heddle_kvstore handle.
#pragma once

#include <heddle/default_engine.h>
#include <heddle/kvstore.h>

#include "array_handle.h"

namespace heddle::c {

// A store and its mutex. The members' order matters: the store is destroyed before its engine.
struct LockedStore {
  LockedStore(std::shared_ptr<Engine> of, std::shared_ptr<KVStore> made)
      : engine(std::move(of)), store(std::move(made)) {}
  const std::shared_ptr<Engine> engine;
  std::mutex mutex;  // guards the store, and a trainer that uses it
  const std::shared_ptr<KVStore> store;
};

}  // namespace heddle::c
