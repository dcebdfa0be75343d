// C-DNS files (RFC 8618), version 1.x: queries and responses rebuilt from blocks of shared tables.
//
// One block is in memory at a time, at most 256 MiB of it. Within a block messages come in the
// order of their times. A query's bytes are as exact as C-DNS allows: header, questions, EDNS and
// any extra sections are rebuilt; what a file does not hold (storage hints) has a default and a
// counter, and `cdns_size_differs` counts queries whose rebuilt size is not the recorded one.
// Responses have header and question only. ReaderOptions::ports does not matter here. Connections
// are not known. What is counted on the way, docs/formats.md tells.

#include "core/dns/message.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
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
constexpr std::int64_t kMajorVersion = 1;

using BlockKey = CdnsBlockKey;

/// A message of the current block, not yet built.
struct Event {
    Nanoseconds time = 0;
    size_t index = 0; ///< of the item, or the malformed message
    BlockKey list = BlockKey::kItems;
    bool response = false;
};

class CdnsSource final : public TraceSource {
public:
    CdnsSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : TraceSource("C-DNS", std::move(stream)), in_(*stream_) {
        open(path);
    }

    bool next(Packet& /*packet*/, Query& query) override {
        do {
            while (shown_ < events_.size()) {
                if (show(events_[shown_++], query)) {
                    return true;
                }
            }
        } while (load_block());
        note_end();
        return false;
    }

private:
    void open(const std::string& path) {
        file_ = in_.begin(CborItem::Kind::kArray);
        const Bytes type = in_.read(kCborString).bytes();
        if (in_.ok() && text_of(type) != kFileType) {
            in_.fail("the type of the file is not C-DNS");
        }
        const CborValue preamble = in_.read(kCdnsPreamble);
        const std::int64_t major = preamble[CdnsPreambleKey::kMajor].number();
        if (in_.ok() && major != kMajorVersion) {
            throw TraceError(fmt::format(
                "trace {} is C-DNS of version {}.{}, and only {}.x (RFC 8618) "
                "is read; convert it with the tools that wrote it",
                path, major, preamble[CdnsPreambleKey::kMinor].number(), kMajorVersion));
        }
        read_ticks(preamble[CdnsPreambleKey::kParameters]);
        blocks_ = in_.begin(CborItem::Kind::kArray);
        if (!in_.ok()) {
            throw TraceError(
                fmt::format("trace {} is damaged C-DNS: {}; copy it again", path, in_.error()));
        }
    }

    /// Of each set of parameters, the first and only key of its first; where there is none, blocks
    /// have the default.
    void read_ticks(const CborValue& parameters) {
        for (size_t i = 0; i < std::max<size_t>(parameters.size(), 1); ++i) {
            ticks_per_second_.push_back(parameters[i][0][0].number(kSecond / kMicrosecond));
            if (ticks_per_second_.back() <= 0) {
                in_.fail("no tick a second");
            }
        }
    }

