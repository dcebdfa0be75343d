#pragma once
// Limits of a replay that the controller refuses to pass and the querier relies on.

#include <cstddef>
#include <cstdint>

namespace reprise {

constexpr std::uint64_t kMostInFlight = 1U << 22U; ///< queries waiting for an answer, per querier
/// Numbers of UDP paths have four bits; one is the server's.
constexpr std::size_t kMostPeers = 15;

} // namespace reprise
