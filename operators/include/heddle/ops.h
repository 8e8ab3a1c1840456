// Every operator on arrays, and the tape that differentiates them.
#pragma once

#include <heddle/activations.h>
#include <heddle/autograd.h>
#include <heddle/conv.h>
#include <heddle/creation.h>
#include <heddle/distributions.h>
#include <heddle/dropout.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/embedding.h>
#include <heddle/indexing.h>
#include <heddle/into.h>
#include <heddle/linalg.h>
#include <heddle/matmul.h>
#include <heddle/pooling.h>
#include <heddle/products.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>
#include <heddle/row_sparse.h>
#include <heddle/scan.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>
#include <heddle/softmax.h>
#include <heddle/sorting.h>
#include <heddle/statistics.h>
