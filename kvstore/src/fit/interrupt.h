// Ctrl-C while fit() runs.
#pragma once

namespace heddle::fit_detail {

// While one lives, SIGINT is noted in place of ending the process, if nobody else handles it: a second one ends the
// process. Several threads may have one each. A signal that interrupted() has told of to nobody is raised again at the end.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  bool interrupted() const;  // since it was made

 private:
  int before_ = 0;  // signals before it was made
};

}  // namespace heddle::fit_detail
