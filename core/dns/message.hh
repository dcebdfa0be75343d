#pragma once
// A read-only view of a DNS message (RFC 1035, EDNS RFC 6891). Never trusts a length.

#include "core/base/bytes.hh" // IWYU pragma: export

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise {

inline constexpr size_t kDnsHeaderSize = 12;
inline constexpr size_t kMaxMessage = 65'535; ///< as the size of a message over TCP has 16 bits
inline constexpr std::uint16_t kTypeOpt = 41; ///< RFC 6891

struct DnsHeader {
    std::uint16_t id = 0;
    std::uint16_t flags = 0;
    std::uint16_t questions = 0;
    std::uint16_t answers = 0;
    std::uint16_t authorities = 0;
    std::uint16_t additionals = 0;

    [[nodiscard]] bool is_response() const { return (flags & 0x8000U) != 0; }

    [[nodiscard]] std::uint8_t opcode() const { return (flags >> 11U) & 0xfU; }

    [[nodiscard]] bool truncated() const { return (flags & 0x0200U) != 0; }

    [[nodiscard]] std::uint8_t rcode() const { return flags & 0xfU; }
};

/// EDNS pseudo-record, as found in the additional section.
struct DnsEdns {
    std::uint16_t udp_size = 0;
    std::uint8_t extended_rcode = 0;
    std::uint8_t version = 0;
    bool dnssec_ok = false;
    Bytes options; ///< raw option list, borrowed from the message
};

/// First question. `raw` is name, type and class as on the wire, borrowed from the message.
struct DnsQuestion {
    Bytes name; ///< uncompressed wire form with the root label
    std::uint16_t type = 0;
    std::uint16_t dns_class = 0;
    Bytes raw;
};

/// Header, or nothing where the message is shorter than 12 bytes.
inline std::optional<DnsHeader> parse_header(Bytes message) {
    if (message.size() < kDnsHeaderSize) {
        return std::nullopt;
    }
    const std::uint8_t* const at = message.data();
    return DnsHeader{.id = load16(at),
                     .flags = load16(at + 2),
                     .questions = load16(at + 4),
                     .answers = load16(at + 6),
                     .authorities = load16(at + 8),
                     .additionals = load16(at + 10)};
}

/// First question, or nothing where there is none or it is malformed (compressed question names
/// count as malformed).
std::optional<DnsQuestion> parse_question(Bytes message);

/// The OPT record, or nothing where there is none or the message is malformed before it.
std::optional<DnsEdns> parse_edns(Bytes message);

/// How a message of `size` bytes holds together, as far as `message`, its beginning, goes: no
/// name with a pointer but to what lies before it, no part that ends behind the message. Of a
/// truncated message (TC) only the questions are looked at. kTrailing: whole, and bytes stand
/// behind the last record.
enum class MessageEnd : std::uint8_t { kBroken, kWhole, kTrailing };

MessageEnd message_end(Bytes message, size_t size);

/// Whether two questions ask the same: names compared without regard to ASCII case (RFC 4343).
bool same_question(const DnsQuestion& a, const DnsQuestion& b);

/// What a query asks besides its name.
struct QueryShape {
    std::uint16_t id = 0;
    std::uint16_t type = 0;
    bool recursion_desired = false;
    bool checking_disabled = false;
    bool edns = false;
    bool dnssec_ok = false;
    std::uint16_t edns_size = 0;
};

/// Replaces `out` by a query of class IN for a name in wire form; with an empty OPT record where
/// asked.
void build_query(std::vector<std::uint8_t>& out, const QueryShape& shape, Bytes name);

/// Rcode of a reply with the upper bits of EDNS where present.
std::uint16_t full_rcode(Bytes reply);

} // namespace reprise
