#pragma once
#include "core/address.hh"
#include "zonebuilder/name.hh"
#include "zonebuilder/zone.hh"

#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

/// The addresses of host names in all zones together.
class AddressBook {
public:
    explicit AddressBook(const std::vector<Zone>& zones);

    /// Where the host really is: what zones that own the name say; where none does, what glue says.
    /// A wildcard answers for a host without records of its own.
    [[nodiscard]] std::vector<IpAddress> real(const Name& host) const;

    /// Everywhere a resolver may look for it: own data and all glue, however stale.
    [[nodiscard]] std::vector<IpAddress> any(const Name& host) const;

private:
    struct Addresses {
        std::vector<IpAddress> own;
        std::vector<IpAddress> glue;
    };

    [[nodiscard]] const Addresses* find(const Name& host) const;

    std::unordered_map<std::string, Addresses> hosts_; ///< by key
};

} // namespace reprise::zonebuilder
