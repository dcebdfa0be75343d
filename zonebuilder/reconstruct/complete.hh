#pragma once
// What a zone needs to load and to be found, where the capture does not have it.

#include "core/base/address.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/hierarchy.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/strings.hh"

#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// A name server's address that did not answer for a zone that was delegated to it.
struct LameServer {
    NameId zone = NameTable::kRoot;
    ServerId server = 0;
};

/// A name that servers refused; it lies in none of their zones.
struct Refused {
    NameId name = NameTable::kRoot;
    std::vector<ServerId> servers; ///< sorted
};

/// A zone whose answers no resolver can validate, though it is signed or its parent says so.
struct Unproven {
    NameId zone = NameTable::kRoot;
    std::string_view why;
};

struct Completed {
    Drafts drafts;
    std::vector<std::vector<IpAddress>> addresses; ///< of each zone's servers; sorted
    std::vector<LameServer> lame;
    std::vector<Refused> refused; ///< sorted by the name's key
    std::vector<Contradiction> contradictions;
    std::vector<NameId> unreachable; ///< zones without an address
    std::vector<Unproven> unproven;
};

/// Adds what is missing: zones above others, SOA and NS records, addresses of name servers,
/// delegations, what signatures need, names that exist without records; zones for servers that only
/// refuse, or that deny the zone's own name. Every record that it makes up has its reason.
Completed complete(Observations& seen, const Hierarchy& hierarchy, Drafts drafts);

/// Makes zones deny what was denied, as far as they can; what they cannot is in
/// `done.contradictions`. Refused names are in `done.refused`.
void add_denials(Observations& seen, Completed& done);

/// Adds to zones with recorded signatures what they need so that servers return those and denials.
/// None of it can be validated.
void add_proofs(Observations& seen, Completed& done);

} // namespace reprise::zonebuilder
