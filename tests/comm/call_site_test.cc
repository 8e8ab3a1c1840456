// Errors, traces and flight recorders name the source line that called a communicator.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/compression.h>

#include "call_sites.h"
#include "message_of.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("each call of a communicator names its line, also in the copies that it needs") {
  const auto comm = Communicator::create_local(1)[0];
  const auto pair = Communicator::create_local(2);
  const NDArray a = ones({4}), b = ones({4}), odd = ones({8}).slice(0, {.step = 2});
  const std::vector<std::int64_t> all{4};
  CompressedReduce reduce(comm, make_codec("1bit"), 4);
  check_site("Communicator::all_reduce", [&] { comm->all_reduce(a); });
  check_site("Communicator::all_reduce", [&] { comm->all_reduce(a, b); });
  check_site("Communicator::all_reduce", [&] { comm->all_reduce(odd); });
  check_site("Communicator::reduce_scatter", [&] { comm->reduce_scatter(odd, b); });
  check_site("Communicator::all_gather", [&] { comm->all_gather(a, odd); });
  check_site("Communicator::broadcast", [&] { comm->broadcast(odd, 0); });
  check_site("Communicator::reduce", [&] { comm->reduce(a, 0); });
  check_site("Communicator::all_to_all", [&] { comm->all_to_all(a, b); });
  check_site("Communicator::all_to_all", [&] { comm->all_to_all(a, all, b, all); });
  check_site("Communicator::send", [&] { pair[0]->send(a, 1), pair[1]->recv(b, 0); });
  check_site("Communicator::recv", [&] { pair[1]->recv(odd, 0), pair[0]->send(a, 1); });
  check_site("Communicator::barrier", [&] { comm->barrier(); });
  check_site("Communicator::wait", [&] { comm->wait(); });
  check_site("CompressedReduce::CompressedReduce", [&] { CompressedReduce(comm, make_codec("fp16"), 4); });
  check_site("CompressedReduce::reduce", [&] { reduce.reduce(odd); });
  check_site("CompressedReduce::residual", [&] { reduce.residual(); });
  check_site("CompressedReduce::sum_residual", [&] { reduce.sum_residual(); });
  check_site("CompressedReduce::set_residuals", [&] { reduce.set_residuals(a, b); });
  check_site("CompressedReduce::clear_errors", [&] { reduce.clear_errors(); });
}

TEST_CASE("the flight recorder shows the lines of calls, of those without the engine and of split too") {
  const auto comm = Communicator::create_local(1)[0];
  float value = 1;
  const int line = __LINE__;
  comm->barrier();
  comm->all_reduce(&value, 1, DType::f32);
  comm->split(0);
  comm->wait();
  const std::string calls = comm->flight_recorder(), file = "tests/comm/call_site_test.cc:";
  CHECK(calls.find(" at " + file + std::to_string(line + 1)) != std::string::npos);
  CHECK(calls.find(" at " + file + std::to_string(line + 2)) != std::string::npos);
  CHECK(calls.find("split in " + file + std::to_string(line + 3)) != std::string::npos);
}

TEST_CASE("a call that the ranks do not agree on names the line of each") {
  const auto ranks = Communicator::create_local(2);
  const NDArray a = ones({4}), b = ones({4});
  const int line = __LINE__;
  ranks[0]->all_reduce(a, ReduceOp::sum);
  ranks[1]->all_reduce(b, ReduceOp::max);
  const std::string file = "tests/comm/call_site_test.cc:";
  const std::string message = message_of<CommMismatch>([&] { a.wait(); });
  CAPTURE(message);
  CHECK(message.find(file + std::to_string(line + 1)) != std::string::npos);
  CHECK(message.find(file + std::to_string(line + 2)) != std::string::npos);
  message_of<Error>([&] { b.wait(); });
  const ErrorReport report = b.engine().error_of(b.var());
  CHECK(text_of(report.where) == file + std::to_string(line + 2));
  message_of<AggregateError>([] { current_engine().wait_all(); });
}

TEST_CASE("an abort and a shrink are named with their lines by what they make fail") {
  run_local(1, {}, [](Communicator& comm) {
    const NDArray a = ones({4});
    comm.abort("enough");
    const std::string place = "tests/comm/call_site_test.cc:" + std::to_string(__LINE__ - 1);
    comm.all_reduce(a);
    CHECK(message_of<Error>([&] { a.wait(); }).find(place) != std::string::npos);
  });
  run_local(2, {}, [](Communicator& comm) {
    const NDArray a = ones({4});
    comm.shrink();
    const std::string place = "shrink at tests/comm/call_site_test.cc:" + std::to_string(__LINE__ - 1);
    comm.all_reduce(a);
    CHECK(message_of<Error>([&] { a.wait(); }).find(place) != std::string::npos);
  });
}
