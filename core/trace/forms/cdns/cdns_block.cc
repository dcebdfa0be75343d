#include "core/trace/forms/cdns/cdns_block.hh"

#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::trace {
namespace {

using TableKey = CdnsTableKey;
using ItemKey = CdnsItemKey;
using SignatureKey = CdnsSignatureKey;
using Out = std::vector<std::uint8_t>;

constexpr std::uint16_t kClassIn = 1;

/// Bits of the signature's flags.
constexpr std::int64_t kQueryHasOpt = 4;
constexpr std::int64_t kQueryNoQuestion = 16;
constexpr std::int64_t kResponseNoQuestion = 32;
/// Bits of the DNS flags: seven of the query in this order, DO of the query, seven of the response.
constexpr std::array<std::uint16_t, 7> kHeaderBits{0x0010, 0x0020, 0x0040, 0x0080,
                                                   0x0100, 0x0200, 0x0400};
constexpr unsigned kQueryDo = 7;
constexpr unsigned kResponseBits = 8;

void append_u16(Out& out, std::int64_t value) { append16(out, static_cast<size_t>(value)); }

void append_u32(Out& out, std::int64_t value) {
    append_u16(out, value >> 16U);
    append_u16(out, value);
}

void append(Out& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

bool fits(std::int64_t value, unsigned bits) { return value >= 0 && (value >> bits) == 0; }

/// A whole uncompressed name and nothing else.
bool is_name(Bytes bytes) {
    Cursor in(bytes);
    return !take_name(in).empty() && in.left() == 0;
}

std::int64_t header_flags(std::int64_t dns_flags, unsigned first) {
    std::int64_t out = 0;
    for (size_t i = 0; i < kHeaderBits.size(); ++i) {
        out |= ((dns_flags >> (first + i)) & 1) * kHeaderBits[i];
    }
    return out;
}

/// Opcode, rcodes and sizes are checked here once; more than their bits is a bad value.
bool sane(const CborValue& signature) {
    return fits(signature[SignatureKey::kOpcode].number(), 4) &&
           fits(signature[SignatureKey::kQueryRcode].number(), 12) &&
           fits(signature[SignatureKey::kResponseRcode].number(), 12) &&
           fits(signature[SignatureKey::kEdnsVersion].number(), 8) &&
           fits(signature[SignatureKey::kUdpSize].number(), 16);
}

/// Builds a message of an item from its block's tables.
class Builder {
public:
    Builder(const CdnsItem& item, Out& out, Counters& counters)
        : tables_(item.tables), item_(item.item), signature_(item.common), out_(&out),
          counters_(&counters) {
        out.assign(kDnsHeaderSize, 0);
    }

    bool query() {
        const std::int64_t rcode = said(SignatureKey::kQueryRcode);
        const std::int64_t flags = said(SignatureKey::kDnsFlags);
        if (!item_[ItemKey::kId]) {
            count(*counters_, "cdns_no_id");
        }
        header(header_flags(flags, 0) | (rcode & 0xf));
        first_question(true);
        more(kQuestion);
        more(kAnswer);
        more(kAuthority);
        if ((said(SignatureKey::kFlags) & kQueryHasOpt) != 0) {
            opt(said(SignatureKey::kUdpSize),
                ((rcode >> 4U) << 24U) | (said(SignatureKey::kEdnsVersion) << 16U) |
                    (((flags >> kQueryDo) & 1) << 15U),
                string(signature_[SignatureKey::kOptData]));
        }
        more(kAdditional);
        const auto size = static_cast<std::int64_t>(out_->size());
        if (ok_ && item_[ItemKey::kQuerySize].number(size) != size) {
            count(*counters_, "cdns_size_differs");
        }
        return ok_;
    }

    /// Header and question, and an OPT record where the rcode needs one.
    bool response() {
        constexpr std::int64_t kResponseBit = 0x8000;
        const std::int64_t rcode = said(SignatureKey::kResponseRcode);
        header(kResponseBit | (rcode & 0xf) |
               header_flags(said(SignatureKey::kDnsFlags), kResponseBits));
        first_question(false);
        if (rcode > 0xf) {
            opt(0, (rcode >> 4U) << 24U, {});
        }
        return ok_;
    }

private:
    /// Sections by their place in the header, which is also their key among the item's lists.
    enum Section : std::uint8_t { kQuestion, kAnswer, kAuthority, kAdditional };

    [[nodiscard]] std::int64_t said(SignatureKey key) const { return signature_[key].number(); }

    void need(bool condition, std::string_view otherwise) {
        if (!condition && ok_) {
            count(*counters_, otherwise);
            ok_ = false;
        }
    }

    CborValue need_entry(TableKey table, const CborValue& index) {
        const CborValue entry = tables_[table][index];
        need(static_cast<bool>(entry), "cdns_bad_index");
        return entry;
    }

    /// Empty where there is no index.
    Bytes string(const CborValue& index) {
        return index ? need_entry(TableKey::kNames, index).bytes() : Bytes();
    }

    /// `flags`: all but the opcode.
    void header(std::int64_t flags) {
        const std::int64_t id = item_[ItemKey::kId].number();
        need(sane(signature_) && fits(id, 16), "cdns_bad_value");
        store16(out_->data(), static_cast<size_t>(id));
        store16(out_->data() + 2, static_cast<size_t>(said(SignatureKey::kOpcode) << 11U | flags));
    }

    void counted(Section section) {
        std::uint8_t* const at = out_->data() + 4 + 2 * static_cast<size_t>(section);
        store16(at, load16(at) + 1U);
    }

    void first_question(bool query) {
        const std::int64_t none = query ? kQueryNoQuestion : kResponseNoQuestion;
        if ((said(SignatureKey::kFlags) & none) != 0) {
            return;
        }
        const CborValue name = item_[ItemKey::kQueryName];
        const CborValue class_type = signature_[SignatureKey::kClassType];
        if (query && (!name || !class_type)) {
            count(*counters_, name ? "cdns_no_type" : "cdns_no_name");
        }
        if (!name) {
            return;
        }
        counted(kQuestion);
        append_name(name);
        if (class_type) {
            append_class_type(class_type);
        } else {
            append_u16(*out_, kTypeA);
            append_u16(*out_, kClassIn);
        }
    }

    /// The questions or records that the item has a list of, if it has one for the section.
    void more(Section section) {
        const bool questions = section == kQuestion;
        const CborValue index = item_[ItemKey::kQueryExtended][section];
        const CborValue list =
            index ? need_entry(questions ? TableKey::kQuestionLists : TableKey::kRecordLists, index)
                  : CborValue();
        for (size_t i = 0; i < list.size() && ok_; ++i) {
            const CborValue entry =
                need_entry(questions ? TableKey::kQuestions : TableKey::kRecords, list[i]);
            if (entry) {
                record(section, entry);
            }
        }
    }

    /// An OPT record that the signature told already is not told twice.
    void record(Section section, const CborValue& entry) {
        const CborValue class_type = entry[CdnsRecordKey::kClassType];
        const CborValue known = tables_[TableKey::kClassTypes][class_type];
        if (has_opt_ && known[CdnsClassTypeKey::kType].number() == kTypeOpt) {
            return;
        }
        counted(section);
        append_name(entry[CdnsRecordKey::kName]);
        append_class_type(class_type);
        if (section != kQuestion) {
            append_u32(*out_, entry[CdnsRecordKey::kTtl].number());
            append_data(string(entry[CdnsRecordKey::kData]));
        }
    }

    void opt(std::int64_t size, std::int64_t ttl, Bytes options) {
        counted(kAdditional);
        out_->push_back(0);
        append_u16(*out_, kTypeOpt);
        append_u16(*out_, size);
        append_u32(*out_, ttl);
        append_data(options);
        has_opt_ = true;
    }

    void append_name(const CborValue& index) {
        const Bytes name = need_entry(TableKey::kNames, index).bytes();
        need(is_name(name), "cdns_bad_name");
        need(out_->size() + Name::kMost <= kMaxMessage, "cdns_bad_value");
        append(*out_, ok_ ? name : Bytes());
    }

    void append_class_type(const CborValue& index) {
        const CborValue entry = need_entry(TableKey::kClassTypes, index);
        append_u16(*out_, entry[CdnsClassTypeKey::kType].number());
        append_u16(*out_, entry[CdnsClassTypeKey::kClass].number());
    }

    void append_data(Bytes data) {
        need(out_->size() + data.size() + 2 <= kMaxMessage, "cdns_bad_value");
        append_u16(*out_, static_cast<std::int64_t>(data.size()));
        append(*out_, ok_ ? data : Bytes());
    }

    CborValue tables_;
    CborValue item_;
    CborValue signature_; ///< nothing where the item has none
    Out* out_;
    Counters* counters_;
    bool ok_ = true;
    bool has_opt_ = false;
};

/// Only a prefix of it may be stored (RFC 8618 section 6.2.4).
std::optional<IpAddress> address_of(const CdnsItem& item, const CborValue& index, bool& bad) {
    const CborValue transport = item.common[SignatureKey::kTransport];
    const CborValue entry = item.tables[TableKey::kAddresses][index];
    bad |= index && !entry;
    if (!entry) {
        return std::nullopt;
    }
    const Bytes bytes = entry.bytes();
    IpAddress address = unspecified(transport ? (transport.number() & 1) != 0 : bytes.size() > 4);
    std::ranges::copy(bytes.first(std::min(bytes.size(), address.size())), address.bytes.begin());
    return address;
}

} // namespace

std::optional<Nanoseconds> cdns_time(std::int64_t seconds, std::int64_t ticks, std::int64_t offset,
                                     std::int64_t delay, std::int64_t ticks_per_second) {
    using Wide = __int128;
    const Wide time =
        Wide{seconds} * kSecond + (Wide{ticks} + offset + delay) * kSecond / ticks_per_second;
    if (time < 0 || time >= kEndOfTraceTime) {
        return std::nullopt;
    }
    return static_cast<Nanoseconds>(time);
}

bool read_cdns_ends(const CdnsItem& item, Query& query, Counters& counters) {
    constexpr std::array kTransportNumbers{Transport::kUdp, Transport::kTcp, Transport::kTls,
                                           Transport::kUdp /* DTLS */, Transport::kHttps};
    const CborValue flags = item.common[SignatureKey::kTransport];
    bool bad = false;
    const auto source = address_of(item, item.item[ItemKey::kClientAddress], bad);
    const auto destination = address_of(item, item.common[SignatureKey::kServerAddress], bad);
    const std::int64_t from = item.item[ItemKey::kClientPort].number();
    const std::int64_t to = item.common[SignatureKey::kServerPort].number(kDnsPort);
    if (bad || !fits(from, 16) || !fits(to, 16)) {
        count(counters, bad ? "cdns_bad_index" : "cdns_bad_value");
        return false;
    }
    if (!source) {
        count(counters, "cdns_no_source");
    }
    if (!destination) {
        count(counters, "cdns_no_destination");
    }
    const bool ipv6 = flags ? (flags.number() & 1) != 0
                            : (source && source->is_v6()) || (destination && destination->is_v6());
    query.source = {.address = source.value_or(unspecified(ipv6)),
                    .port = static_cast<std::uint16_t>(from)};
    query.destination = {.address = destination.value_or(example_server(ipv6)),
                         .port = static_cast<std::uint16_t>(to)};
    const auto number = static_cast<size_t>((flags.number() >> 1U) & 0xf);
    query.transport =
        number < kTransportNumbers.size() ? kTransportNumbers.at(number) : Transport::kUdp;
    if (number != 0 && query.transport == Transport::kUdp) {
        count(counters, "cdns_other_transport");
    }
    return true;
}

bool build_cdns_message(const CdnsItem& item, bool response, std::vector<std::uint8_t>& out,
                        Counters& counters) {
    Builder builder(item, out, counters);
    return response ? builder.response() : builder.query();
}

} // namespace reprise::trace
