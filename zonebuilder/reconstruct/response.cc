#include "zonebuilder/reconstruct/response.hh"

#include "core/base/arena.hh"
#include "core/base/flat_ids.hh"
#include "core/dns/message.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

extern "C" {
#include <libknot/descriptor.h>
#include <libknot/dname.h>
#include <libknot/errcode.h>
#include <libknot/mm_ctx.h>
#include <libknot/packet/rrset-wire.h>
#include <libknot/rdata.h>
#include <libknot/rrset-dump.h>
#include <libknot/rrset.h>
}

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

constexpr std::array<std::uint16_t, 22> kNamed{1,  2,  5,  6,  12, 13, 15, 16, 28, 33, 35,
                                               39, 43, 44, 46, 47, 48, 50, 51, 52, 59, 60};

bool is_named(std::uint16_t type) { return std::ranges::find(kNamed, type) != kNamed.end(); }

/// Data that ends in a list of types, behind so many words: libzscanner does not take all of them
/// by name (NULL and SIG).
void append_types(std::string& out, std::string_view text, unsigned before) {
    for (const auto part : text | std::views::split(' ')) {
        const std::string word(part.begin(), part.end());
        std::uint16_t type = 0;
        const bool known = before == 0 && knot_rrtype_from_string(word.c_str(), &type) == 0;
        out += (known ? type_text(type) : word) + ' ';
        before -= before > 0 ? 1U : 0U;
    }
    out.pop_back();
}

/// Whether the times of an RRSIG (RFC 4034 section 3.1.5) can be written as dates: libknot puts
/// those over 68 years ahead before 1970.
bool has_dates(std::string_view rdata) {
    constexpr std::size_t kExpiration = 8;
    constexpr std::uint32_t kLatest = 3'000'000'000; // in 2065
    Cursor in(bytes_of(rdata));
    in.skip(kExpiration);
    const bool dates = in.u32be() < kLatest && in.u32be() < kLatest; // the second is the inception
    return dates && in.ok();
}

/// Whether an NSEC3 record (RFC 5155 section 3.2) names a next owner.
bool has_next_owner(std::string_view rdata) {
    constexpr std::size_t kSaltSize = 4;
    Cursor in(bytes_of(rdata));
    in.skip(kSaltSize);
    in.skip(in.u8());
    return in.u8() > 0;
}

/// Room for one rdata as libknot has it, with bytes of one value behind it: libknot 3.2 reads
/// beyond the end of data that is too short for its type.
class Padded {
public:
    explicit Padded(std::uint8_t padding)
        : bytes_(2 + kMostData + kPadding, padding), padding_(padding) {}

    knot_rdata_t* put(std::string_view rdata) {
        const auto begin = bytes_.begin() + 2;
        const auto end = std::ranges::copy(rdata, begin).out;
        std::fill(end, std::max(begin + used_, end), padding_);
        used_ = static_cast<std::ptrdiff_t>(rdata.size());
        auto* const made = reinterpret_cast<knot_rdata_t*>(bytes_.data());
        made->len = static_cast<std::uint16_t>(rdata.size());
        return made;
    }

private:
    static constexpr std::size_t kMostData = 65'535;
    static constexpr std::size_t kPadding = 512UL << 10U; ///< its text alone is over kMost

    std::vector<std::uint8_t> bytes_;
    std::uint8_t padding_;
    std::ptrdiff_t used_ = 0;
};

struct Dump {
    static constexpr std::size_t kFirst = 4096;
    static constexpr std::size_t kMost = 1UL << 20U;

    Dump() { style.wrap = false; }

    /// Empty where it cannot be written; most data without any bytes is like that, too.
    std::string_view text(Padded& room, std::uint16_t type, std::string_view rdata, bool generic) {
        knot_rrset_t rrset;
        knot_rrset_init(&rrset, &root, type, KNOT_CLASS_IN, 0);
        rrset.rrs.count = 1;
        rrset.rrs.rdata = room.put(rdata);
        rrset.rrs.size = static_cast<std::uint32_t>(knot_rdata_size(rrset.rrs.rdata->len));
        style.generic = generic;
        style.human_timestamp = type != kTypeRrsig || has_dates(rdata);
        int size = -1;
        while ((size = knot_rrset_txt_dump_data(&rrset, 0, buffer.data(), buffer.size(), &style)) <
                   0 &&
               buffer.size() < kMost) {
            buffer.resize(buffer.size() * 2);
        }
        return {buffer.data(), static_cast<std::size_t>(std::max(size, 0))};
    }

    knot_dname_t root = 0;
    knot_dump_style_t style = KNOT_DUMP_STYLE_DEFAULT;
    std::vector<char> buffer = std::vector<char>(kFirst);
    Padded ones{0xff}; ///< lengths read there are large, so that reading on and on ends
    Padded zeros{0};
};

