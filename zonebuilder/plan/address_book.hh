#pragma once
#include "core/base/address.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

/// The addresses of host names in all zones together. Wildcards, CNAMEs and DNAMEs lead to
/// addresses too: name servers' names should be no aliases (RFC 2181 section 10.3), but some are,
/// and some resolvers follow them.
class AddressBook {
public:
    explicit AddressBook(const std::vector<Zone>& zones);

    /// Where the host really is: what zones that own the name say; where none does, what glue says.
    [[nodiscard]] std::vector<IpAddress> real(const NameKey& host) const;

    /// Everywhere a resolver may look for it: own data and all glue, however stale.
    [[nodiscard]] std::vector<IpAddress> any(const NameKey& host) const;

private:
    /// What is known of a name.
    struct Host {
        std::vector<IpAddress> own;
        std::vector<IpAddress> glue;
        std::vector<NameKey> aliases;
        std::vector<NameKey> subtrees; ///< targets of DNAMEs
        bool everywhere = false;       ///< has own addresses in every content of its zone
    };

    struct Search;

    [[nodiscard]] const Host* find(std::string_view key) const;
    void look_at(const NameKey& name, Search& search) const;
    void look_above(const NameKey& name, bool known, Search& search) const;
    [[nodiscard]] Search look_for(const NameKey& host) const;

    /// Keys are looked up without a copy.
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };

    std::unordered_map<std::string, Host, Hash, std::equal_to<>> hosts_; ///< by key
};

} // namespace reprise::zonebuilder