    /// False behind the last block. Of a block that is cut, the items before the cut are good.
    bool load_block() {
        events_.clear();
        shown_ = 0;
        in_.forget();
        if (!in_.more(blocks_, done_)) {
            return false;
        }
        ++done_;
        block_ = in_.read(kCdnsBlock);
        const CborValue preamble = block_[BlockKey::kPreamble];
        earliest_ = preamble[CdnsBlockPreambleKey::kEarliestTime];
        const auto set =
            static_cast<std::uint64_t>(preamble[CdnsBlockPreambleKey::kParameters].number());
        const bool timed = !earliest_ || earliest_.size() == 2;
        if (!timed || set >= ticks_per_second_.size()) {
            in_.fail(timed ? "a block names parameters that the file does not have"
                           : "a time of seconds and ticks was expected");
            return false;
        }
        ticks_ = ticks_per_second_[set];
        items_ += block_[BlockKey::kItems].size() + block_[BlockKey::kMalformed].size();
        plan(BlockKey::kItems);
        plan(BlockKey::kMalformed);
        std::ranges::sort(events_, {}, [](const Event& e) {
            return std::tuple(e.time, e.index, e.list, e.response);
        });
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

    [[nodiscard]] CdnsItem at(BlockKey list, size_t index) const {
        const CborValue tables = block_[BlockKey::kTables];
        const CborValue item = block_[list][index];
        const CborValue common =
            list == BlockKey::kItems
                ? tables[CdnsTableKey::kSignatures][item[CdnsItemKey::kSignature]]
                : tables[CdnsTableKey::kMalformedData][item[CdnsMalformedKey::kData]];
        return {.tables = tables, .item = item, .common = common};
    }

    /// An item's response alone has the item's own time. Malformed messages have neither flags nor
    /// responses.
    void plan(BlockKey list) {
        using Key = CdnsItemKey;
        constexpr std::int64_t kHasQuery = 1; // bits of the signature's flags
        constexpr std::int64_t kHasResponse = 2;
        for (size_t i = 0; i < block_[list].size(); ++i) {
            const auto [tables, item, common] = at(list, i);
            const CborValue flags = common[CdnsSignatureKey::kFlags];
            const bool asked = (flags.number(kHasQuery) & kHasQuery) != 0;
            const bool told = item[Key::kResponseSize] || item[Key::kResponseDelay];
            const bool answered = (flags.number(told ? kHasResponse : 0) & kHasResponse) != 0;
            const CborValue offset = item[Key::kTimeOffset];
            const auto time = time_of(offset, CborValue());
            const auto reply = time_of(offset, asked ? item[Key::kResponseDelay] : CborValue());
            const bool good_index = common || !item[Key::kSignature];
            if (!good_index || !time || !reply) {
                count(counters_, good_index ? "cdns_bad_value" : "cdns_bad_index");
                continue;
            }
            if (!offset && list == BlockKey::kItems) {
                count(counters_, "cdns_no_time");
            }
            if (asked) {
                events_.push_back({.time = *time, .index = i, .list = list});
            }
            if (answered) {
                events_.push_back({.time = *reply, .index = i, .list = list, .response = true});
            }
        }
    }

    [[nodiscard]] std::optional<Nanoseconds> time_of(const CborValue& offset,
                                                     const CborValue& delay) const {
        return cdns_time(earliest_[0].number(), earliest_[1].number(), offset.number(),
                         delay.number(), ticks_);
    }

    bool show(const Event& event, Query& query) {
        const CdnsItem item = at(event.list, event.index);
        query = {};
        query.time = event.time;
        const bool shown = event.list == BlockKey::kItems ? build(item, event.response, query)
                                                          : show_malformed(item, query);
        if (shown && query.is_response()) {
            std::swap(query.source, query.destination);
        }
        return shown;
    }

    bool build(const CdnsItem& item, bool response, Query& query) {
        const bool built = read_cdns_ends(item, query, counters_) &&
                           build_cdns_message(item, response, built_, counters_);
        query.message = built_;
        return built;
    }

    bool show_malformed(const CdnsItem& item, Query& query) {
        query.message = item.common[CdnsMalformedDataKey::kPayload].bytes();
        const size_t size = query.message.size();
        if (!item.common || size < kDnsHeaderSize || size > kMaxMessage) {
            count(counters_, !item.common         ? "cdns_bad_index"
                             : size > kMaxMessage ? "cdns_bad_value"
                                                  : "short_message");
            return false;
        }
        if (!read_cdns_ends(item, query, counters_)) {
            return false;
        }
        count(counters_, "cdns_malformed");
        return true;
    }

    CborReader in_;
    CborItem file_;                              ///< head of the array that is all of it
    CborItem blocks_;                            ///< head of their array
    std::vector<std::int64_t> ticks_per_second_; ///< of each set of block parameters
    std::uint64_t done_ = 0;                     ///< blocks begun
    CborValue block_;                            ///< the current one
    CborValue earliest_;                         ///< its time, in seconds and ticks
    std::int64_t ticks_ = 1;                     ///< a second, in it
    std::vector<Event> events_;                  ///< of it, by time
    size_t shown_ = 0;
    std::vector<std::uint8_t> built_; ///< the message shown
};

/// An array, of three items or of any number, whose first is the text "C-DNS" of 5 bytes.
bool begins_cdns(Bytes head) {
    const std::string_view text = text_of(head);
    return text.starts_with("\203eC-DNS") || text.starts_with("\237eC-DNS");
}

} // namespace

const Form kCdnsForm{.fits = begins_cdns, .open = open_as<CdnsSource>};

} // namespace reprise::trace
