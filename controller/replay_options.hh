#pragma once
#include "controller/options.hh"
#include "core/wire/replay.pb.h"

namespace reprise::controller {

/// What the queriers are asked to do. Throws UsageError where the file of tls.ca cannot be read.
wire::Options replay_options(const Options& options, const Servers& servers);

} // namespace reprise::controller
