// C-DNS files (RFC 8618), version 1.x: queries and responses rebuilt from blocks of shared tables.
//
// One block is in memory at a time, at most 256 MiB of it. Within a block messages come in the
// order of their times. A query's bytes are as exact as C-DNS allows: header, questions, EDNS and
// any extra sections are rebuilt; what a file does not hold (storage hints) has a default and a
// counter, and `cdns_size_differs` counts queries whose rebuilt size is not the recorded one.
// Responses have header and question only. ReaderOptions::ports does not matter here. Connections
// are not known.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

constexpr std::string_view kFileType = "C-DNS";
constexpr std::uint64_t kMajorVersion = 1;

/// What is counted of C-DNS. Each is an item (a query with its response, or one of both) unless its
/// comment says otherwise.
enum class CdnsNote : std::uint8_t {
    kBadIndex,       ///< names an entry that its table does not have: passed over
    kBadName,        ///< holds a name that is none: passed over
    kBadValue,       ///< holds a port, type or time that cannot be: passed over
    kNoSource,       ///< messages without client address: 0.0.0.0 or :: stands for it
    kNoDestination,  ///< messages without server address: an example address stands for it
    kNoTime,         ///< without time: the block's earliest stands for it
    kNoId,           ///< queries without id: 0 stands for it
    kNoName,         ///< queries without name, though they had one: they have no question
    kNoType,         ///< queries without type: A stands for it
    kSizeDiffers,    ///< queries whose size is not the one recorded
    kOtherTransport, ///< messages over DTLS or what is not known: taken as UDP
    kMalformed,      ///< messages kept as malformed
    kShortMessage,   ///< of these, shorter than a DNS header: passed over
    kEnd,
};

constexpr std::array<std::string_view, static_cast<size_t>(CdnsNote::kEnd)> kCdnsNotes{
    "cdns_bad_index",      "cdns_bad_name",     "cdns_bad_value",       "cdns_no_source",
    "cdns_no_destination", "cdns_no_time",      "cdns_no_id",           "cdns_no_name",
    "cdns_no_type",        "cdns_size_differs", "cdns_other_transport", "cdns_malformed",
    "short_message"};

using CdnsTally = NamedCounts<CdnsNote, kCdnsNotes>;

/// The two ends of an item and how it traveled; the source is the client.
struct CdnsEnds {
    Endpoint source;
    Endpoint destination;
    Transport transport = Transport::kUdp;
};

/// Where an address, a port and transport flags are told, if they are.
struct CdnsEndFields {
    std::optional<std::int64_t> client_address;
    std::optional<std::int64_t> client_port;
    std::optional<std::int64_t> server_address;
    std::optional<std::int64_t> server_port;
    std::optional<std::int64_t> transport;
};

/// What an item's signature says; one without fields where it has none.
using CdnsSignature = CdnsNumbers<CdnsSignatureKey>;

// Messages rebuilt from the entries of a block.

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
    const auto class_type = signature.find(SignatureKey::kClassType);
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

/// Nothing where an index or a port is bad, which is counted.
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

/// Nothing where the index is bad.
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

/// Builds the query of an item in `out`. False where it cannot be built, which is counted.
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

/// Header and question of the response (and an OPT record where the rcode needs one).
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

// The file.

/// A message of the current block, not yet built.
struct Event {
    enum class Kind : std::uint8_t { kQuery, kResponse, kMalformed };

    Nanoseconds time = 0;
    Kind kind = Kind::kQuery;
    size_t index = 0; ///< of the item, or the malformed message
};

class CdnsSource final : public MessageSource {
public:
    CdnsSource(std::unique_ptr<ByteStream> stream, const std::string& path,
               const ReaderOptions& /*options*/)
        : stream_(std::move(stream)), in_(*stream_) {
        open(path);
    }

    bool next(Query& query) override {
        for (;;) {
            while (shown_ < events_.size()) {
                if (show(events_[shown_++], query)) {
                    return true;
                }
            }
            if (!load_block()) {
                note_end();
                return false;
            }
        }
    }

    [[nodiscard]] std::uint64_t packets() const override { return items_; }

    [[nodiscard]] Counters counters() const override { return tally_.named(); }

    [[nodiscard]] double share_read() const override { return stream_->share_read(); }

