#pragma once
// Hand-made packets for the tests of this folder.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace::test {

using Buffer = std::vector<std::uint8_t>;

inline Buffer operator+(Buffer a, const Buffer& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// "45 00 ff": hexadecimal digits, spaces ignored.
Buffer hex(std::string_view text);

Buffer be16(unsigned value);
Buffer be32(std::uint32_t value);
Buffer little32(std::uint32_t value);

/// A query (or response) for `label`.example, with an id.
Buffer dns(std::uint16_t id, bool response = false, const std::string& label = "www");

/// With its length in front, as TCP carries it.
Buffer prefixed(const Buffer& message);

Buffer udp(unsigned source_port, unsigned destination_port, const Buffer& payload);

struct Tcp {
    unsigned source_port = 40'000;
    unsigned destination_port = 53;
    std::uint32_t sequence = 0;
    std::uint32_t acknowledgement = 0;
    std::string flags = "A"; ///< letters of S, A, F, R
    Buffer payload;
};

Buffer tcp(const Tcp& fields);

struct Ip {
    std::string source = "192.0.2.1";
    std::string destination = "198.51.100.1";
    unsigned protocol = 17;
    bool more = false;
    unsigned offset = 0; ///< bytes
    std::uint32_t id = 1;
};

/// An IPv4 packet around `payload`; with options where `options` holds a multiple of 4 bytes.
Buffer ipv4(const Buffer& payload, const Ip& fields = {}, const Buffer& options = {});

/// An IPv6 packet; a fragment header stands in it where more or offset is set.
Buffer ipv6(const Buffer& payload,
            const Ip& fields = {.source = "2001:db8::1", .destination = "2001:db8::2"});

/// An Ethernet frame, with `tags` (VLAN headers) before the EtherType.
Buffer ethernet(const Buffer& packet, const Buffer& tags = {});

/// A pcap file of microseconds or nanoseconds, in either byte order.
class PcapFile {
public:
    explicit PcapFile(std::uint32_t link, bool nanoseconds = false, bool big_endian = false);

    /// `time` is nanoseconds since the epoch.
    void add(const Buffer& frame, std::int64_t time, std::uint32_t wire_length = 0);

    [[nodiscard]] const Buffer& bytes() const { return bytes_; }

private:
    void put(std::uint32_t value);

    bool nanoseconds_;
    bool big_endian_;
    Buffer bytes_;
};

/// A pcapng file, block by block; the first section is there from the beginning.
class PcapngFile {
public:
    explicit PcapngFile(bool big_endian = false) { section(big_endian); }

    /// What follows is in this byte order.
    void section(bool big_endian);

    /// Options: `time` of resolution() or offset().
    void interface(unsigned link, std::uint32_t snap_length = 0, const Buffer& time = {});

    /// Of an interface by its number in the section, `ticks` of its unit since the epoch.
    void packet(std::uint32_t interface, const Buffer& frame, std::uint64_t ticks,
                std::uint32_t wire_length = 0);

    /// The obsolete kind.
    void old_packet(unsigned interface, const Buffer& frame, std::uint64_t ticks);

    /// Of the first interface, without a time.
    void simple_packet(const Buffer& frame, std::uint32_t wire_length = 0);

    void block(std::uint32_t type, const Buffer& body);

    /// if_tsresol.
    static Buffer resolution(std::uint8_t value) { return {9, 0, 1, 0, value, 0, 0, 0}; }

    [[nodiscard]] const Buffer& bytes() const { return bytes_; }

private:
    [[nodiscard]] Buffer u16(unsigned value) const;
    [[nodiscard]] Buffer u32(std::uint32_t value) const;

    bool big_endian_ = false;
    Buffer bytes_;
};

} // namespace reprise::trace::test
