#include "zonebuilder/reconstruct/strings.hh"

#include "core/base/bytes.hh"
#include "core/base/flat_ids.hh"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>

namespace reprise::zonebuilder {
namespace {

/// 128 bits under a key that no capture knows: two strings do not meet.
FlatIds<16>::Key hash_of(std::string_view text) {
    static const std::uint64_t seed = std::random_device{}();
    const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
    FlatIds<16>::Key key;
    std::memcpy(key.data(), &hash, key.size());
    return key;
}

/// The key of the name above, "\3com" of "\3com\7example".
std::string_view key_above(std::string_view key) {
    std::size_t last = 0;
    for (std::size_t at = 0; at < key.size(); at += 1UL + static_cast<std::uint8_t>(key[at])) {
        last = at;
    }
    return key.substr(0, last);
}

} // namespace

Strings::Id Strings::add(std::string_view text) {
    const auto [id, fresh] = ids_.find_or_add(hash_of(text), static_cast<Id>(texts_.size()));
    if (fresh) {
        const Bytes kept = memory_.copy(bytes_of(text));
        texts_.emplace_back(reinterpret_cast<const char*>(kept.data()), kept.size());
    }
    return id;
}

std::optional<Strings::Id> Strings::find(std::string_view text) const {
    return ids_.find(hash_of(text));
}

NameTable::NameTable() { add(std::string_view{}); }

NameId NameTable::add(std::string_view key) {
    const NameId id = keys_.add(key);
    if (id == parents_.size()) {
        parents_.push_back(kRoot); // now, for the names above get their numbers in between
        const NameId above = key.empty() ? kRoot : add(key_above(key));
        parents_[id] = above;
    }
    return id;
}

unsigned NameTable::labels(NameId id) const {
    unsigned labels = 0;
    for (; id != kRoot; id = parent(id)) {
        ++labels;
    }
    return labels;
}

NameId NameTable::common(NameId a, NameId b) const {
    while (!within(b, a)) {
        a = parent(a);
    }
    return a;
}

} // namespace reprise::zonebuilder
