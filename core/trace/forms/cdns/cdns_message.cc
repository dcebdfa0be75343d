#include "core/trace/forms/cdns/cdns_message.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/message_source.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::trace {
namespace {

using SignatureKey = CdnsSignatureKey;
using Out = std::vector<std::uint8_t>;

constexpr std::uint16_t kTypeA = 1;
constexpr std::uint16_t kClassIn = 1;

/// Bits of the signature's flags.
constexpr std::int64_t kHasQuery = 1;
constexpr std::int64_t kHasResponse = 2;
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

std::uint16_t header_flags(std::int64_t dns_flags, unsigned first) {
    unsigned out = 0;
    for (size_t i = 0; i < kHeaderBits.size(); ++i) {
        out |= ((dns_flags >> (first + i)) & 1) != 0 ? kHeaderBits[i] : 0U;
    }
    return static_cast<std::uint16_t>(out);
}

/// An address, of which only a prefix may be stored (RFC 8618 section 6.2.4).
IpAddress padded_address(Bytes bytes, bool ipv6) {
    IpAddress address = nobody(ipv6);
    std::ranges::copy(bytes.first(std::min(bytes.size(), address.size())), address.bytes.begin());
    return address;
}

/// Builds one message from a block's entries.
class Builder {
public:
    Builder(const CdnsBlock& block, Out& out, CdnsTally& tally)
        : block_(&block), out_(&out), tally_(&tally) {
        out.assign(kDnsHeaderSize, 0);
    }

    [[nodiscard]] bool ok() const { return ok_; }

    /// Sections by their place in the header: question, answer, authority, additional.
    enum Section : std::uint8_t { kQuestion, kAnswer, kAuthority, kAdditional };

    void header(std::int64_t id, std::uint16_t flags) {
        need(fits(id, 16), CdnsNote::kBadValue);
        store16(out_->data(), static_cast<size_t>(id));
        store16(out_->data() + 2, flags);
    }

    void question(std::int64_t name, std::optional<std::int64_t> class_type) {
        counted(kQuestion);
        append_name(name);
        if (class_type) {
            append_class_type(*class_type);
        } else {
            append_u16(*out_, kTypeA);
            append_u16(*out_, kClassIn);
        }
    }

    void more_questions(std::int64_t list_index) {
        const CdnsList* list = need_entry(block_->question_lists, list_index);
        for (size_t i = 0; list != nullptr && i < list->size() && ok_; ++i) {
            if (const auto* entry = need_entry(block_->questions, (*list)[i])) {
                question(entry->get(CdnsQuestionKey::kName, -1),
                         entry->get(CdnsQuestionKey::kClassType, -1));
            }
        }
    }

