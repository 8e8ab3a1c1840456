#include "backend.h"

namespace heddle::detail {

std::unique_ptr<Backend> make_tcp_backend(Rendezvous&, const BackendOptions&) {
  throw CommError("this build has no tcp backend");
}

}  // namespace heddle::detail
