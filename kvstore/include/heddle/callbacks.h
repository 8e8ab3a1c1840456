// The callbacks of the library for fit().
#pragma once

#include <heddle/callback.h>
#include <heddle/early_stopping.h>
#include <heddle/fit_reports.h>
#include <heddle/learning_rate_callbacks.h>
#include <heddle/model_checkpoint.h>
#include <heddle/monitor_mode.h>