Dump& dump() {
    static Dump one;
    return one;
}

constexpr std::string_view kMalformed = "malformed";
constexpr std::string_view kOtherClass = "class_not_in";

/// A name has one record of these types at most.
bool is_singleton(std::uint16_t type) {
    return type == kTypeCname || type == kTypeDname || type == kTypeSoa;
}

/// Memory for one message's records.
struct Pool {
    static constexpr std::size_t kFirst = 128UL << 10U;
    static constexpr std::size_t kAlign = 8;

    static void* allocate(void* self, std::size_t size) {
        return static_cast<Pool*>(self)->memory.allocate(size, kAlign).data();
    }

    Arena memory{kFirst};
    knot_mm_t context{.ctx = this, .alloc = allocate, .free = [](void*) {}};
};

Pool& pool() {
    thread_local Pool one;
    return one;
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

std::string type_text(std::uint16_t type) {
    return is_named(type) ? type_name(type) : fmt::format("TYPE{}", type);
}

bool append_rdata(std::string& out, std::uint16_t type, std::string_view rdata) {
    const std::string_view text = dump().text(dump().ones, type, rdata, !is_named(type));
    if (type != kTypeNsec && type != kTypeNsec3) {
        out += text;
    } else if (!text.empty()) {
        append_types(out, text, type == kTypeNsec ? 1 : 5);
    }
    return !text.empty();
}

bool is_valid_rdata(std::uint16_t type, std::string_view rdata) {
    constexpr std::uint16_t kApl = 42; // may be empty (RFC 3123)
    const std::string text(dump().text(dump().ones, type, rdata, false));
    if (text.empty()) {
        return type == kApl && rdata.empty();
    }
    // Only the NSEC3 record of an empty non-terminal lists no type.
    const bool whole = type == kTypeNsec3 ? has_next_owner(rdata) : text.back() != ' ';
    return whole && text == dump().text(dump().zeros, type, rdata, false);
}

std::vector<std::string_view> rdatas(std::string_view content) {
    std::vector<std::string_view> found;
    while (!content.empty()) {
        found.push_back(first_rdata(content));
        content.remove_prefix(2 + found.back().size());
    }
    return found;
}

std::string_view first_rdata(std::string_view content) {
    return content.substr(2, load16(bytes_of(content).data()));
}

NameKey name_in(std::string_view rdata, std::size_t at) {
    return NameKey::from_wire(bytes_of(rdata).subspan(at)).value_or(NameKey{});
}

NameKey signer_in(std::string_view content) {
    constexpr std::size_t kSigner = 18;
    return name_in(first_rdata(content), kSigner);
}

std::vector<NameId> servers_in(std::string_view content, NameTable& names) {
    std::vector<NameId> found;
    for (const std::string_view rdata : rdatas(content)) {
        found.push_back(names.add(name_in(rdata)));
    }
    return found;
}

void content_of(const std::vector<std::string_view>& rdatas, std::string& content) {
    content.clear();
    for (const std::string_view rdata : rdatas) {
        content += {static_cast<char>(rdata.size() >> 8U), static_cast<char>(rdata.size())};
        content += rdata;
    }
}

std::string_view ResponseReader::read(Bytes message, Response& response) {
    const auto header = parse_header(message);
    if (!header || message_end(message, message.size()) == MessageEnd::kBroken) {
        return kMalformed;
    }
    if (header->opcode() != 0) {
        return "opcode";
    }
    const auto question = header->questions == 1 ? parse_question(message) : std::nullopt;
    if (!question) {
        return "not_one_question";
    }
    if (question->dns_class != KNOT_CLASS_IN) {
        return kOtherClass;
    }
    KeyRoom room;
    response.question = names_.add(key_from_wire(question->name, room).value_or(""));
    places_.assign({{.at = kDnsHeaderSize, .name = response.question}});
    response.question_type = question->type;
    response.rcode = full_rcode(message);
    response.authoritative = (header->flags & 0x0400U) != 0;
    response.recursive = (header->flags & 0x0080U) != 0;
    response.answer.clear();
    response.authority.clear();
    response.additional.clear();
    response.surplus = 0;
    if (header->truncated()) {
        return "truncated";
    }
    pool().memory.clear();
    std::size_t at = kDnsHeaderSize + question->raw.size();
    const std::array parts{
        std::tuple(unsigned{header->answers}, &response.answer),
        std::tuple(unsigned{header->authorities}, &response.authority),
        std::tuple(unsigned{header->additionals}, &response.additional),
    };
    for (const auto& [count, rrsets] : parts) {
        if (const auto why = read_section(message, at, count, *rrsets, response.surplus);
            !why.empty()) {
            return why;
        }
    }
    return "";
}

/// The name of a record that begins at `at`; most are pointers at a name that was there before.
/// `owner` is the same, uncompressed.
std::optional<NameId> ResponseReader::owner_of(Bytes message, std::size_t at,
                                               const std::uint8_t* owner) {
    constexpr std::size_t kPointer = 0xc000; // RFC 1035 section 4.1.4
    constexpr std::size_t kMost = 16;        // places; searched one by one
    const std::size_t word = load16(message.data() + at);
    const std::size_t place = (word & kPointer) == kPointer ? word - kPointer : at;
    if (const auto known = std::ranges::find(places_, place, &Place::at); known != places_.end()) {
        return known->name;
    }
    KeyRoom room;
    const auto key = key_from_wire({owner, knot_dname_size(owner)}, room);
    if (!key) {
        return std::nullopt;
    }
    const NameId name = names_.add(*key);
    if (places_.size() < kMost) {
        places_.push_back({.at = place, .name = name});
    }
    return name;
}

std::string_view ResponseReader::read_section(Bytes message, std::size_t& at, unsigned count,
                                              std::vector<Rrset>& out, std::uint32_t& surplus) {
    records_.clear();
    for (unsigned i = 0; i < count; ++i) {
        const std::size_t begin = at;
        knot_rrset_t one;
        knot_rrset_init_empty(&one);
        if (knot_rrset_rr_from_wire(message.data(), &at, message.size(), &one, &pool().context,
                                    true) != KNOT_EOK) {
            return kMalformed;
        }
        if (is_meta(one.type)) {
            continue;
        }
        if (one.rclass != KNOT_CLASS_IN || one.rrs.count != 1) {
            return one.rclass != KNOT_CLASS_IN ? kOtherClass : kMalformed;
        }
        const auto owner = owner_of(message, begin, one.owner);
        const std::string_view rdata(reinterpret_cast<const char*>(one.rrs.rdata->data),
                                     one.rrs.rdata->len);
        const bool signature = one.type == kTypeRrsig;
        if (!owner || (signature && rdata.size() < 2)) {
            return kMalformed;
        }
        records_.push_back({.owner = *owner,
                            .type = signature ? load16(one.rrs.rdata->data) : one.type,
                            .signature = signature,
                            .ttl = one.ttl,
                            .rdata = rdata});
    }
    return group(out, surplus) ? "" : kMalformed;
}

/// `data_`, the records of a content; each content of a type once: they repeat.
bool ResponseReader::check(std::uint16_t type, ContentId content) {
    if (content >= valid_types_.size()) {
        valid_types_.resize(contents_.size(), 0);
    }
    if (valid_types_[content] == type && type != 0) {
        return true;
    }
    if (!std::ranges::all_of(data_, [&](auto one) { return is_valid_rdata(type, one); })) {
        return false;
    }
    valid_types_[content] = type;
    return true;
}

/// Records -> RRsets, signatures with what they cover; those over nothing in the section are left
/// out. False where data is not such as its type has.
bool ResponseReader::group(std::vector<Rrset>& out, std::uint32_t& surplus) {
    const auto place = [](const Record& one) {
        return std::tie(one.owner, one.type, one.signature);
    };
    std::ranges::sort(records_, [&](const Record& a, const Record& b) {
        return std::tuple_cat(place(a), std::tie(a.rdata)) <
               std::tuple_cat(place(b), std::tie(b.rdata));
    });
    for (std::size_t i = 0; i < records_.size();) {
        const Record& first = records_[i];
        std::uint32_t ttl = first.ttl;
        data_.clear();
        for (; i < records_.size() && place(records_[i]) == place(first); ++i) {
            ttl = std::min(ttl, records_[i].ttl);
            if (data_.empty() || data_.back() != records_[i].rdata) {
                data_.push_back(records_[i].rdata);
            }
        }
        if (!first.signature && is_singleton(first.type) && data_.size() > 1) {
            surplus += static_cast<std::uint32_t>(data_.size() - 1);
            data_.resize(1); // the lowest, in whatever order they stood
        }
        content_of(data_, content_);
        const ContentId content = contents_.add(content_);
        if (!check(first.signature ? kTypeRrsig : first.type, content)) {
            return false;
        }
        const bool over_last =
            !out.empty() && out.back().owner == first.owner && out.back().type == first.type;
        if (!first.signature) {
            out.push_back({.owner = first.owner,
                           .type = first.type,
                           .ttl = ttl,
                           .content = content,
                           .signatures = kNoId});
        } else if (over_last) {
            out.back().signatures = content;
        }
    }
    return true;
}

} // namespace reprise::zonebuilder
