// What happens on ranks: the texts of errors, and how child processes end. For tests and the programs that
// they start.
#include <sys/wait.h>

#include "ranks.h"

namespace heddle::test {

std::string wait_for(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return "no such child";
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(status));
}

std::string kind_of(const std::exception_ptr& error) {
  if (!error) return "nothing";
  try {
    std::rethrow_exception(error);
  } catch (const CommMismatch&) {
    return "CommMismatch";
  } catch (const PeerSilent&) {
    return "PeerSilent";
  } catch (const PeerLost&) {
    return "PeerLost";
  } catch (const RemoteFailure&) {
    return "RemoteFailure";
  } catch (const CommAborted&) {
    return "CommAborted";
  } catch (const CommError&) {
    return "CommError";
  } catch (const InvalidArgument&) {
    return "InvalidArgument";
  } catch (const std::exception&) {
    return "another exception";
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
  }
  return "";
}

}  // namespace heddle::test
