#pragma once
// What servers were seen to say, each thing once: the evidence that zones are rebuilt from. Nothing
// is believed here; zone cuts are not known yet.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "zonebuilder/reconstruct/response.hh"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

using ServerId = std::uint32_t;

/// Where in a response a record stood, and so how much weight it has (RFC 2181 section 5.4.1); the
/// best first.
enum class Rank : std::uint8_t {
    kAnswer,          ///< of an authoritative answer, at the name that was asked for
    kChained,         ///< the same, behind an alias
    kAuthority,       ///< beside an authoritative answer: the zone's NS, SOA, NSEC
    kReferral,        ///< a delegation: NS, DS, and what proves that there is no DS
    kAdditional,      ///< addresses and the like
    kUnauthoritative, ///< an answer without AA
};

/// A server gave an RRset. 48 bytes, and some 40 to find it.
struct Observation {
    ServerId server = 0;
    NameId owner = NameTable::kRoot;
    ContentId content = kNoId;
    ContentId signatures = kNoId; ///< of the first response that had some
    std::uint32_t ttl = 0;
    std::uint32_t count = 0;
    std::uint16_t type = 0;
    Rank rank = Rank::kAnswer;
    Nanoseconds time = 0; ///< as Observations::sooner() prefers
};

/// A server denied a name, or records of a type at it, as authority of a zone.
struct Denial {
    ServerId server = 0;
    NameId name = NameTable::kRoot;
    NameId zone = NameTable::kRoot; ///< the SOA's owner
    std::uint16_t type = 0;         ///< 0: the name does not exist
    Nanoseconds time = 0;
};

/// A server showed, by a SOA, by NS records beside an answer or as a signatures' signer, that a
/// name is a zone's.
struct Claim {
    ServerId server = 0;
    NameId zone = NameTable::kRoot;
    NameId common = NameTable::kRoot; ///< lowest name that encloses all that it was asked for then
    std::uint32_t count = 0;
    Nanoseconds time = 0;
};

/// Why a response says nothing about a zone's contents.
enum class Failure : std::uint8_t {
    kRcode,            ///< neither NOERROR nor NXDOMAIN
    kUpward,           ///< a referral to the root
    kNotAuthoritative, ///< an answer or denial without AA
    kEmpty,            ///< no answer, no referral, no SOA
    kDeniesZone,       ///< NXDOMAIN for the name of the zone that it is from
};

/// A server failed at a name.
struct Failed {
    ServerId server = 0;
    NameId name = NameTable::kRoot;
    Failure why = Failure::kRcode;
    std::uint16_t rcode = 0;
    Nanoseconds time = 0;
};

/// Things by key, each once, in the order in which they came.
template <typename T> class Keyed {
public:
    /// The thing of that key; where there is none, it becomes `first`.
    T& at(const FlatIds<16>::Key& key, const T& first) {
        const auto [id, fresh] = ids_.find_or_add(key, static_cast<std::uint32_t>(all_.size()));
        return fresh ? all_.emplace_back(first) : all_[id];
    }

    [[nodiscard]] const std::vector<T>& all() const { return all_; }

private:
    std::vector<T> all_;
    FlatIds<16> ids_;
};

class Observations {
public:
    static constexpr Nanoseconds kFirst = std::numeric_limits<Nanoseconds>::min();

    /// Of things that differ the one counts that was in force at `at`: the last before it, else the
    /// first after it. With kFirst that is the first.
    explicit Observations(Nanoseconds at = kFirst) : at_(at) {}

    NameTable& names() { return names_; }

    [[nodiscard]] const NameTable& names() const { return names_; }

    Strings& contents() { return contents_; }

    [[nodiscard]] const Strings& contents() const { return contents_; }

    ServerId server(const IpAddress& address) { return servers_.add(address); }

    [[nodiscard]] std::optional<ServerId> find_server(const IpAddress& address) const {
        return servers_.find(address);
    }

    [[nodiscard]] const IpAddress& address(ServerId server) const { return servers_[server]; }

    [[nodiscard]] std::size_t servers() const { return servers_.size(); }

    /// Takes a response that is not truncated.
    void add(const Response& response, ServerId server, Nanoseconds time);

    [[nodiscard]] const std::vector<Observation>& rrsets() const { return rrsets_.all(); }

    [[nodiscard]] const std::vector<Denial>& denials() const { return denials_.all(); }

    [[nodiscard]] const std::vector<Claim>& claims() const { return claims_.all(); }

    [[nodiscard]] const std::vector<Failed>& failures() const { return failures_.all(); }

    /// RRsets in places where they say nothing, by reason.
    [[nodiscard]] const std::map<std::string_view, std::uint64_t>& ignored() const {
        return ignored_;
    }

    /// Whether what was seen at `a` counts rather than what was seen at `b`.
    [[nodiscard]] bool sooner(Nanoseconds a, Nanoseconds b) const {
        const bool both = (a <= at_) == (b <= at_);
        return both ? (a <= at_ ? a > b : a < b) : a <= at_;
    }

private:
    class Reading;

    Nanoseconds at_;
    NameTable names_;
    Strings contents_;
    AddressTable servers_;
    Keyed<Observation> rrsets_;
    Keyed<Denial> denials_;
    Keyed<Claim> claims_;
    Keyed<Failed> failures_;
    std::map<std::string_view, std::uint64_t> ignored_;
};

} // namespace reprise::zonebuilder
