#pragma once
// Round trips by address: prefixes in a file, the longest that matches counts.
//
// All prefixes lie in one flat hash table under (address with its host bits cleared, length), and a
// lookup tries the lengths that occur, longest first. So single addresses cost one probe however
// many there are: a million take 48 MiB and 24 bytes for each row.

#include "core/base/address.hh"
#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::proxy {

/// What a path does to packets; a whole round trip.
struct Path {
    Nanoseconds rtt = 0;
    Nanoseconds jitter = 0; ///< most by which a packet's round trip differs, either way
    double loss = 0;        ///< share of packets, each way

    bool operator==(const Path&) const = default;
};

class RttTable {
public:
    /// Reads lines `PREFIX rtt_ms [jitter_ms [loss_percent]]` with blanks or tabs between;
    /// `default` stands for all addresses, # begins a comment. Cells that a line leaves out are
    /// those of `missing`. Throws UsageError with `name` and the line.
    RttTable(std::istream& file, const std::string& name, const Path& missing);

    /// The path to an address; none where no line holds for it.
    [[nodiscard]] const Path* find(const IpAddress& address) const;

    /// The path of the line `default`; none where there is none.
    [[nodiscard]] const std::optional<Path>& fallback() const { return fallback_; }

    [[nodiscard]] size_t size() const { return rows_.size(); }

private:
    struct Slot {
        IpAddress address;
        std::uint8_t length = 0;
        std::uint32_t row = 0; ///< in rows_, from 1; 0 where the slot is free
    };

    /// Places in `order` for lengths of a family, longest first.
    struct Lengths {
        std::array<bool, 129> there{};
        std::vector<std::uint8_t> order;
    };

    struct Row {
        std::string_view prefix;
        Path path;
    };

    [[nodiscard]] std::optional<std::string> add(const Row& row);
    [[nodiscard]] size_t slot_of(const IpAddress& address, std::uint8_t length) const;
    void grow();
    void note_length(const IpAddress& address, std::uint8_t length);

    std::vector<Slot> slots_; ///< a power of two, at most half full
    std::vector<Path> rows_;
    std::array<Lengths, 2> lengths_; ///< IPv4, IPv6
    std::optional<Path> fallback_;
};

} // namespace reprise::proxy
