#pragma once
// What the tests of rules on messages share: messages put together part by part, and rules run over
// them.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/rules/engine/rule.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules::testing {

using Octets = std::vector<std::uint8_t>;

/// From text with escapes, which may hold zeros.
inline Octets octets(std::string_view text) { return {text.begin(), text.end()}; }

/// A query under construction. Each add counts in the header.
class MessageMaker {
public:
    explicit MessageMaker(std::uint16_t flags = 0x0100);

    MessageMaker& question(std::string_view name, std::uint16_t type = 1);

    /// `owner` and `data` as on the wire; the section's number: 1 answer, 2 authority, 3
    /// additional.
    MessageMaker& record(unsigned section, std::string_view owner, std::uint16_t type,
                         std::string_view data);
    MessageMaker& opt(std::uint16_t size = 4096, bool dnssec_ok = false,
                      std::string_view options = {});
    MessageMaker& tsig();
    MessageMaker& raw(std::string_view bytes);

    [[nodiscard]] Octets bytes() const { return bytes_; }

private:
    void count(unsigned section);

    Octets bytes_;
};

/// A query for an A record, without EDNS.
Octets plain(std::string_view name = "www.example.com.", std::uint16_t type = 1);

IpAddress source_of(std::uint32_t number);

/// Messages through a rule in batches of `cut`; source number i modulo `sources` asks for i.
std::vector<Octets> run(Rule& rule, const std::vector<Octets>& messages, size_t cut = 4096,
                        std::uint32_t sources = 16);

/// One message through a new rule.
Octets changed(const std::string& kind, const std::string& value, const Octets& message);

/// The name, type and EDNS of a message as core/dns/message.hh reads them: "www.example.com. 1
/// edns=1232 do v0 OPTIONS" with the options in hexadecimal.
std::string shown(const Octets& message);

/// A well-formed query as traces have them, drawn by number: names of 0 to 8 labels, any case,
/// with and without EDNS, options, signatures, other records.
Octets drawn(std::uint64_t number);

std::vector<Octets> drawn_messages(size_t count);

} // namespace reprise::rules::testing
