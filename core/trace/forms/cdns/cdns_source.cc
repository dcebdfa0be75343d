// C-DNS files (RFC 8618), version 1.x: queries and responses rebuilt from blocks of shared tables.
//
// One block is in memory at a time, at most 256 MiB of it. Within a block messages come in the
// order of their times. A query's bytes are as exact as C-DNS allows: header, questions, EDNS and
// any extra sections are rebuilt; what a file does not hold (storage hints) has a default and a
// counter, and `cdns_size_differs` counts queries whose rebuilt size is not the recorded one.
// Responses have header and question only. ReaderOptions::ports does not matter here. Connections
// are not known.

#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
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

// Messages rebuilt from the entries of a block. What is counted on the way, docs/formats.md tells.

using SignatureKey = CdnsSignatureKey;
using Out = std::vector<std::uint8_t>;

/// What an item's signature says; one without fields where it has none.
using CdnsSignature = CdnsNumbers<CdnsSignatureKey>;

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

std::int64_t header_flags(std::int64_t dns_flags, unsigned first) {
    std::int64_t out = 0;
    for (size_t i = 0; i < kHeaderBits.size(); ++i) {
        out |= ((dns_flags >> (first + i)) & 1) * kHeaderBits[i];
    }
    return out;
}

/// Ports, types and sizes are checked here once; more than their bits is a bad value.
bool sane(const CdnsSignature& s) {
    return fits(s.get(SignatureKey::kOpcode), 4) && fits(s.get(SignatureKey::kQueryRcode), 12) &&
           fits(s.get(SignatureKey::kResponseRcode), 12) &&
           fits(s.get(SignatureKey::kEdnsVersion), 8) && fits(s.get(SignatureKey::kUdpSize), 16);
}

/// Builds a message of an item in `out` from its block's entries.
class Builder {
public:
    Builder(const CdnsBlock& block, const CdnsItem& item, const CdnsSignature& signature, Out& out,
            Counters& counters)
        : block_(&block), item_(&item), signature_(&signature), out_(&out), counters_(&counters) {
        out.assign(kDnsHeaderSize, 0);
    }

    /// False where it cannot be built, which is counted.
    bool query() {
        const auto& extended = item_->query_extended;
        const std::int64_t rcode = signature_->get(SignatureKey::kQueryRcode);
        if (!item_->numbers.has(CdnsItemKey::kId)) {
            count(*counters_, "cdns_no_id");
        }
        header(header_flags(signature_->get(SignatureKey::kDnsFlags), 0) | (rcode & 0xf));
        first_question(true);
        more_questions(extended.find(CdnsExtendedKey::kQuestions));
        records(kAnswer, extended.find(CdnsExtendedKey::kAnswers));
        records(kAuthority, extended.find(CdnsExtendedKey::kAuthorities));
        if ((signature_->get(SignatureKey::kFlags) & kQueryHasOpt) != 0) {
            const std::int64_t flags = signature_->get(SignatureKey::kDnsFlags);
            opt(signature_->get(SignatureKey::kUdpSize),
                ((rcode >> 4U) << 24U) | (signature_->get(SignatureKey::kEdnsVersion) << 16U) |
                    (((flags >> kQueryDo) & 1) << 15U),
                string(signature_->find(SignatureKey::kOptData)));
        }
        records(kAdditional, extended.find(CdnsExtendedKey::kAdditionals));
        const auto size = static_cast<std::int64_t>(out_->size());
        if (ok_ && item_->numbers.get(CdnsItemKey::kQuerySize, size) != size) {
            count(*counters_, "cdns_size_differs");
        }
        return ok_;
    }

    /// The same: header and question, and an OPT record where the rcode needs one.
    bool response() {
        constexpr std::int64_t kResponseBit = 0x8000;
        const std::int64_t rcode = signature_->get(SignatureKey::kResponseRcode);
        header(kResponseBit | (rcode & 0xf) |
               header_flags(signature_->get(SignatureKey::kDnsFlags), kResponseBits));
        first_question(false);
        if (rcode > 0xf) {
            opt(0, (rcode >> 4U) << 24U, {});
        }
        return ok_;
    }

private:
    /// Sections by their place in the header.
    enum Section : std::uint8_t { kQuestion, kAnswer, kAuthority, kAdditional };

    void need(bool condition, std::string_view otherwise) {
        if (!condition && ok_) {
            count(*counters_, otherwise);
            ok_ = false;
        }
    }

    template <typename Table> auto need_entry(const Table& table, std::int64_t index) {
        auto entry = cdns_entry(table, index);
        need(static_cast<bool>(entry), "cdns_bad_index");
        return entry;
    }

    /// Empty where there is no index.
    Bytes string(std::optional<std::int64_t> index) {
        return index ? need_entry(block_->names, *index).value_or(Bytes{}) : Bytes{};
    }

