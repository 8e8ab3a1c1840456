#include "communicator/call_tags.h"

#include <heddle/call_tag.h>
#include <heddle/communicator.h>

namespace heddle {
namespace {

constinit thread_local const CallTag* innermost = nullptr;

}  // namespace

// A communicator is identified by the address of its var, which the code behind its calls knows too.
CallTag::CallTag(const Communicator& ranks, std::string_view text)
    : ranks_(&ranks.var()), text_(text), outer_(innermost) {
  innermost = this;
}

CallTag::~CallTag() { innermost = outer_; }

void CallTags::apply(const void* ranks, comm_detail::CallRecord& record) {
  for (const CallTag* tag = innermost; tag; tag = tag->outer_) {
    if (tag->ranks_ == ranks) return record.set_tag(tag->text_);
  }
}

}  // namespace heddle
