#pragma once
// Texts and names by number: a capture repeats them so often that everything else refers to them.

#include "core/base/arena.hh"
#include "core/base/flat_ids.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// Distinct strings of bytes, numbered from 0 in the order in which they were added. About 60 bytes
/// each, beside their own.
class Strings {
public:
    using Id = std::uint32_t;

    /// The string's number; one that was not there yet is copied.
    Id add(std::string_view text);

    [[nodiscard]] std::optional<Id> find(std::string_view text) const;

    /// Good as long as this object.
    [[nodiscard]] std::string_view operator[](Id id) const { return texts_[id]; }

    [[nodiscard]] std::size_t size() const { return texts_.size(); }

private:
    FlatIds<16> ids_; ///< of their hashes
    std::vector<std::string_view> texts_;
    Arena memory_{1UL << 20U};
};

using NameId = Strings::Id;

/// Names as their keys (NameKey::key()). With a name all that enclose it are there, too.
class NameTable {
public:
    static constexpr NameId kRoot = 0;

    NameTable();

    NameId add(std::string_view key);

    NameId add(const NameKey& name) { return add(name.key()); }

    [[nodiscard]] std::optional<NameId> find(std::string_view key) const { return keys_.find(key); }

    [[nodiscard]] std::string_view key(NameId id) const { return keys_[id]; }

    [[nodiscard]] NameKey name(NameId id) const { return NameKey::of_key(keys_[id]); }

    /// The name without its first label; the root's is the root.
    [[nodiscard]] NameId parent(NameId id) const { return parents_[id]; }

    /// Without the root.
    [[nodiscard]] unsigned labels(NameId id) const;

    /// Equal to `zone` or below it.
    [[nodiscard]] bool within(NameId id, NameId zone) const {
        return key(id).starts_with(key(zone));
    }

    [[nodiscard]] bool below(NameId id, NameId zone) const {
        return id != zone && within(id, zone);
    }

    /// Its first label is an asterisk.
    [[nodiscard]] bool is_wildcard(NameId id) const {
        return id != kRoot && key(id).substr(key(parent(id)).size()) == "\1*";
    }

    /// The lowest name that encloses or equals both.
    [[nodiscard]] NameId common(NameId a, NameId b) const;

    [[nodiscard]] std::size_t size() const { return keys_.size(); }

private:
    Strings keys_;
    std::vector<NameId> parents_;
};

} // namespace reprise::zonebuilder