    void records(Section section, std::int64_t list_index) {
        const CdnsList* list = need_entry(block_->record_lists, list_index);
        for (size_t i = 0; list != nullptr && i < list->size() && ok_; ++i) {
            if (const auto* entry = need_entry(block_->records, (*list)[i])) {
                record(section, *entry);
            }
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

    void need(bool condition, CdnsNote note) {
        if (!condition && ok_) {
            tally_->add(note);
            ok_ = false;
        }
    }

    std::optional<Bytes> need_string(std::int64_t index) {
        const auto bytes = cdns_entry(block_->names, index);
        need(bytes.has_value(), CdnsNote::kBadIndex);
        return bytes;
    }

private:
    template <typename T> const T* need_entry(const std::vector<T>& table, std::int64_t index) {
        const T* entry = cdns_entry(table, index);
        need(entry != nullptr, CdnsNote::kBadIndex);
        return entry;
    }

    void counted(Section section) {
        std::uint8_t* const at = out_->data() + 4 + 2 * static_cast<size_t>(section);
        store16(at, load16(at) + 1U);
    }

    void append_name(std::int64_t index) {
        if (const auto name = need_string(index)) {
            need(is_name(*name), CdnsNote::kBadName);
            need(out_->size() + Name::kMost <= kMaxMessage, CdnsNote::kBadValue);
            append(*out_, ok_ ? *name : Bytes{});
        }
    }

    void append_class_type(std::int64_t index) {
        if (const auto* entry = need_entry(block_->class_types, index)) {
            append_u16(*out_, entry->get(CdnsClassTypeKey::kType));
            append_u16(*out_, entry->get(CdnsClassTypeKey::kClass));
        }
    }

    void append_data(Bytes data) {
        need(out_->size() + data.size() + 2 <= kMaxMessage, CdnsNote::kBadValue);
        append_u16(*out_, static_cast<std::int64_t>(data.size()));
        append(*out_, ok_ ? data : Bytes{});
    }

    /// An OPT record that the signature told already is not told twice.
    void record(Section section, const CdnsNumbers<CdnsRecordKey>& entry) {
        const std::int64_t class_type = entry.get(CdnsRecordKey::kClassType, -1);
        const auto* known = cdns_entry(block_->class_types, class_type);
        if (has_opt_ && known != nullptr && known->get(CdnsClassTypeKey::kType) == kTypeOpt) {
            return;
        }
        counted(section);
        append_name(entry.get(CdnsRecordKey::kName, -1));
        append_class_type(class_type);
        append_u32(*out_, entry.get(CdnsRecordKey::kTtl));
        const auto data = entry.has(CdnsRecordKey::kData)
                              ? need_string(entry.get(CdnsRecordKey::kData))
                              : std::optional(Bytes{});
        append_data(data.value_or(Bytes{}));
    }

    const CdnsBlock* block_;
    Out* out_;
    CdnsTally* tally_;
    bool ok_ = true;
    bool has_opt_ = false;
};

template <typename K> std::optional<std::int64_t> given(const CdnsNumbers<K>& numbers, K key) {
    return numbers.has(key) ? std::optional(numbers.get(key)) : std::nullopt;
}

/// Ports, types and sizes are checked here once; more than their bits is a bad value.
bool sane(const CdnsSignature& s) {
    return fits(s.get(SignatureKey::kOpcode), 4) && fits(s.get(SignatureKey::kQueryRcode), 12) &&
           fits(s.get(SignatureKey::kResponseRcode), 12) &&
           fits(s.get(SignatureKey::kEdnsVersion), 8) && fits(s.get(SignatureKey::kUdpSize), 16);
}

void add_question(Builder& builder, const CdnsItem& item, const CdnsSignature& signature,
                  CdnsTally& tally, bool query) {
    const std::int64_t none = query ? kQueryNoQuestion : kResponseNoQuestion;
    if ((signature.get(SignatureKey::kFlags) & none) != 0) {
        return;
    }
    if (!item.numbers.has(CdnsItemKey::kQueryName)) {
        if (query) {
            tally.add(CdnsNote::kNoName);
        }
        return;
    }
    const auto class_type = given(signature, SignatureKey::kClassType);
    if (query && !class_type) {
        tally.add(CdnsNote::kNoType);
    }
    builder.question(item.numbers.get(CdnsItemKey::kQueryName), class_type);
}

void add_query_opt(Builder& builder, const CdnsSignature& signature) {
    if ((signature.get(SignatureKey::kFlags) & kQueryHasOpt) == 0) {
        return;
    }
    const auto options = signature.has(SignatureKey::kOptData)
                             ? builder.need_string(signature.get(SignatureKey::kOptData))
                             : std::optional(Bytes{});
    const std::int64_t dnssec_ok = (signature.get(SignatureKey::kDnsFlags) >> kQueryDo) & 1;
    builder.opt(signature.get(SignatureKey::kUdpSize),
                ((signature.get(SignatureKey::kQueryRcode) >> 4U) << 24U) |
                    (signature.get(SignatureKey::kEdnsVersion) << 16U) | (dnssec_ok << 15U),
                options.value_or(Bytes{}));
}

/// Sections beyond the first question, where the file keeps them.
void add_extended(Builder& builder, const CdnsNumbers<CdnsExtendedKey>& extended) {
    using Part = CdnsExtendedKey;
    if (extended.has(Part::kAnswers)) {
        builder.records(Builder::kAnswer, extended.get(Part::kAnswers));
    }
    if (extended.has(Part::kAuthorities)) {
        builder.records(Builder::kAuthority, extended.get(Part::kAuthorities));
    }
}

std::optional<IpAddress> address_of(const CdnsBlock& block, std::optional<std::int64_t> index,
                                    std::optional<std::int64_t> transport, bool& bad) {
    if (!index) {
        return std::nullopt;
    }
    const auto bytes = cdns_entry(block.addresses, *index);
    bad |= !bytes;
    const bool ipv6 = transport ? (*transport & 1) != 0 : bytes && bytes->size() > 4;
    return bytes ? std::optional(padded_address(*bytes, ipv6)) : std::nullopt;
}

Transport transport_of(std::int64_t flags, CdnsTally& tally) {
    constexpr std::array kKnown{Transport::kUdp, Transport::kTcp, Transport::kTls};
    constexpr std::int64_t kHttps = 4;
    const std::int64_t number = (flags >> 1U) & 0xf;
    if (number < static_cast<std::int64_t>(kKnown.size())) {
        return kKnown.at(static_cast<size_t>(number));
    }
    if (number == kHttps) {
        return Transport::kHttps;
    }
    tally.add(CdnsNote::kOtherTransport);
    return Transport::kUdp;
}

} // namespace

std::optional<CdnsEnds> cdns_ends(const CdnsBlock& block, const CdnsEndFields& fields,
                                  CdnsTally& tally) {
    bool bad = false;
    const auto source = address_of(block, fields.client_address, fields.transport, bad);
    const auto destination = address_of(block, fields.server_address, fields.transport, bad);
    const std::int64_t from = fields.client_port.value_or(0);
    const std::int64_t to = fields.server_port.value_or(kDnsPort);
    if (bad || !fits(from, 16) || !fits(to, 16)) {
        tally.add(bad ? CdnsNote::kBadIndex : CdnsNote::kBadValue);
        return std::nullopt;
    }
    if (!source) {
        tally.add(CdnsNote::kNoSource);
    }
    if (!destination) {
        tally.add(CdnsNote::kNoDestination);
    }
    const bool ipv6 = fields.transport
                          ? (*fields.transport & 1) != 0
                          : (source && source->is_v6()) || (destination && destination->is_v6());
    return CdnsEnds{.source = {.address = source.value_or(nobody(ipv6)),
                               .port = static_cast<std::uint16_t>(from)},
                    .destination = {.address = destination.value_or(example_server(ipv6)),
                                    .port = static_cast<std::uint16_t>(to)},
                    .transport = transport_of(fields.transport.value_or(0), tally)};
}

std::optional<Nanoseconds> cdns_time(std::int64_t seconds, std::int64_t ticks, std::int64_t offset,
                                     std::uint64_t ticks_per_second) {
    using Wide = __int128;
    const Wide time = Wide{seconds} * kSecond +
                      (Wide{ticks} + offset) * kSecond / static_cast<Wide>(ticks_per_second);
    if (time < 0 || time >= kEndOfTraceTime) {
        return std::nullopt;
    }
    return static_cast<Nanoseconds>(time);
}

std::optional<CdnsSignature> cdns_signature(const CdnsBlock& block, const CdnsItem& item) {
    if (!item.numbers.has(CdnsItemKey::kSignature)) {
        return CdnsSignature{};
    }
    const auto* entry = cdns_entry(block.signatures, item.numbers.get(CdnsItemKey::kSignature));
    return entry != nullptr ? std::optional(*entry) : std::nullopt;
}

bool cdns_has_query(const CdnsSignature& signature) {
    return (signature.get(SignatureKey::kFlags, kHasQuery) & kHasQuery) != 0;
}

bool cdns_has_response(const CdnsItem& item, const CdnsSignature& signature) {
    const bool told = item.numbers.has(CdnsItemKey::kResponseSize) ||
                      item.numbers.has(CdnsItemKey::kResponseDelay);
    return (signature.get(SignatureKey::kFlags, told ? kHasResponse : 0) & kHasResponse) != 0;
}

bool build_cdns_query(const CdnsBlock& block, const CdnsItem& item, const CdnsSignature& signature,
                      std::vector<std::uint8_t>& out, CdnsTally& tally) {
    Builder builder(block, out, tally);
    builder.need(sane(signature), CdnsNote::kBadValue);
    if (!item.numbers.has(CdnsItemKey::kId)) {
        tally.add(CdnsNote::kNoId);
    }
    const auto flags =
        static_cast<std::uint16_t>((signature.get(SignatureKey::kOpcode) << 11U) |
                                   header_flags(signature.get(SignatureKey::kDnsFlags), 0) |
                                   (signature.get(SignatureKey::kQueryRcode) & 0xf));
    builder.header(item.numbers.get(CdnsItemKey::kId), flags);
    add_question(builder, item, signature, tally, true);
    if (item.query_extended.has(CdnsExtendedKey::kQuestions)) {
        builder.more_questions(item.query_extended.get(CdnsExtendedKey::kQuestions));
    }
    add_extended(builder, item.query_extended);
    add_query_opt(builder, signature);
    if (item.query_extended.has(CdnsExtendedKey::kAdditionals)) {
        builder.records(Builder::kAdditional,
                        item.query_extended.get(CdnsExtendedKey::kAdditionals));
    }
    const auto size = static_cast<std::int64_t>(out.size());
    if (builder.ok() && item.numbers.get(CdnsItemKey::kQuerySize, size) != size) {
        tally.add(CdnsNote::kSizeDiffers);
    }
    return builder.ok();
}

bool build_cdns_response(const CdnsBlock& block, const CdnsItem& item,
                         const CdnsSignature& signature, std::vector<std::uint8_t>& out,
                         CdnsTally& tally) {
    constexpr std::int64_t kResponseBit = 0x8000;
    Builder builder(block, out, tally);
    builder.need(sane(signature), CdnsNote::kBadValue);
    const std::int64_t rcode = signature.get(SignatureKey::kResponseRcode);
    const auto flags = static_cast<std::uint16_t>(
        kResponseBit | (signature.get(SignatureKey::kOpcode) << 11U) |
        header_flags(signature.get(SignatureKey::kDnsFlags), kResponseBits) | (rcode & 0xf));
    builder.header(item.numbers.get(CdnsItemKey::kId), flags);
    add_question(builder, item, signature, tally, false);
    if (rcode > 0xf) {
        builder.opt(0, (rcode >> 4U) << 24U, {});
    }
    return builder.ok();
}

} // namespace reprise::trace
