// Whether gradients are looked at one by one.
#pragma once

namespace heddle {

// Whether a FindNaN of this thread lives: backward() waits then, so that steps cannot be captured.
bool finds_nan_here();

}  // namespace heddle
