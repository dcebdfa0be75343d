#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::controller {

/// The TCP connections of a trace of which a query was played: only their closes are. Memory: a bit
/// a connection of the trace, because the Reader numbers them from 1.
class PlayedConnections {
public:
    void add(std::uint64_t connection) {
        if (connection >= bits_.size()) {
            bits_.resize(connection + 1 + connection / 2);
        }
        bits_[connection] = true;
    }

    /// Forgets the connection; whether it was there.
    bool remove(std::uint64_t connection) {
        const bool known = connection < bits_.size() && bits_[connection];
        if (known) {
            bits_[connection] = false;
        }
        return known;
    }

    void clear() { bits_.clear(); }

private:
    std::vector<bool> bits_;
};

} // namespace reprise::controller
