#pragma once
// Records that no capture has.

#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/reconstruct/strings.hh"
#include "zonebuilder/zone/name_key.hh"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

inline constexpr std::uint32_t kTtl = 3600; ///< of what is made up

/// Data of an A record that leads nowhere (RFC 5737).
inline constexpr std::string_view kNobody{"\xC0\x00\x02\x01", 4};

/// In wire form, as data of records has it.
std::string wire_of(const NameKey& name);

/// Data of a SOA record for a zone with this first server.
std::string soa_of(const NameKey& server);

/// Adds records to drafts, each with the reason why. What was made is in its zone after flush().
class Maker {
public:
    /// Both outlive it.
    Maker(Observations& seen, Drafts& drafts) : seen_(seen), drafts_(drafts) {}

    /// Unless the zone has such records or they were made before.
    void make(std::size_t zone, NameId owner, std::uint16_t type, ContentId content,
              std::uint32_t ttl, std::string_view why, ContentId signatures = kNoId);

    /// Of data in any order.
    ContentId content(std::vector<std::string> data);

    /// In a zone since the last flush().
    [[nodiscard]] const std::vector<DraftRrset>& made(std::size_t zone) { return extra_[zone]; }

    void flush();

private:
    Observations& seen_;
    Drafts& drafts_;
    std::unordered_map<std::size_t, std::vector<DraftRrset>> extra_; ///< of a zone
    std::set<std::tuple<std::size_t, NameId, std::uint16_t>> made_;
};

} // namespace reprise::zonebuilder
