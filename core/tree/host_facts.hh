#pragma once
#include "core/wire/replay.pb.h"

namespace reprise::tree {

/// Fills the fields of Hello that describe this host: boot id, time namespace, kernel, processors.
void describe_host(wire::Hello& hello);

/// Whether two hosts share one CLOCK_MONOTONIC: same boot and same time namespace.
bool same_clock(const wire::Hello& a, const wire::Hello& b);

} // namespace reprise::tree
