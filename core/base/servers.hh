#pragma once
#include "core/base/address.hh"

#include <cstdint>
#include <optional>

namespace reprise {

/// The server, by family.
struct Servers {
    std::optional<Endpoint> v4;
    std::optional<Endpoint> v6;

    [[nodiscard]] const std::optional<Endpoint>& of(std::uint8_t family) const {
        return family == 4 ? v4 : v6;
    }
};

} // namespace reprise
