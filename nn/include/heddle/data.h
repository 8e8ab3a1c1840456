// Data for training: datasets, loaders, formats. Programs link heddle::data.
#pragma once

#include <heddle/data/audio.h>
#include <heddle/data/augmentation.h>
#include <heddle/data/dataset.h>
#include <heddle/data/derived_datasets.h>
#include <heddle/data/example_random.h>
#include <heddle/data/images.h>
#include <heddle/data/loader.h>
#include <heddle/data/records.h>
#include <heddle/data/tables.h>
#include <heddle/data/text.h>
