#pragma once
// Queries as Ethernet frames: pure, bytes in and bytes out.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::querier {

using MacAddress = std::array<std::uint8_t, 6>;

inline constexpr size_t kEthernetHeader = 14;
inline constexpr size_t kMostHeaders = kEthernetHeader + 40 + 8;

/// Where frames to one server come from and go to, below IP.
struct MacAddresses {
    MacAddress source{};
    MacAddress next_hop{};
};

/// Makes the frames of queries to one server. What all of them share, checksums included, is worked
/// out once.
class FrameTemplate {
public:
    FrameTemplate(const MacAddresses& macs, const Endpoint& server);

    /// Bytes before the DNS message.
    [[nodiscard]] size_t headers() const { return headers_; }

    /// Writes the frame of a query from `source`, which is of the server's family, into `out`,
    /// which has room for headers() and the query; the query has at most 65,507 bytes. `id` is
    /// IPv4's and has no meaning, as the frames forbid fragments. Returns the frame's size.
    size_t write(std::span<std::uint8_t> out, const Endpoint& source, Bytes query,
                 std::uint16_t id) const;

private:
    void begin_v4(const Endpoint& server);
    void begin_v6(const Endpoint& server);
    void write_v4(std::uint8_t* ip, const Endpoint& source, std::uint16_t id,
                  std::uint16_t udp_size) const;
    static void write_v6(std::uint8_t* ip, const Endpoint& source, std::uint16_t udp_size);

    std::array<std::uint8_t, kMostHeaders> bytes_{};
    size_t headers_ = 0;
    bool v4_ = true;
    Checksum ip_sum_;  ///< IPv4: over the header as it is in bytes_
    Checksum udp_sum_; ///< pseudo header without source and size; server's port
};

} // namespace reprise::querier
