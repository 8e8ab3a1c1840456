// Memory whose address was given to other libraries, and that a storage may have to leave to them.
#pragma once

#include <memory>

#include <heddle/storage.h>

namespace heddle {

// For those who give the address of the storage's memory away, as to NumPy: the memory stays what it is while the result lives,
// also when exchange_memory() gives the storage other memory. Any thread.
std::shared_ptr<const void> hold_memory(const std::shared_ptr<Storage>& storage);

// Whether the storage has the memory that `hold`, made by hold_memory(), is of. Any thread.
bool holds_memory_of(const std::shared_ptr<const void>& hold, const Storage& storage);

// Storage::exchange_memory() of two storages; each lives as long as what hold_memory() gave of the other one before.
void exchange_memory(const std::shared_ptr<Storage>& a, const std::shared_ptr<Storage>& b);

}  // namespace heddle
