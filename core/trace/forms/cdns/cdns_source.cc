// C-DNS files (RFC 8618), version 1.x: queries and responses rebuilt from blocks of shared tables.
//
// One block is in memory at a time, at most 256 MiB of it. Within a block messages come in the
// order of their times. A query's bytes are as exact as C-DNS allows: header, questions, EDNS and
// any extra sections are rebuilt; what a file does not hold (storage hints) has a default and a
// counter, and `cdns_size_differs` counts queries whose rebuilt size is not the recorded one.
// Responses have header and question only. ReaderOptions::ports does not matter here. Connections
// are not known.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/cdns/cdns_message.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
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

/// A message of the current block, not yet built.
struct Event {
    enum class Kind : std::uint8_t { kQuery, kResponse, kMalformed };

    Nanoseconds time = 0;
    Kind kind = Kind::kQuery;
    size_t index = 0; ///< of the item, or the malformed message
};

class CdnsSource final : public MessageSource {
public:
    CdnsSource(std::unique_ptr<ByteStream> stream, const std::string& path)
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
        const auto offset = item.numbers.has(Key::kTimeOffset)
                                ? std::optional(item.numbers.get(Key::kTimeOffset))
                                : std::nullopt;
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

template <typename Key>
std::optional<std::int64_t> number_of(const CdnsNumbers<Key>& from, Key key) {
    return from.has(key) ? std::optional(from.get(key)) : std::nullopt;
}

bool CdnsSource::show_item(const Event& event, Query& query) {
    const CdnsItem& item = block_.items[event.index];
    const CdnsSignature signature = cdns_signature(block_, item).value_or(CdnsSignature{});
    const auto ends =
        cdns_ends(block_,
                  {.client_address = number_of(item.numbers, CdnsItemKey::kClientAddress),
                   .client_port = number_of(item.numbers, CdnsItemKey::kClientPort),
                   .server_address = number_of(signature, CdnsSignatureKey::kServerAddress),
                   .server_port = number_of(signature, CdnsSignatureKey::kServerPort),
                   .transport = number_of(signature, CdnsSignatureKey::kTransport)},
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
    const auto ends =
        cdns_ends(block_,
                  {.client_address = number_of(entry, CdnsMalformedKey::kClientAddress),
                   .client_port = number_of(entry, CdnsMalformedKey::kClientPort),
                   .server_address = number_of(data->numbers, DataKey::kServerAddress),
                   .server_port = number_of(data->numbers, DataKey::kServerPort),
                   .transport = number_of(data->numbers, DataKey::kTransport)},
                  tally_);
    if (!ends) {
        return false;
    }
    tally_.add(CdnsNote::kMalformed);
    query.message = data->payload;
    set_ends(query, *ends);
    return true;
}

} // namespace

bool looks_like_cdns(Bytes head) {
    constexpr std::uint8_t kArrayOfThree = 0x83;
    constexpr std::uint8_t kArray = 0x9f;
    constexpr std::uint8_t kText = 0x60;
    Cursor in(head);
    const std::uint8_t array = in.u8();
    const std::uint8_t text = in.u8();
    return (array == kArrayOfThree || array == kArray) && text == (kText | kFileType.size()) &&
           std::ranges::equal(in.take(kFileType.size()), kFileType);
}

std::unique_ptr<MessageSource> open_cdns(std::unique_ptr<ByteStream> stream,
                                         const std::string& path,
                                         const ReaderOptions& /*options*/) {
    return std::make_unique<CdnsSource>(std::move(stream), path);
}

} // namespace reprise::trace