    [[nodiscard]] std::string description() const override { return describe("C-DNS", *stream_); }

private:
    void open(const std::string& path);
    bool load_block();
    void note_end();
    void plan_items();
    void plan_malformed();
    std::optional<Nanoseconds> time_of(std::optional<std::int64_t> offset, std::int64_t delay);
    bool show(const Event& event, Query& query);
    bool show_item(const Event& event, Query& query);
    bool show_malformed(const Event& event, Query& query);

    std::unique_ptr<ByteStream> stream_;
    CborReader in_;
    CdnsPreamble preamble_;
    CborItem file_;           ///< head of the array that is all of it
    CborItem blocks_;         ///< head of their array
    std::uint64_t done_ = 0;  ///< blocks begun
    std::uint64_t ticks_ = 1; ///< a second, in the current block
    CdnsBlock block_;
    std::vector<Event> events_; ///< of the current block, by time
    size_t shown_ = 0;
    std::vector<std::uint8_t> built_; ///< the message shown
    std::uint64_t items_ = 0;
    CdnsTally tally_;
};

void CdnsSource::open(const std::string& path) {
    file_ = in_.begin_array();
    std::vector<std::uint8_t> type;
    in_.string(type);
    if (in_.ok() && !std::ranges::equal(type, kFileType)) {
        in_.fail("the type of the file is not C-DNS");
    }
    preamble_ = read_cdns_preamble(in_);
    if (in_.ok() && preamble_.major != kMajorVersion) {
        throw TraceError(fmt::format("trace {} is C-DNS of version {}.{}, and only {}.x (RFC 8618) "
                                     "is read; convert it with the tools that wrote it",
                                     path, preamble_.major, preamble_.minor, kMajorVersion));
    }
    blocks_ = in_.begin_array();
    if (!in_.ok()) {
        throw TraceError(
            fmt::format("trace {} is damaged C-DNS: {}; copy it again", path, in_.error()));
    }
}

/// False behind the last block. Of a block that is cut, the items before the cut are good.
bool CdnsSource::load_block() {
    events_.clear();
    shown_ = 0;
    block_ = {};
    if (!in_.more(blocks_, done_)) {
        return false;
    }
    ++done_;
    block_ = read_cdns_block(in_);
    if (preamble_.ticks_per_second.empty()) {
        preamble_.ticks_per_second.push_back(kSecond / kMicrosecond);
    }
    if (block_.parameters >= preamble_.ticks_per_second.size()) {
        in_.fail("a block names parameters that the file does not have");
        return false;
    }
    ticks_ = preamble_.ticks_per_second[block_.parameters];
    items_ += block_.items.size() + block_.malformed.size();
    plan_items();
    plan_malformed();
    std::ranges::sort(events_, {},
                      [](const Event& e) { return std::tuple(e.time, e.index, e.kind); });
    return true;
}

void CdnsSource::note_end() {
    constexpr std::uint64_t kParts = 3; // type, preamble, blocks
    if (in_.ok() && (in_.more(file_, kParts) || !in_.at_end())) {
        in_.fail(std::string(kBehindEnd));
    }
    if (!in_.ok() && trouble_.empty()) {
        trouble_ = fmt::format("damaged at {}; {} items before it were good", in_.error(), items_);
    }
}

std::optional<Nanoseconds> CdnsSource::time_of(std::optional<std::int64_t> offset,
                                               std::int64_t delay) {
    std::int64_t ticks = 0;
    if (__builtin_add_overflow(offset.value_or(0), delay, &ticks)) {
        return std::nullopt;
    }
    return cdns_time(block_.earliest_seconds, block_.earliest_ticks, ticks, ticks_);
}

/// An item's response alone has the item's own time.
void CdnsSource::plan_items() {
    using Key = CdnsItemKey;
    for (size_t i = 0; i < block_.items.size(); ++i) {
        const CdnsItem& item = block_.items[i];
        const auto signature = cdns_signature(block_, item);
        const auto offset = item.numbers.find(Key::kTimeOffset);
        const bool asked = signature && cdns_has_query(*signature);
        const std::int64_t delay = asked ? item.numbers.get(Key::kResponseDelay) : 0;
        const auto time = time_of(offset, 0);
        const auto answered = time_of(offset, delay);
        if (!signature || !time || !answered) {
            tally_.add(signature ? CdnsNote::kBadValue : CdnsNote::kBadIndex);
            continue;
        }
        if (!offset) {
            tally_.add(CdnsNote::kNoTime);
        }
        if (asked) {
            events_.push_back({.time = *time, .kind = Event::Kind::kQuery, .index = i});
        }
        if (cdns_has_response(item, *signature)) {
            events_.push_back({.time = *answered, .kind = Event::Kind::kResponse, .index = i});
        }
    }
}

