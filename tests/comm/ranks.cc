#include "ranks.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "core/backend_table.h"
#include "files.h"

namespace heddle::test {

Outcomes on_threads(int size, const std::function<void(int)>& body) {
  Outcomes outcomes(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        outcomes[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

Outcomes try_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body) {
  auto ranks = Communicator::create_local(size, options);
  return on_threads(size, [&](int rank) {
    const auto mine = std::move(ranks[static_cast<std::size_t>(rank)]);
    body(*mine);
  });
}

void run_local(int size, const CommOptions& options, const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& error : try_local(size, options, body)) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<std::string> all_backends() {
  std::vector<std::string> names;
  for (const comm_detail::BackendInfo& info : comm_detail::backends()) {
    if (info.everywhere) names.push_back(info.name);
  }
  return names;
}

Outcomes try_job(const std::string& backend, int size, CommOptions options,
                 const std::function<void(Communicator&)>& body) {
  const comm_detail::BackendInfo* info = comm_detail::find_backend(backend);
  if (info && info->threads) return try_local(size, options, body);
  const TemporaryDirectory directory;
  options.backend = backend;
  return on_threads(size, [&](int rank) {
    LaunchEnvironment job;
    job.rank = job.local_rank = rank;
    job.size = job.local_size = size;
    job.rendezvous = "unix:" + directory.file("ranks");
    body(*Communicator::create(options, job));
  });
}

void run_job(const std::string& backend, int size, const CommOptions& options,
             const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& error : try_job(backend, size, options, body)) {
    if (error) std::rethrow_exception(error);
  }
}

struct SharedTable::Page {
  static constexpr int kMost = 16;
  static constexpr std::size_t kText = 4096;
  int size;
  std::atomic<int> round[kMost];
  char text[2][kMost][kText];
  char said[kMost][kText];
};

namespace {

class TableRendezvous final : public comm_detail::Rendezvous {
 public:
  TableRendezvous(SharedTable::Page* page, int rank) : page_(page), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return page_->size; }
  std::uint32_t epoch() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    const int round = ++rounds_;
    auto& texts = page_->text[round % 2];
    const std::size_t length = std::min(mine.size(), SharedTable::Page::kText - 1);
    std::memcpy(texts[rank_], mine.data(), length);
    texts[rank_][length] = '\0';
    page_->round[rank_].store(round);
    std::vector<std::string> all;
    for (int rank = 0; rank < page_->size; ++rank) {
      while (page_->round[rank].load() < round) sched_yield();
      all.emplace_back(texts[rank]);
    }
    return all;
  }

 private:
  SharedTable::Page* page_;
  int rank_;
  int rounds_ = 0;
};

}  // namespace

SharedTable::SharedTable(int size)
    : page_(static_cast<Page*>(
          mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  page_->size = size;
}
SharedTable::~SharedTable() { munmap(page_, sizeof(Page)); }
std::unique_ptr<comm_detail::Rendezvous> SharedTable::rendezvous(int rank) {
  return std::make_unique<TableRendezvous>(page_, rank);
}
void SharedTable::say(int rank, const std::string& text) {
  std::memcpy(page_->said[rank], text.c_str(), std::min(text.size() + 1, Page::kText - 1));
}
std::string SharedTable::said(int rank) const { return page_->said[rank]; }

std::vector<pid_t> fork_ranks(SharedTable& table, int size,
                              const std::function<void(int rank, SharedTable&)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int status = 0;
      try {
        body(rank, table);
      } catch (...) {
        table.say(rank, kind_of(std::current_exception()) + ": " + text_of(std::current_exception()));
        status = 3;
      }
      _exit(status);
    }
    children.push_back(child);
  }
  return children;
}

}  // namespace heddle::test
