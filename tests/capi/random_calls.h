// Random calls of the C ABI of arrays: the class Caller makes the calls of one thread, and the class Pool has
// the handles that all threads share.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/c/heddle.h>

namespace random_calls {

inline std::atomic<long> lent{0}, given_back{0}, succeeded{0}, failed{0};

enum {
  engine_kind,
  var_kind,
  array_kind,
  generator_kind,
  rows_kind,
  archive_kind,
  optimizer_kind,
  communicator_kind,
  store_kind,
  trainer_kind,
  plain_kind,  // arrays that fit together: all are f32 of shape (3, 2) on the default engine
  kinds
};

heddle_status destroy(int kind, void* handle);
inline bool has_threads(int kind) {
  return kind == engine_kind || kind == communicator_kind || kind == store_kind || kind == trainer_kind;
}

// A pool of handles of all types, valid ones and destroyed ones.
class Pool {
 public:
  void put(int kind, void* handle);
  // A random handle: mostly of the type `kind`, sometimes of another type, or null.
  void* get(int kind, std::mt19937_64& random);
  void destroy_all();

 private:
  std::mutex mutex_;  // guards the members below
  std::array<std::vector<void*>, kinds> handles_;
  std::vector<std::pair<int, void*>> made_;
  std::size_t next_ = 0;
};
inline Pool pool;

inline bool one_thread = true;

// Makes the random calls of one thread.
class Caller {
 public:
  explicit Caller(std::uint64_t seed);
  ~Caller();
  void call();

 private:
  template <class T> T* any(int kind) { return static_cast<T*>(pool.get(kind, random_)); }
  heddle_array* plain() { return random_() % 16 == 0 ? array() : any<heddle_array>(plain_kind); }
  heddle_engine* usual_engine() { return random_() % 8 == 0 ? any<heddle_engine>(engine_kind) : nullptr; }
  heddle_array* array() { return any<heddle_array>(array_kind); }
  bool rarely() { return random_() % 40 == 0; }
  std::int64_t small() { return static_cast<std::int64_t>(random_() % 9) - 3; }
  template <class T> T* sometimes_null(T* pointer) { return rarely() ? nullptr : pointer; }
  void count(heddle_status status) { ++(status == HEDDLE_OK ? succeeded : failed); }
  // Checks the outcome of a call. `error` is a reference, since the call that is an argument too assigns it.
  void ended(heddle_status status, heddle_error* const& error);
  template <class T, class F> void make(int kind, F&& made_by);
  void keep(heddle_array* made);
  const std::int64_t* shape();
  std::int32_t ndim() {
    return rarely() ? static_cast<std::int32_t>(random_() % 20) - 5
                    : 1 + static_cast<std::int32_t>(random_() % 3);
  }
  heddle_array_options options();
  heddle_value value(const heddle_argument_info& argument);
  void create();
  void view();
  void change();
  void look();
  void call_operator();
  void differentiate();
  void others();
  void make_plain();
  heddle_array* new_indices();
  void make_rows();
  void optimize();
  void communicate();
  void make_communicator();
  void use_store();
  void use_rows_of_store();
  void use_state_of_store();
  void make_store();
  void train();
  void make_trainer();
  void compute_gradient(heddle_array* leaf);
  void save_or_load();
  heddle_key key();
  heddle_update_options update_options();

  std::mt19937_64 random_;
  std::int64_t shape_[16] = {};
  heddle_array* list_[2] = {};
  double numbers_[2] = {};  // numbers to which the members of options point
  const std::string path_;  // path of this thread's checkpoint
};

template <class T, class F> void Caller::make(int kind, F&& made_by) {
  T* made = nullptr;
  heddle_error* error = nullptr;
  const heddle_status status = made_by(sometimes_null(&made), &error);
  ended(status, error);
  if (status != HEDDLE_OK || !made) return;
  if constexpr (std::is_same_v<T, heddle_array>) return keep(made);
  pool.put(kind, made);
}

}  // namespace random_calls
