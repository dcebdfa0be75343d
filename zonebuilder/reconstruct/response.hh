#pragma once
// A response as ids: texts and names by number, for a capture repeats them so often that everything
// else refers to them, and its sections' RRsets in canonical form. Only response.cc reads and
// writes records by libknot.

#include "core/base/arena.hh"
#include "core/base/bytes.hh"
#include "core/base/flat_ids.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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

inline constexpr std::uint32_t kNoId = 0xffffffff;

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

    /// The lowest of the name and those that enclose it for which `holds`; kNoId: none of them.
    template <typename Holds> [[nodiscard]] NameId lowest(NameId id, Holds holds) const {
        while (!holds(id)) {
            if (id == kRoot) {
                return kNoId;
            }
            id = parent(id);
        }
        return id;
    }

    /// The lowest name that encloses or equals both.
    [[nodiscard]] NameId common(NameId a, NameId b) const;

    [[nodiscard]] std::size_t size() const { return keys_.size(); }

private:
    Strings keys_;
    std::vector<NameId> parents_;
};

// Records' data as zone files have it.

/// The type's name where BIND, NSD and libzscanner of any age read its data by name, else TYPEn.
std::string type_text(std::uint16_t type);

/// Appends the presentation form of an rdata, through libknot; types without a name above are
/// written as bytes (RFC 3597). False where it cannot be written; `out` is as it was then.
bool append_rdata(std::string& out, std::uint16_t type, std::string_view rdata);

/// Whether the data is such as its type has, so that a server loads it.
bool is_valid_rdata(std::uint16_t type, std::string_view rdata);

/// Of an RRset's records, encoded (see rdatas()); equal records have equal ids.
using ContentId = Strings::Id;

/// The rdata of an RRset's records: canonical form (RFC 4034 section 6), sorted, none twice.
std::vector<std::string_view> rdatas(std::string_view content);

/// The first of them; a content has one at least.
std::string_view first_rdata(std::string_view content);

/// The name at a place of an rdata that is valid.
NameKey name_in(std::string_view rdata, std::size_t at = 0);

/// Of the first RRSIG of a content the signer's name (RFC 4034 section 3.1.7).
NameKey signer_in(std::string_view content);

/// The names that the NS records of a content have as data.
std::vector<NameId> servers_in(std::string_view content, NameTable& names);

/// The reverse; `rdatas` as above. Uses the memory of `content` again.
void content_of(const std::vector<std::string_view>& rdatas, std::string& content);

struct Rrset {
    NameId owner = NameTable::kRoot;
    std::uint16_t type = 0;
    std::uint32_t ttl = 0; ///< smallest of its records
    ContentId content = kNoId;
    ContentId signatures = kNoId; ///< RRSIG records over it; kNoId: none
};

struct Response {
    NameId question = NameTable::kRoot;
    std::uint16_t question_type = 0;
    std::uint16_t rcode = 0; ///< with the bits of EDNS
    bool authoritative = false;
    bool recursive = false; ///< RA
    std::vector<Rrset> answer;
    std::vector<Rrset> authority;
    std::vector<Rrset> additional;
    std::uint32_t surplus = 0; ///< records left out of RRsets that have one record at most
};

/// Reads responses; owners and records get their ids in `names` and `contents`, which must outlive
/// it.
class ResponseReader {
public:
    ResponseReader(NameTable& names, Strings& contents) : names_(names), contents_(contents) {}

    /// Returns why the response cannot be used, empty where it can: "malformed" (it does not hold
    /// together, or has data that no record of its type may have), "opcode" (not QUERY),
    /// "not_one_question", "class_not_in", "truncated".
    std::string_view read(Bytes message, Response& response);

private:
    struct Record {
        NameId owner = NameTable::kRoot;
        std::uint16_t type = 0; ///< of an RRSIG the type that it covers
        bool signature = false; ///< it is an RRSIG
        std::uint32_t ttl = 0;
        std::string_view rdata; ///< in the pool of the call
    };

    /// A name of the message by its place, for what points at it.
    struct Place {
        std::size_t at;
        NameId name;
    };

    std::optional<NameId> owner_of(Bytes message, std::size_t at, const std::uint8_t* owner);
    std::string_view read_section(Bytes message, std::size_t& at, unsigned count,
                                  std::vector<Rrset>& out, std::uint32_t& surplus);
    bool group(std::vector<Rrset>& out, std::uint32_t& surplus);
    bool check(std::uint16_t type, ContentId content);

    NameTable& names_;
    Strings& contents_;
    std::vector<Place> places_;              ///< of the message
    std::vector<Record> records_;            ///< of a section
    std::vector<std::string_view> data_;     ///< of an RRset
    std::string content_;                    ///< likewise, encoded
    std::vector<std::uint16_t> valid_types_; ///< of each content, for which it was found valid
};

} // namespace reprise::zonebuilder
