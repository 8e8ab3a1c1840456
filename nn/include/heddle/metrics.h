// All metrics of the library.
#pragma once

#include <heddle/metrics/classes.h>
#include <heddle/metrics/values.h>
