#include "core/trace/forms/cdns/cdns_block.hh"

#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

/// Most memory of a block's entries; vectors may hold twice as much while they grow. Real writers
/// stop at some 5,000 to 100,000 items, a few MiB.
constexpr std::uint64_t kMostMemory = 128UL << 20U;
constexpr size_t kMostParameters = 65'536;

/// `other` is a key whose value is no number: read_other() reads it.
template <typename Key>
CdnsNumbers<Key> read_map(CborReader& in, std::int64_t other, const auto& read_other) {
    CdnsNumbers<Key> out;
    in.map([&](std::int64_t key) {
        if (key == other) {
            read_other();
        } else if (key >= 0 && static_cast<size_t>(key) < out.kSize) {
            out.set(static_cast<size_t>(key), in.signed_number());
        }
    });
    return out;
}

template <typename Key> CdnsNumbers<Key> read_numbers(CborReader& in) {
    return read_map<Key>(in, -1, [] {});
}

CdnsList read_list(CborReader& in) {
    CdnsList out;
    in.array([&] {
        out.push_back(in.signed_number());
        if (out.size() > CborReader::kMostString) {
            in.fail("a list too long for a DNS message");
        }
    });
    return out;
}

CdnsMalformedData read_malformed_data(CborReader& in) {
    constexpr std::int64_t kPayload = 3;
    CdnsMalformedData out;
    out.numbers = read_map<CdnsMalformedDataKey>(in, kPayload, [&] { in.string(out.payload); });
    return out;
}

CdnsItem read_item(CborReader& in) {
    constexpr std::int64_t kQueryExtended = 11;
    CdnsItem out;
    out.numbers = read_map<CdnsItemKey>(
        in, kQueryExtended, [&] { out.query_extended = read_numbers<CdnsExtendedKey>(in); });
    return out;
}

size_t memory_of(const CdnsList& list) {
    return sizeof(CdnsList) + list.size() * sizeof(CdnsList::value_type);
}

size_t memory_of(const CdnsMalformedData& data) { return sizeof(data) + data.payload.size(); }

template <typename T> size_t memory_of(const T& entry) { return sizeof(entry); }

/// Reads the parts of a block and keeps account of its memory.
class BlockReader {
public:
    explicit BlockReader(CborReader& in) : in_(&in) {}

    CdnsBlock read() {
        in_->map([&](std::int64_t key) { part(key); });
        return std::move(block_);
    }

private:
    void charge(std::uint64_t bytes) {
        memory_ += bytes;
        if (memory_ > kMostMemory) {
            in_->fail(fmt::format("a block of over {} MiB", kMostMemory >> 20U));
        }
    }

    /// Entries that are not whole are dropped.
    template <typename T, typename One> void table(std::vector<T>& out, One one) {
        in_->array([&] {
            T entry = one(*in_);
            if (in_->ok()) {
                charge(memory_of(entry));
                out.push_back(std::move(entry));
            }
        });
    }

    void strings(CdnsStrings& out) {
        in_->array([&] {
            const std::uint64_t before = in_->offset();
            out.read(*in_);
            charge(in_->offset() - before + sizeof(size_t));
        });
    }

    void part(std::int64_t key) {
        switch (key) {
        case 0:
            return preamble();
        case 2:
            return in_->map([&](std::int64_t inner) { tables(inner); });
        case 3:
            return table(block_.items, read_item);
        case 5:
            return table(block_.malformed, read_numbers<CdnsMalformedKey>);
        default: // statistics, events of addresses
            return;
        }
    }

    void preamble() {
        in_->map([&](std::int64_t key) {
            if (key == 0) {
                earliest_time();
            } else if (key == 1) {
                block_.parameters = in_->number();
            }
        });
    }

    void earliest_time() {
        const CdnsList time = read_list(*in_);
        if (time.size() != 2) {
            in_->fail("a time of seconds and ticks was expected");
            return;
        }
        block_.earliest_seconds = time[0];
        block_.earliest_ticks = time[1];
    }

    void tables(std::int64_t key) {
        switch (key) {
        case 0:
            return strings(block_.addresses);
        case 1:
            return table(block_.class_types, read_numbers<CdnsClassTypeKey>);
        case 2:
            return strings(block_.names);
        case 3:
            return table(block_.signatures, read_numbers<CdnsSignatureKey>);
        case 4:
            return table(block_.question_lists, read_list);
        case 5:
            return table(block_.questions, read_numbers<CdnsQuestionKey>);
        case 6:
            return table(block_.record_lists, read_list);
        case 7:
            return table(block_.records, read_numbers<CdnsRecordKey>);
        case 8:
            return table(block_.malformed_data, read_malformed_data);
        default:
            return;
        }
    }

    CborReader* in_;
    CdnsBlock block_;
    std::uint64_t memory_ = 0;
};

/// Ticks per second of one set of block parameters.
std::uint64_t read_parameters(CborReader& in) {
    constexpr std::uint64_t kDefaultTicks = 1'000'000;
    std::uint64_t ticks = kDefaultTicks;
    in.map([&](std::int64_t key) {
        if (key == 0) {
            in.map([&](std::int64_t inner) { ticks = inner == 0 ? in.number() : ticks; });
        }
    });
    if (ticks == 0) {
        in.fail("no tick a second");
    }
    return ticks;
}

} // namespace

CdnsPreamble read_cdns_preamble(CborReader& in) {
    CdnsPreamble out;
    in.map([&](std::int64_t key) {
        if (key == 0) {
            out.major = in.number();
        } else if (key == 1) {
            out.minor = in.number();
        } else if (key == 3) {
            in.array([&] {
                out.ticks_per_second.push_back(read_parameters(in));
                if (out.ticks_per_second.size() > kMostParameters) {
                    in.fail("too many block parameters");
                }
            });
        }
    });
    return out;
}

CdnsBlock read_cdns_block(CborReader& in) { return BlockReader(in).read(); }

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

} // namespace reprise::trace
