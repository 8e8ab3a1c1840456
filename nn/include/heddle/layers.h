// Layers: modules that networks are made of.
//   Sequential net{Conv2d(1, 32, 3, {.padding = 1, .relu = true}), MaxPool2d(2), Flatten(), Dense(6272, 10)};
//   NDArray logits = net(images);
// Written with braces, the layers draw their initial values from left to right. Copies of a layer share its parameters.
#pragma once

#include <heddle/layers/activations.h>
#include <heddle/layers/attention.h>
#include <heddle/layers/conv.h>
#include <heddle/layers/dense.h>
#include <heddle/layers/dropout.h>
#include <heddle/layers/embedding.h>
#include <heddle/layers/norm.h>
#include <heddle/layers/pooling.h>
#include <heddle/layers/positions.h>
#include <heddle/layers/quantized.h>
#include <heddle/layers/recurrent.h>
#include <heddle/layers/resample.h>
#include <heddle/layers/shape.h>
#include <heddle/layers/transformer.h>
