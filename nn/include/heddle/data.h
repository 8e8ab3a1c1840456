// Data for training: datasets, loaders, formats. Programs link heddle::data.
#pragma once

#include <heddle/data/augmentation.h>
#include <heddle/data/dataset.h>
#include <heddle/data/loader.h>