    /// `flags`: all but the opcode.
    void header(std::int64_t flags) {
        const std::int64_t id = item_->numbers.get(CdnsItemKey::kId);
        need(sane(*signature_) && fits(id, 16), "cdns_bad_value");
        store16(out_->data(), static_cast<size_t>(id));
        store16(out_->data() + 2,
                static_cast<size_t>(signature_->get(SignatureKey::kOpcode) << 11U | flags));
    }

    void counted(Section section) {
        std::uint8_t* const at = out_->data() + 4 + 2 * static_cast<size_t>(section);
        store16(at, load16(at) + 1U);
    }

    void first_question(bool query) {
        const std::int64_t none = query ? kQueryNoQuestion : kResponseNoQuestion;
        if ((signature_->get(SignatureKey::kFlags) & none) != 0) {
            return;
        }
        const auto name = item_->numbers.find(CdnsItemKey::kQueryName);
        const auto class_type = signature_->find(SignatureKey::kClassType);
        if (query && (!name || !class_type)) {
            count(*counters_, name ? "cdns_no_type" : "cdns_no_name");
        }
        if (!name) {
            return;
        }
        if (class_type) {
            question(*name, *class_type);
            return;
        }
        counted(kQuestion);
        append_name(*name);
        append_u16(*out_, kTypeA);
        append_u16(*out_, kClassIn);
    }

    void question(std::int64_t name, std::int64_t class_type) {
        counted(kQuestion);
        append_name(name);
        append_class_type(class_type);
    }

    /// Calls take() for each entry of `table` that the list names, if there is a list.
    void each(const std::vector<CdnsList>& lists, std::optional<std::int64_t> list_index,
              const auto& table, auto take) {
        const CdnsList* list = list_index ? need_entry(lists, *list_index) : nullptr;
        for (size_t i = 0; list != nullptr && i < list->size() && ok_; ++i) {
            if (const auto* entry = need_entry(table, (*list)[i])) {
                take(*entry);
            }
        }
    }

    void more_questions(std::optional<std::int64_t> list) {
        each(block_->question_lists, list, block_->questions, [this](const auto& entry) {
            question(entry.get(CdnsQuestionKey::kName, -1),
                     entry.get(CdnsQuestionKey::kClassType, -1));
        });
    }

