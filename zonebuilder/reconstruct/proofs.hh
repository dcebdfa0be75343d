#pragma once
// What a signed zone needs so that servers return its recorded signatures and denials.

#include "zonebuilder/reconstruct/complete.hh"
#include "zonebuilder/reconstruct/observations.hh"

namespace reprise::zonebuilder {

/// Adds these records to zones with recorded signatures. None of them can be validated.
void add_proofs(Observations& seen, Completed& done);

} // namespace reprise::zonebuilder
