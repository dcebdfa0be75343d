#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>

namespace reprise::controller {

/// The TCP connections of a trace of which a query was played: only their closes are. Memory
/// follows how many there are, whatever their numbers, which a text or stream file may choose: 64
/// neighbors share an entry of some 50 bytes, which goes with the last of them.
class PlayedConnections {
public:
    void add(std::uint64_t connection) { entries_[connection / kShared] |= bit(connection); }

    /// Forgets the connection; whether it was there.
    bool remove(std::uint64_t connection) {
        const auto found = entries_.find(connection / kShared);
        if (found == entries_.end() || (found->second & bit(connection)) == 0) {
            return false;
        }
        found->second &= ~bit(connection);
        if (found->second == 0) {
            entries_.erase(found);
        }
        return true;
    }

    void clear() { entries_.clear(); }

    /// Of neighbors of which at least one is held.
    [[nodiscard]] size_t entries() const { return entries_.size(); }

private:
    static constexpr std::uint64_t kShared = 64; ///< connections an entry

    static std::uint64_t bit(std::uint64_t connection) {
        return std::uint64_t{1} << connection % kShared;
    }

    /// Seeded: a trace cannot be made to collide.
    struct Hash {
        std::uint64_t seed;

        size_t operator()(std::uint64_t key) const noexcept {
            return XXH3_64bits_withSeed(&key, sizeof key, seed);
        }
    };

    std::unordered_map<std::uint64_t, std::uint64_t, Hash> entries_{
        0, Hash{.seed = std::random_device{}()}};
};

} // namespace reprise::controller
