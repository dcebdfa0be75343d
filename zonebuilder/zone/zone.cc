// Names as keys. Wire form has the labels from the leaf up, so that a zone's name is a suffix of
// what lies in it, with the length octets in the way of a comparison; turned round, "lies in" is
// "begins with".
#include "zonebuilder/zone/zone.hh"

#include "core/base/text.hh"
#include "core/dns/name.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

bool plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '*' ||
           c == '/';
}

} // namespace

std::optional<std::string_view> key_from_wire(std::span<const std::uint8_t> wire, KeyRoom& room) {
    std::array<std::uint8_t, Name::kMost / 2 + 1> starts{}; // of the labels
    std::size_t labels = 0;
    std::size_t at = 0;
    for (; at < wire.size() && wire[at] != 0; at += 1UL + wire[at]) {
        if (wire[at] > Name::kMostLabel || at + wire[at] + 2 > std::min(wire.size(), Name::kMost)) {
            return std::nullopt;
        }
        starts[labels++] = static_cast<std::uint8_t>(at);
    }
    if (at >= wire.size()) {
        return std::nullopt;
    }
    char* out = room.data();
    while (labels > 0) {
        const std::size_t start = starts[--labels];
        *out++ = static_cast<char>(wire[start]);
        for (const std::uint8_t byte : wire.subspan(start + 1, wire[start])) {
            *out++ = static_cast<char>(Lower{}(byte));
        }
    }
    return std::string_view(room.data(), at);
}

std::optional<NameKey> NameKey::from_wire(std::span<const std::uint8_t> wire) {
    KeyRoom room;
    const auto key = key_from_wire(wire, room);
    return key ? std::optional(of_key(*key)) : std::nullopt;
}

NameKey NameKey::of_key(std::string_view key) {
    NameKey name;
    name.key_ = key;
    return name;
}

std::optional<NameKey> NameKey::parse(std::string_view text) {
    const auto wire = parse_name(text);
    return wire ? from_wire(wire->bytes()) : std::nullopt;
}

std::string NameKey::text() const {
    if (is_root()) {
        return ".";
    }
    std::string text;
    const std::vector<std::string_view> keys = enclosing();
    for (std::size_t i = keys.size() - 1; i > 0; --i) {
        for (const char c : keys[i].substr(keys[i - 1].size() + 1)) {
            if (plain(c)) {
                text += c;
            } else {
                text += fmt::format("\\{:03}", static_cast<std::uint8_t>(c));
            }
        }
        text += '.';
    }
    return text;
}

std::optional<NameKey> NameKey::moved(std::string_view owner_key, const NameKey& target) const {
    NameKey name;
    name.key_ = target.key_ + key_.substr(owner_key.size());
    return name.key_.size() < Name::kMost ? std::optional(std::move(name)) : std::nullopt;
}

std::vector<std::string_view> NameKey::enclosing() const {
    const std::string_view key = key_;
    std::vector<std::string_view> keys{key.substr(0, 0)};
    for (std::size_t at = 0; at < key.size();) {
        at += 1UL + static_cast<std::uint8_t>(key[at]);
        keys.push_back(key.substr(0, at));
    }
    return keys;
}

std::string wildcard_key(std::string_view key) { return std::string(key) + "\1*"; }

// The sorted list of zones is the tree. A name's key is a prefix of the keys of all names below it,
// so these stand right behind it; what encloses a name are the prefixes of its own key, found by
// hash.

ZoneTree::ZoneTree(const std::vector<Zone>& zones) : zones_(&zones) {
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const auto index = static_cast<ZoneIndex>(i);
        const auto [place, fresh] =
            ranges_.try_emplace(zones[i].name.key(), ZoneRange{index, index});
        place->second.end = index + 1;
    }
}

ZoneRange ZoneTree::at(std::string_view key) const {
    const auto found = ranges_.find(key);
    return found == ranges_.end() ? ZoneRange{} : found->second;
}

ZoneRange ZoneTree::below(const NameKey& name) const {
    const auto first = std::ranges::upper_bound(*zones_, name, {}, &Zone::name);
    const auto end = std::partition_point(first, zones_->end(),
                                          [&](const Zone& zone) { return zone.name.within(name); });
    return {static_cast<ZoneIndex>(first - zones_->begin()),
            static_cast<ZoneIndex>(end - zones_->begin())};
}

std::vector<ZoneRange> ZoneTree::enclosing(const NameKey& name) const {
    std::vector<ZoneRange> ranges;
    for (const std::string_view key : name.enclosing()) {
        if (const ZoneRange range = at(key); !range.empty()) {
            ranges.push_back(range);
        }
    }
    return ranges;
}

} // namespace reprise::zonebuilder
