#pragma once
// The planner's map.tsv: which meta address stands for which server, by resolver.

#include "core/base/address.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::proxy {

/// A resolver under test; addresses of family 0 where it has none of that family.
struct Resolver {
    unsigned number = 0;
    IpAddress v4;
    IpAddress v6;
};

/// The addresses of the meta-DNS-server that carry one slot for one resolver.
struct MetaAddress {
    unsigned slot = 0;
    unsigned resolver = 0;
    unsigned instance = 0;
    IpAddress v4;
    IpAddress v6;
};

/// An original query destination address and the slot that answers for it.
struct Oqda {
    IpAddress address;
    unsigned slot = 0;
};

struct AddressMap {
    std::vector<Resolver> resolvers;
    std::vector<MetaAddress> metas;
    std::vector<Oqda> oqdas;

    [[nodiscard]] const Resolver* resolver(unsigned number) const;
};

/// Parses a map. Throws Error naming `name`, the line, and the hint.
AddressMap parse_map(std::string_view text, const std::string& name);

/// Reads a map from a file. Throws Error.
AddressMap read_map(const std::string& path);

} // namespace reprise::proxy