void CdnsSource::plan_malformed() {
    for (size_t i = 0; i < block_.malformed.size(); ++i) {
        const auto time = time_of(block_.malformed[i].get(CdnsMalformedKey::kTimeOffset), 0);
        if (time) {
            events_.push_back({.time = *time, .kind = Event::Kind::kMalformed, .index = i});
        } else {
            tally_.add(CdnsNote::kBadValue);
        }
    }
}

bool CdnsSource::show(const Event& event, Query& query) {
    query = {};
    query.time = event.time;
    return event.kind == Event::Kind::kMalformed ? show_malformed(event, query)
                                                 : show_item(event, query);
}

void set_ends(Query& query, const CdnsEnds& ends) {
    query.source = ends.source;
    query.destination = ends.destination;
    query.transport = ends.transport;
    if (query.is_response()) {
        std::swap(query.source, query.destination);
    }
}

bool CdnsSource::show_item(const Event& event, Query& query) {
    const CdnsItem& item = block_.items[event.index];
    const CdnsSignature signature = cdns_signature(block_, item).value_or(CdnsSignature{});
    const auto ends = cdns_ends(block_,
                                {.client_address = item.numbers.find(CdnsItemKey::kClientAddress),
                                 .client_port = item.numbers.find(CdnsItemKey::kClientPort),
                                 .server_address = signature.find(CdnsSignatureKey::kServerAddress),
                                 .server_port = signature.find(CdnsSignatureKey::kServerPort),
                                 .transport = signature.find(CdnsSignatureKey::kTransport)},
                                tally_);
    const auto build =
        event.kind == Event::Kind::kResponse ? build_cdns_response : build_cdns_query;
    if (!ends || !build(block_, item, signature, built_, tally_)) {
        return false;
    }
    query.message = built_;
    set_ends(query, *ends);
    return true;
}

bool CdnsSource::show_malformed(const Event& event, Query& query) {
    using DataKey = CdnsMalformedDataKey;
    const auto& entry = block_.malformed[event.index];
    const auto* data = cdns_entry(block_.malformed_data, entry.get(CdnsMalformedKey::kData, -1));
    if (data == nullptr) {
        tally_.add(CdnsNote::kBadIndex);
        return false;
    }
    const size_t size = data->payload.size();
    if (size < kDnsHeaderSize || size > kMaxMessage) {
        tally_.add(size > kMaxMessage ? CdnsNote::kBadValue : CdnsNote::kShortMessage);
        return false;
    }
    const auto ends = cdns_ends(block_,
                                {.client_address = entry.find(CdnsMalformedKey::kClientAddress),
                                 .client_port = entry.find(CdnsMalformedKey::kClientPort),
                                 .server_address = data->numbers.find(DataKey::kServerAddress),
                                 .server_port = data->numbers.find(DataKey::kServerPort),
                                 .transport = data->numbers.find(DataKey::kTransport)},
                                tally_);
    if (!ends) {
        return false;
    }
    tally_.add(CdnsNote::kMalformed);
    query.message = data->payload;
    set_ends(query, *ends);
    return true;
}

/// An array whose first item is the text "C-DNS".
bool begins_cdns(Bytes head) {
    constexpr std::uint8_t kArrayOfThree = 0x83;
    constexpr std::uint8_t kArray = 0x9f;
    constexpr std::uint8_t kText = 0x60;
    Cursor in(head);
    const std::uint8_t array = in.u8();
    const std::uint8_t text = in.u8();
    return (array == kArrayOfThree || array == kArray) && text == (kText | kFileType.size()) &&
           std::ranges::equal(in.take(kFileType.size()), kFileType);
}

} // namespace

const Form kCdnsForm{.fits = begins_cdns, .open = open_as<CdnsSource>};

} // namespace reprise::trace