    void records(Section section, std::optional<std::int64_t> list) {
        each(block_->record_lists, list, block_->records,
             [&](const auto& entry) { record(section, entry); });
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
        append_data(string(entry.find(CdnsRecordKey::kData)));
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

    void append_name(std::int64_t index) {
        if (const auto name = need_entry(block_->names, index)) {
            need(is_name(*name), "cdns_bad_name");
            need(out_->size() + Name::kMost <= kMaxMessage, "cdns_bad_value");
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
        need(out_->size() + data.size() + 2 <= kMaxMessage, "cdns_bad_value");
        append_u16(*out_, static_cast<std::int64_t>(data.size()));
        append(*out_, ok_ ? data : Bytes{});
    }

    const CdnsBlock* block_;
    const CdnsItem* item_;
    const CdnsSignature* signature_;
    Out* out_;
    Counters* counters_;
    bool ok_ = true;
    bool has_opt_ = false;
};

/// Only a prefix of it may be stored (RFC 8618 section 6.2.4).
std::optional<IpAddress> address_of(const CdnsBlock& block, std::optional<std::int64_t> index,
                                    std::optional<std::int64_t> transport, bool& bad) {
    if (!index) {
        return std::nullopt;
    }
    const auto bytes = cdns_entry(block.addresses, *index);
    bad |= !bytes;
    const bool ipv6 = transport ? (*transport & 1) != 0 : bytes && bytes->size() > 4;
    if (!bytes) {
        return std::nullopt;
    }
    IpAddress address = nobody(ipv6);
    std::ranges::copy(bytes->first(std::min(bytes->size(), address.size())), address.bytes.begin());
    return address;
}

/// Of an item or a malformed message, and what it has in common with others: who asked whom, and
/// how. False where an index or a port is bad, which is counted.
template <typename Item, typename Common>
bool read_ends(const CdnsBlock& block, const CdnsNumbers<Item>& item,
               const CdnsNumbers<Common>& common, Query& query, Counters& counters) {
    constexpr std::array kTransportNumbers{Transport::kUdp, Transport::kTcp, Transport::kTls,
                                           Transport::kUdp /* DTLS */, Transport::kHttps};
    const auto flags = common.find(Common::kTransport);
    bool bad = false;
    const auto source = address_of(block, item.find(Item::kClientAddress), flags, bad);
    const auto destination = address_of(block, common.find(Common::kServerAddress), flags, bad);
    const std::int64_t from = item.get(Item::kClientPort);
    const std::int64_t to = common.get(Common::kServerPort, kDnsPort);
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
    const bool ipv6 = flags ? (*flags & 1) != 0
                            : (source && source->is_v6()) || (destination && destination->is_v6());
    query.source = {.address = source.value_or(nobody(ipv6)),
                    .port = static_cast<std::uint16_t>(from)};
    query.destination = {.address = destination.value_or(example_server(ipv6)),
                         .port = static_cast<std::uint16_t>(to)};
    const auto number = static_cast<size_t>((flags.value_or(0) >> 1U) & 0xf);
    query.transport =
        number < kTransportNumbers.size() ? kTransportNumbers.at(number) : Transport::kUdp;
    if (number != 0 && query.transport == Transport::kUdp) {
        count(counters, "cdns_other_transport");
    }
    return true;
}

/// Nothing where the index is bad.
std::optional<CdnsSignature> cdns_signature(const CdnsBlock& block, const CdnsItem& item) {
    const auto index = item.numbers.find(CdnsItemKey::kSignature);
    if (!index) {
        return CdnsSignature{};
    }
    const auto* entry = cdns_entry(block.signatures, *index);
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
        : MessageSource("C-DNS", std::move(stream)), in_(*stream_) {
        open(path);
    }

    bool next(Query& query) override {
        while (true) {
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

private:
    void open(const std::string& path) {
        file_ = in_.begin_array();
        std::vector<std::uint8_t> type;
        in_.string(type);
        if (in_.ok() && !std::ranges::equal(type, kFileType)) {
            in_.fail("the type of the file is not C-DNS");
        }
        preamble_ = read_cdns_preamble(in_);
        if (in_.ok() && preamble_.major != kMajorVersion) {
            throw TraceError(
                fmt::format("trace {} is C-DNS of version {}.{}, and only {}.x (RFC 8618) "
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
    bool load_block() {
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

    void note_end() {
        constexpr std::uint64_t kParts = 3; // type, preamble, blocks
        if (in_.ok() && (in_.more(file_, kParts) || !in_.at_end())) {
            in_.fail(std::string(kBehindEnd));
        }
        if (!in_.ok() && trouble_.empty()) {
            trouble_ =
                fmt::format("damaged at {}; {} items before it were good", in_.error(), items_);
        }
    }

    /// An item's response alone has the item's own time.
    void plan_items() {
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
                count(counters_, signature ? "cdns_bad_value" : "cdns_bad_index");
                continue;
            }
            if (!offset) {
                count(counters_, "cdns_no_time");
            }
            if (asked) {
                events_.push_back({.time = *time, .kind = Event::Kind::kQuery, .index = i});
            }
            if (cdns_has_response(item, *signature)) {
                events_.push_back({.time = *answered, .kind = Event::Kind::kResponse, .index = i});
            }
        }
    }

    void plan_malformed() {
        for (size_t i = 0; i < block_.malformed.size(); ++i) {
            const auto time = time_of(block_.malformed[i].get(CdnsMalformedKey::kTimeOffset), 0);
            if (time) {
                events_.push_back({.time = *time, .kind = Event::Kind::kMalformed, .index = i});
            } else {
                count(counters_, "cdns_bad_value");
            }
        }
    }

    std::optional<Nanoseconds> time_of(std::optional<std::int64_t> offset, std::int64_t delay) {
        std::int64_t ticks = 0;
        if (__builtin_add_overflow(offset.value_or(0), delay, &ticks)) {
            return std::nullopt;
        }
        return cdns_time(block_.earliest_seconds, block_.earliest_ticks, ticks, ticks_);
    }

    bool show(const Event& event, Query& query) {
        query = {};
        query.time = event.time;
        const bool shown = event.kind == Event::Kind::kMalformed ? show_malformed(event, query)
                                                                 : show_item(event, query);
        if (shown && query.is_response()) {
            std::swap(query.source, query.destination);
        }
        return shown;
    }

    bool show_item(const Event& event, Query& query) {
        const CdnsItem& item = block_.items[event.index];
        const CdnsSignature signature = cdns_signature(block_, item).value_or(CdnsSignature{});
        if (!read_ends(block_, item.numbers, signature, query, counters_)) {
            return false;
        }
        Builder builder(block_, item, signature, built_, counters_);
        const bool built =
            event.kind == Event::Kind::kResponse ? builder.response() : builder.query();
        query.message = built_;
        return built;
    }

    bool show_malformed(const Event& event, Query& query) {
        const auto& entry = block_.malformed[event.index];
        const auto* data =
            cdns_entry(block_.malformed_data, entry.get(CdnsMalformedKey::kData, -1));
        if (data == nullptr) {
            count(counters_, "cdns_bad_index");
            return false;
        }
        const size_t size = data->payload.size();
        if (size < kDnsHeaderSize || size > kMaxMessage) {
            count(counters_, size > kMaxMessage ? "cdns_bad_value" : "short_message");
            return false;
        }
        if (!read_ends(block_, entry, data->numbers, query, counters_)) {
            return false;
        }
        count(counters_, "cdns_malformed");
        query.message = data->payload;
        return true;
    }

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
};

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
