// All of Heddle.
#pragma once

#include <heddle/array_op.h>
#include <heddle/call_tag.h>
#include <heddle/checkpoint.h>
#include <heddle/communicator.h>
#include <heddle/compression.h>
#include <heddle/dlpack.h>
#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/group.h>
#include <heddle/host_stream.h>
#include <heddle/kvstore.h>
#include <heddle/ndarray.h>
#include <heddle/npy.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/parallel.h>
#include <heddle/random.h>
#include <heddle/safetensors.h>
#include <heddle/schedule.h>
#include <heddle/sequential.h>
#include <heddle/stream_ops.h>
#include <heddle/trace.h>
#include <heddle/trainer.h>
