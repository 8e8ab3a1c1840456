// Who may work: as many threads at once as the engine has workers, each holding a seat. A thread whose op blocks in a
// wait gives its seat to another thread and needs one again before it goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "parking.h"
#include "ready_queue.h"

namespace heddle::detail {

// A place to work: its number is RunContext::worker, its queue holds what its worker made ready.
struct Seat {
  int index = 0;
  ReadyQueue queue;
};

struct Worker {
  Seat* seat = nullptr;       // null: may not run ops
  OpNode* current = nullptr;  // the op whose end hands its successors to this worker
  ReadyList successors;
  bool extra = false;         // made because a thread blocked: has no place in the arena
  std::uint32_t ops = 0;      // run so far
  bool look_outside = false;  // at others' queues before its own, once
  Sleeper sleeper;
  std::condition_variable seated;  // with Crew::mutex_
};

class Crew {
 public:
  // `work` is the main function of a thread that has a seat; it returns when the thread has lost it, or at the end.
  Crew(int seats, std::function<void(Worker&)> work);
  void start();  // one thread a seat; throws std::system_error, close() is due then too
  void close();  // the threads end once `work` returns

  std::vector<Seat>& seats() { return seats_; }
  // Gives the seat away, to a thread that wants to go on, to an idle one, or to a new one. Throws Error, the seat still
  // held, if there is no thread to be had.
  void give_up_seat(Worker& worker);
  void ask_for_seat(Worker& worker);  // wanted() is true until somebody gives up his
  void await_seat(Worker& worker);    // after ask_for_seat; null at the end
  bool wanted() const { return wanted_.load(std::memory_order_seq_cst) > 0; }
  // Between two ops: hands the seat to a thread that wants to go on, if there is one. True if it did.
  bool yield_seat(Worker& worker);

 private:
  void add_thread(Seat* seat);
  void main(Worker& worker);
  bool hand_to_waiting(Seat* seat);

  std::vector<Seat> seats_;
  std::function<void(Worker&)> work_;
  std::atomic<int> wanted_{0};  // size of asking_
  std::mutex mutex_;            // guards all below and the seats of waiting workers
  std::deque<Worker*> asking_;  // in the middle of an op
  std::vector<Worker*> spare_;  // between ops
  std::deque<Worker> workers_;
  std::vector<std::thread> threads_;
  bool closed_ = false;
};

}  // namespace heddle::detail
