#pragma once
#include "core/dns/name.hh"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// A domain name in lower case, kept as its labels from the root down, each behind its length
/// octet ("\3com\7example"). So a zone's key is a prefix of the keys of all names in it, and
/// sorting puts everything below a name right behind it. The root's key is empty.
class NameKey {
public:
    NameKey() = default;

    /// The name at the beginning of uncompressed wire data; none where that is cut or too long.
    static std::optional<NameKey> from_wire(std::span<const std::uint8_t> wire);

    /// Reads text as in a zone file ("a\.b.example."); relative names are taken as absolute.
    static std::optional<NameKey> parse(std::string_view text);

    /// Of what key() gave.
    static NameKey of_key(std::string_view key);

    /// Absolute, everything but letters, digits, '-', '_', '*' and '/' as \DDD: safe in zone files
    /// and in quotes.
    [[nodiscard]] std::string text() const;

    [[nodiscard]] const std::string& key() const { return key_; }

    [[nodiscard]] bool is_root() const { return key_.empty(); }

    /// Equal to `zone` or below it.
    [[nodiscard]] bool within(const NameKey& zone) const { return key_.starts_with(zone.key_); }

    [[nodiscard]] bool below(const NameKey& zone) const { return within(zone) && *this != zone; }

    /// The name that a DNAME makes of this one, which is below its owner; none where it is too
    /// long.
    [[nodiscard]] std::optional<NameKey> moved(std::string_view owner_key,
                                               const NameKey& target) const;

    /// The keys of the root, ..., the parent, and the name itself; they point into this name.
    [[nodiscard]] std::vector<std::string_view> enclosing() const;

    auto operator<=>(const NameKey&) const = default;

private:
    std::string key_;
};

/// Room for the longest key (RFC 1035 section 2.3.4).
using KeyRoom = std::array<char, Name::kMost>;

/// NameKey::from_wire(), without a name: its key, in `room`.
std::optional<std::string_view> key_from_wire(std::span<const std::uint8_t> wire, KeyRoom& room);

/// The key of the wildcard right below a name.
std::string wildcard_key(std::string_view key);

} // namespace reprise::zonebuilder

template <> struct std::hash<reprise::zonebuilder::NameKey> {
    std::size_t operator()(const reprise::zonebuilder::NameKey& name) const noexcept {
        return std::hash<std::string>{}(name.key());
    }
};
