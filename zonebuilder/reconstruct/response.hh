#pragma once
// A response as ids: its sections' RRsets in canonical form. response.cc is the only user of
// libknot.

#include "core/base/bytes.hh"
#include "zonebuilder/reconstruct/strings.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

// Records' data as zone files have it.

/// The type's name where BIND, NSD and libzscanner of any age read its data by name, else TYPEn.
std::string type_text(std::uint16_t type);

/// Presentation form of an rdata, through libknot. Types without a name above are written as bytes
/// (RFC 3597).
class RdataText {
public:
    RdataText();
    ~RdataText();
    RdataText(const RdataText&) = delete;
    RdataText& operator=(const RdataText&) = delete;
    RdataText(RdataText&&) = delete;
    RdataText& operator=(RdataText&&) = delete;

    /// False where it cannot be written; `out` is as it was then.
    bool append(std::string& out, std::uint16_t type, std::string_view rdata);

    /// Whether the data is such as its type has, so that a server loads it.
    bool is_valid(std::uint16_t type, std::string_view rdata);

private:
    struct Dump;

    std::unique_ptr<Dump> dump_;
};

/// Of an RRset's records, encoded (see rdatas()); equal records have equal ids.
using ContentId = Strings::Id;

inline constexpr std::uint32_t kNoId = 0xffffffff;

/// The rdata of an RRset's records: canonical form (RFC 4034 section 6), sorted, none twice.
std::vector<std::string_view> rdatas(std::string_view content);

/// The first of them; a content has one at least.
std::string_view first_rdata(std::string_view content);

/// The name at a place of an rdata.
std::optional<NameKey> name_in(std::string_view rdata, std::size_t at = 0);

/// Of the first RRSIG of a content the signer's name (RFC 4034 section 3.1.7).
std::optional<NameKey> signer_in(std::string_view content);

/// The names that the NS records of a content have as data.
std::vector<NameId> servers_in(std::string_view content, NameTable& names);

/// The reverse; `rdatas` as above. The second form uses the memory of `content` again.
std::string content_of(const std::vector<std::string_view>& rdatas);
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
    bool truncated = false;
    bool recursive = false; ///< RA
    std::vector<Rrset> answer;
    std::vector<Rrset> authority;
    std::vector<Rrset> additional;
    std::uint32_t surplus = 0; ///< records left out of RRsets that have one record at most
};

enum class Unusable : std::uint8_t {
    kNo,
    kMalformed, ///< does not hold together, or data that no record of its type may have
    kQuestion,  ///< none, or several
    kClass,     ///< not IN
    kOpcode,    ///< not QUERY
};

/// Reads responses; owners and records get their ids in `names` and `contents`, which must outlive
/// it.
class ResponseReader {
public:
    ResponseReader(NameTable& names, Strings& contents) : names_(names), contents_(contents) {}

    /// `response` is good where kNo is returned. Of a truncated one no sections are read.
    Unusable read(Bytes message, Response& response);

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

    std::optional<NameId> known_at(std::size_t at) const;
    std::optional<NameId> owner_of(Bytes message, std::size_t at, const std::uint8_t* owner);
    Unusable read_section(Bytes message, std::size_t& at, unsigned count, std::vector<Rrset>& out,
                          std::uint32_t& surplus);
    bool group(std::vector<Rrset>& out, std::uint32_t& surplus);
    bool check(std::uint16_t type, ContentId content);

    NameTable& names_;
    Strings& contents_;
    std::vector<Place> places_;              ///< of the message
    std::vector<Record> records_;            ///< of a section
    std::vector<std::string_view> data_;     ///< of an RRset
    std::string content_;                    ///< likewise, encoded
    std::vector<std::uint16_t> valid_types_; ///< of each content, for which it was found valid
    RdataText text_;
};

} // namespace reprise::zonebuilder
