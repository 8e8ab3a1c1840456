// Every operator on arrays, and the tape that differentiates them.
#pragma once

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
