#pragma once
#include "zonebuilder/reconstruct/complete.hh"
#include "zonebuilder/reconstruct/observations.hh"

namespace reprise::zonebuilder {

/// Makes zones deny what was denied, as far as they can; what they cannot is in
/// `done.contradictions`. Refused names are in `done.refused`.
void add_denials(Observations& seen, Completed& done);

} // namespace reprise::zonebuilder
