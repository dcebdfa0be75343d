#pragma once
// What a signed zone needs so that servers give its recorded signatures and denials.

#include "zonebuilder/reconstruct/complete.hh"
#include "zonebuilder/reconstruct/observations.hh"

namespace reprise::zonebuilder {

/// Adds it to the zones of which signatures were recorded. None of it can be validated.
void add_proofs(Observations& seen, Completed& done);

} // namespace reprise::zonebuilder
